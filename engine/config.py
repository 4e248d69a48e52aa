"""What a decoder-only transformer is made of, read from a GGUF's metadata or a `config.json`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from engine.errors import ContextError, ModelFileError, UnknownArchitecture

RopeKind = Literal["default", "linear", "dynamic", "llama3", "yarn", "longrope"]
ROPE_KINDS: tuple[RopeKind, ...] = ("default", "linear", "dynamic", "llama3", "yarn", "longrope")

Activation = Literal["silu", "gelu_tanh"]


@dataclass(frozen=True)
class RopeConfig:
    """Rotary position embedding: the base and how it is stretched to longer contexts.

    Attributes:
        theta: base of the geometric series of frequencies.
        kind: `"default"`, `"linear"` (positions divided by `factor`), `"dynamic"` (a base that grows with the context),
            `"llama3"`, `"yarn"` (Peng et al. 2023) or `"longrope"` (Ding et al. 2024).
        factor: stretch of the context.
        original_context: context length of the pretraining, in tokens.
        low_frequency_factor, high_frequency_factor: the band that `"llama3"` interpolates in.
        beta_fast, beta_slow, attention_factor, mscale, mscale_all_dim, truncate: see YaRN, section 3.
        short_factors, long_factors: divisors of the frequencies of `"longrope"`, one per frequency: up to `original_context`,
            and past it.
        longest: positions to which `"dynamic"` and `"longrope"` can be stretched; 0: they are as they are.
        target: the context that their frequencies are for; up to `original_context`, or 0, they are those of the pretraining.
    """

    theta: float = 10_000.0
    kind: RopeKind = "default"
    factor: float = 1.0
    original_context: int = 0
    low_frequency_factor: float = 1.0
    high_frequency_factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None
    truncate: bool = True
    short_factors: tuple[float, ...] = ()
    long_factors: tuple[float, ...] = ()
    longest: int = 0
    target: int = 0

    @property
    def is_stretched(self) -> bool:
        """Whether the frequencies are those of a context past the original one."""
        return self.target > self.original_context


@dataclass(frozen=True)
class LatentConfig:
    """Multi-head latent attention (DeepSeek-V2, section 2.1): widths of what keys and values are made from.

    Attributes:
        rank: width of the compressed keys and values, which is what a cache holds besides the rotated part.
        query_rank: width of the compressed queries; 0: they are not compressed.
        unrotated, rotated: dimensions of each query and key head without and with RoPE; the rotated keys are shared.
        value_dim: dimensions of each value head.
    """

    rank: int
    query_rank: int
    unrotated: int
    rotated: int
    value_dim: int


@dataclass(frozen=True)
class ExpertsConfig:
    """A mixture of experts in place of the MLP (DeepSeek-V2, section 2.2).

    Attributes:
        count, chosen: experts of a layer, and how many of them each token goes through.
        inner: hidden width of one expert.
        shared: experts that every token goes through besides.
        first_layer: layers before it have a plain MLP.
        groups, chosen_groups: experts are chosen from the best `chosen_groups` of equal `groups`; 1: from all.
        scale: factor of the chosen experts' weights.
    """

    count: int
    chosen: int
    inner: int
    shared: int
    first_layer: int
    groups: int = 1
    chosen_groups: int = 1
    scale: float = 1.0


@dataclass(frozen=True)
class ModelConfig:
    """Shape and options of a decoder.

    Attributes:
        vocab_size: length of a row of logits; may exceed the number of the tokenizer's tokens.
        context_length: most positions of one sequence.
        kv_heads, head_dim: of what a cache holds; with `latent`, one head of `rank + rotated` dimensions.
        rotary_dim: leading dimensions of each head that are rotated; 0: all.
        windows: of each layer, how many positions a query sees, its own among them; 0: all.  Empty: 0 everywhere.
        unrotated_layers: layers without RoPE.
        local_rope: RoPE of the layers that have a window; `None`: the same as the others'.
        attention_scale: factor of the scores; `None`: 1 / sqrt(head_dim).
        attention_softcap, logit_softcap: c · tanh(x / c) of scores and logits; 0: none.
        embedding_scale: factor of the embedding, rounded to the dtype.
        post_norms: the outputs of attention and MLP are normalised before they are added (Gemma 2).
        eos_token_ids: tokens that end a generation, in the order in which the model's files name them.
    """

    architecture: str
    vocab_size: int
    hidden_size: int
    layers: int
    query_heads: int
    kv_heads: int
    head_dim: int
    intermediate_size: int
    context_length: int
    norm_eps: float
    rope: RopeConfig
    tied_embeddings: bool
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    activation: Activation = "silu"
    rotary_dim: int = 0
    windows: tuple[int, ...] = ()
    unrotated_layers: tuple[int, ...] = ()
    local_rope: RopeConfig | None = None
    attention_scale: float | None = None
    attention_softcap: float = 0.0
    logit_softcap: float = 0.0
    embedding_scale: float = 1.0
    post_norms: bool = False
    latent: LatentConfig | None = None
    experts: ExpertsConfig | None = None
    bos_token_id: int | None = None
    pad_token_id: int | None = None
    eos_token_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        from engine.architectures import find

        find(self.architecture)
        if self.kv_heads < 1 or self.query_heads % self.kv_heads:
            raise ModelFileError(
                f"{self.query_heads} query heads cannot share {self.kv_heads} key/value heads: "
                "the first must be a multiple of the second"
            )
        if self.rotated % 2:
            raise ModelFileError(f"head dimension {self.rotated} is odd, but RoPE rotates pairs")
        if self.windows and len(self.windows) != self.layers:
            raise ModelFileError(f"windows of {len(self.windows)} layers for a model of {self.layers}")

    def for_context(self, positions: int) -> ModelConfig:
        """The same for sequences of up to so many positions.

        RoPE of the kinds `"dynamic"` and `"longrope"` is stretched where that is past the original context, for all positions
        and all sequences alike: its frequencies must not follow the length, since what is in a cache would not.

        Raises:
            ContextError: less than one position, or more than the model can do.
        """
        most = max(self.context_length, self.rope.longest)
        if not 1 <= positions <= most:
            raise ContextError(f"context_length={positions}: this model takes 1 to {most:,}")
        if positions <= self.context_length:
            return replace(self, context_length=positions)
        return replace(self, context_length=positions, rope=replace(self.rope, target=positions))

    @property
    def longer_context(self) -> str:
        """What to do where a sequence is too long, for the end of an error; empty where the model cannot be stretched."""
        longest = self.rope.longest
        if longest <= self.context_length:
            return ""
        return f"; or load it with context_length up to {longest}, which stretches its RoPE for all sequences"

    @property
    def group_size(self) -> int:
        """Query heads that share one key/value head."""
        return self.query_heads // self.kv_heads

    @property
    def rotated(self) -> int:
        """Dimensions of each head that RoPE turns."""
        return self.latent.rotated if self.latent else self.rotary_dim or self.head_dim

    @property
    def value_dim(self) -> int:
        """Dimensions of a cached value head: none with `latent`, where values are a part of the keys."""
        return 0 if self.latent else self.head_dim

    @property
    def kv_values_per_token(self) -> int:
        """Numbers that a cache keeps for one token, over all layers."""
        return self.layers * self.kv_heads * (self.head_dim + self.value_dim)

    def window(self, layer: int) -> int:
        """Positions that a query of `layer` sees, its own among them; 0: all."""
        return self.windows[layer] if self.windows else 0

    @classmethod
    def from_huggingface(cls, config: Mapping[str, Any], generation: Mapping[str, Any] | None = None) -> ModelConfig:
        """Reads a `config.json`; the end tokens come from `generation_config.json` where that names any.

        Raises:
            UnknownArchitecture: `model_type`, activation or RoPE kind that the engine does not compute.
            ModelFileError: a key that every configuration of the family has is missing.
        """
        from engine.architectures import read_huggingface

        return read_huggingface(config, generation or {})

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, Any], tensors: Collection[str]) -> ModelConfig:
        """Reads a GGUF's metadata; `tensors` are the names of the file's tensors (they tell biases and tying).

        Raises:
            UnknownArchitecture, ModelFileError: as in `from_huggingface`.
        """
        from engine.architectures.gguf import read_gguf

        return read_gguf(metadata, tensors)


def gguf_end_tokens(metadata: Mapping[str, Any]) -> tuple[int, ...]:
    """Tokens that end a text, a turn or a message, by a GGUF's metadata."""
    keys = (f"tokenizer.ggml.{name}_token_id" for name in ("eos", "eot", "eom"))
    return token_ids([metadata[key] for key in keys if key in metadata])


def rope_kind(kind: str) -> RopeKind:
    for known in ROPE_KINDS:
        if kind == known:
            return known
    raise UnknownArchitecture(f"RoPE scaling {kind!r}: this engine computes {', '.join(ROPE_KINDS)}")


def token_ids(value: int | Collection[int] | None) -> tuple[int, ...]:
    """Token ids named by an int, a list or nothing, without repetition."""
    if value is None:
        return ()
    return (value,) if isinstance(value, int) else tuple(dict.fromkeys(int(token) for token in value))


def first_id(value: int | Collection[int] | None) -> int | None:
    ids = token_ids(value)
    return ids[0] if ids else None
