"""What a decoder-only transformer of the Llama family is made of, read from a GGUF's metadata or a `config.json`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from engine.errors import ModelFileError, UnknownArchitecture

ARCHITECTURES = ("llama", "mistral", "qwen2", "qwen3")

RopeKind = Literal["default", "linear", "dynamic", "llama3", "yarn"]
ROPE_KINDS: tuple[RopeKind, ...] = ("default", "linear", "dynamic", "llama3", "yarn")


@dataclass(frozen=True)
class RopeConfig:
    """Rotary position embedding: the base and how it is stretched to longer contexts.

    Attributes:
        theta: base of the geometric series of frequencies.
        kind: `"default"`, `"linear"` (positions divided by `factor`), `"dynamic"` (unscaled up to `original_context`,
            beyond which this engine does not go), `"llama3"` or `"yarn"` (Peng et al. 2023).
        factor: stretch of the context.
        original_context: context length of the pretraining, in tokens.
        low_frequency_factor, high_frequency_factor: the band that `"llama3"` interpolates in.
        beta_fast, beta_slow, attention_factor, mscale, mscale_all_dim, truncate: see YaRN, section 3.
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


@dataclass(frozen=True)
class ModelConfig:
    """Shape and options of a decoder.

    Attributes:
        vocab_size: length of a row of logits; may exceed the number of the tokenizer's tokens.
        context_length: most positions of one sequence.
        rope_dims: leading dimensions of each head that are rotated.
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
    bos_token_id: int | None = None
    pad_token_id: int | None = None
    eos_token_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.architecture not in ARCHITECTURES:
            raise UnknownArchitecture(
                f"unknown architecture {self.architecture!r}: this engine runs {', '.join(ARCHITECTURES)}"
            )
        if self.kv_heads < 1 or self.query_heads % self.kv_heads:
            raise ModelFileError(
                f"{self.query_heads} query heads cannot share {self.kv_heads} key/value heads: "
                "the first must be a multiple of the second"
            )
        if self.head_dim % 2:
            raise ModelFileError(f"head dimension {self.head_dim} is odd, but RoPE rotates pairs")

    @property
    def group_size(self) -> int:
        """Query heads that share one key/value head."""
        return self.query_heads // self.kv_heads

    @classmethod
    def from_huggingface(cls, config: Mapping[str, Any], generation: Mapping[str, Any] | None = None) -> ModelConfig:
        """Reads a `config.json`; the end tokens come from `generation_config.json` where that names any.

        Raises:
            UnknownArchitecture: `model_type`, activation or RoPE kind that the engine does not compute.
            ModelFileError: a key that every configuration of the family has is missing.
        """
        architecture = str(config.get("model_type", "(none)"))
        if architecture not in ARCHITECTURES:
            raise UnknownArchitecture(
                f"unknown architecture {architecture!r} in config.json: this engine runs {', '.join(ARCHITECTURES)}"
            )
        activation = config.get("hidden_act", "silu")
        if activation not in ("silu", "swish"):
            raise UnknownArchitecture(f"activation {activation!r} in config.json: only 'silu' is computed")
        try:
            hidden, query_heads = int(config["hidden_size"]), int(config["num_attention_heads"])
            layers, context = int(config["num_hidden_layers"]), int(config["max_position_embeddings"])
            vocab, intermediate = int(config["vocab_size"]), int(config["intermediate_size"])
        except KeyError as missing:
            raise ModelFileError(f"config.json has no {missing.args[0]!r}: take a whole {architecture} model") from None
        rope, context = _huggingface_rope(config, context)
        window = config.get("sliding_window")
        if window is not None and config.get("use_sliding_window", architecture == "mistral"):
            # Inside the first window a sliding mask equals the causal one, so the model is exact up to there.
            context = min(context, int(window))
        bias = bool(config.get("attention_bias", False))
        ends = (generation or {}).get("eos_token_id", config.get("eos_token_id"))
        return cls(
            architecture=architecture,
            vocab_size=vocab,
            hidden_size=hidden,
            layers=layers,
            query_heads=query_heads,
            kv_heads=int(config.get("num_key_value_heads") or query_heads),
            head_dim=int(config.get("head_dim") or hidden // query_heads),
            intermediate_size=intermediate,
            context_length=context,
            norm_eps=float(config.get("rms_norm_eps", 1e-6)),
            rope=rope,
            tied_embeddings=bool(config.get("tie_word_embeddings", False)),
            qkv_bias=bias or architecture == "qwen2",
            output_bias=bias,
            mlp_bias=bool(config.get("mlp_bias", False)),
            qk_norm=architecture == "qwen3",
            bos_token_id=_first(config.get("bos_token_id")),
            pad_token_id=_first(config.get("pad_token_id")),
            eos_token_ids=_ids(ends),
        )

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, Any], tensors: Collection[str]) -> ModelConfig:
        """Reads a GGUF's metadata; `tensors` are the names of the file's tensors (they tell biases and tying).

        Raises:
            UnknownArchitecture, ModelFileError: as in `from_huggingface`.
        """
        architecture = str(metadata.get("general.architecture", "(none)"))
        if architecture not in ARCHITECTURES:
            raise UnknownArchitecture(
                f"unknown architecture {architecture!r} in the GGUF: this engine runs {', '.join(ARCHITECTURES)}"
            )
        if f"{architecture}.expert_count" in metadata:
            raise UnknownArchitecture(f"a mixture of experts ({architecture}): only dense models are computed")

        def field(name: str, default: Any = None) -> Any:
            value = metadata.get(f"{architecture}.{name}", default)
            if value is None:
                raise ModelFileError(f"the GGUF has no {architecture}.{name}: it is not a whole {architecture} model")
            return value

        hidden, query_heads = int(field("embedding_length")), int(field("attention.head_count"))
        head_dim = int(field("attention.key_length", hidden // query_heads))
        context = int(field("context_length"))
        rope = _gguf_rope(metadata, architecture, context, "rope_freqs.weight" in tensors)
        if int(field("rope.dimension_count", head_dim)) != head_dim:
            raise UnknownArchitecture("RoPE over a part of each head: only whole heads are rotated")
        window = int(field("attention.sliding_window", 0))
        names = frozenset(tensors)
        return cls(
            architecture=architecture,
            vocab_size=int(field("vocab_size", len(metadata.get("tokenizer.ggml.tokens", ())) or None)),
            hidden_size=hidden,
            layers=int(field("block_count")),
            query_heads=query_heads,
            kv_heads=int(field("attention.head_count_kv", query_heads)),
            head_dim=head_dim,
            intermediate_size=int(field("feed_forward_length")),
            context_length=min(context, window) if window else context,
            norm_eps=float(field("attention.layer_norm_rms_epsilon")),
            rope=rope,
            tied_embeddings="output.weight" not in names,
            qkv_bias="blk.0.attn_q.bias" in names,
            output_bias="blk.0.attn_output.bias" in names,
            mlp_bias="blk.0.ffn_gate.bias" in names,
            qk_norm="blk.0.attn_q_norm.weight" in names,
            bos_token_id=_first(metadata.get("tokenizer.ggml.bos_token_id")),
            pad_token_id=_first(metadata.get("tokenizer.ggml.padding_token_id")),
            eos_token_ids=gguf_end_tokens(metadata),
        )


def gguf_end_tokens(metadata: Mapping[str, Any]) -> tuple[int, ...]:
    """Tokens that end a text, a turn or a message, by a GGUF's metadata."""
    keys = (f"tokenizer.ggml.{name}_token_id" for name in ("eos", "eot", "eom"))
    return _ids([metadata[key] for key in keys if key in metadata])


def _huggingface_rope(config: Mapping[str, Any], context: int) -> tuple[RopeConfig, int]:
    """RoPE of a `config.json` of either spelling (`rope_parameters`, or `rope_theta` with `rope_scaling`)."""
    given: Mapping[str, Any] = config.get("rope_parameters") or config.get("rope_scaling") or {}
    theta = float(given.get("rope_theta") or config.get("rope_theta") or 10_000.0)
    kind = given.get("rope_type") or given.get("type") or "default"
    if float(given.get("partial_rotary_factor") or config.get("partial_rotary_factor") or 1.0) != 1.0:
        raise UnknownArchitecture("RoPE over a part of each head: only whole heads are rotated")
    original = int(given.get("original_max_position_embeddings") or context)
    factor = given.get("factor")
    if factor is None:
        factor = context / original if kind == "yarn" else 1.0
    optional = {
        ours: given[theirs]
        for ours, theirs in (
            ("low_frequency_factor", "low_freq_factor"),
            ("high_frequency_factor", "high_freq_factor"),
            ("beta_fast", "beta_fast"),
            ("beta_slow", "beta_slow"),
            ("attention_factor", "attention_factor"),
            ("mscale", "mscale"),
            ("mscale_all_dim", "mscale_all_dim"),
            ("truncate", "truncate"),
        )
        if given.get(theirs) is not None
    }
    rope = RopeConfig(theta, _rope_kind(kind), float(factor), original, **optional)
    # `"dynamic"` changes the base with the length, which keys already cached do not follow: stop where it would begin.
    return rope, min(context, original) if kind == "dynamic" else context


def _gguf_rope(metadata: Mapping[str, Any], architecture: str, context: int, has_factors: bool) -> RopeConfig:
    """RoPE of a GGUF.  Llama 3's scaling is stored as a tensor of divisors, one per frequency, not as parameters."""
    prefix = f"{architecture}.rope."
    theta = float(metadata.get(prefix + "freq_base", 10_000.0))
    kind = metadata.get(prefix + "scaling.type", "none")
    if has_factors:
        return RopeConfig(theta, "llama3", original_context=context)
    if kind == "none":
        return RopeConfig(theta, original_context=context)
    return RopeConfig(
        theta,
        _rope_kind(kind),
        factor=float(metadata.get(prefix + "scaling.factor", 1.0)),
        original_context=int(metadata.get(prefix + "scaling.original_context_length", context)),
    )


def _rope_kind(kind: str) -> RopeKind:
    for known in ROPE_KINDS:
        if kind == known:
            return known
    raise UnknownArchitecture(f"RoPE scaling {kind!r}: this engine computes {', '.join(ROPE_KINDS)}")


def _ids(value: int | Collection[int] | None) -> tuple[int, ...]:
    """Token ids named by an int, a list or nothing, without repetition."""
    if value is None:
        return ()
    return (value,) if isinstance(value, int) else tuple(dict.fromkeys(int(token) for token in value))


def _first(value: int | Collection[int] | None) -> int | None:
    ids = _ids(value)
    return ids[0] if ids else None
