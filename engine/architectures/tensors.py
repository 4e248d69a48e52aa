"""Which tensors of a checkpoint become which of the engine's, as data; `engine.loading.fuse` carries it out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.config import ModelConfig


@dataclass(frozen=True)
class Part:
    """One tensor of a layer, or a matrix with its bias.

    Attributes:
        name: the engine's name within the layer, without `.weight`.
        sources: the checkpoint's names within the layer, without `.weight`, and the rows of each; they are joined.
        width: columns; 0 for a vector.
        bias: a bias goes with it.
        order: the rows of the joined tensor in the engine's order; empty: as they are.
        experts: `{expert}` in the sources' names runs over so many, whose matrices are stacked; 0: no experts.
    """

    name: str
    sources: tuple[tuple[str, int], ...]
    width: int = 0
    bias: bool = False
    order: tuple[int, ...] = ()
    experts: int = 0


def vector(name: str, source: str, size: int) -> Part:
    """A norm's weight."""
    return Part(name, ((source, size),))


def attention_parts(config: ModelConfig) -> list[Part]:
    """Query, key, value and output matrices of their own, and the norms of queries and keys."""
    queries, keys = config.query_heads * config.head_dim, config.kv_heads * config.head_dim
    attention = "self_attn."
    sources = ((attention + "q_proj", queries), (attention + "k_proj", keys), (attention + "v_proj", keys))
    parts = [
        Part("qkv", sources, config.hidden_size, config.qkv_bias),
        Part("output", ((attention + "o_proj", config.hidden_size),), queries, config.output_bias),
    ]
    if config.qk_norm:
        parts.append(vector("query_norm", attention + "q_norm", config.head_dim))
        parts.append(vector("key_norm", attention + "k_norm", config.head_dim))
    return parts


def mlp_parts(config: ModelConfig) -> list[Part]:
    """Gate, up and down matrices of their own."""
    hidden, inner = config.hidden_size, config.intermediate_size
    return [
        Part("gate_up", (("mlp.gate_proj", inner), ("mlp.up_proj", inner)), hidden, config.mlp_bias),
        Part("down", (("mlp.down_proj", hidden),), inner, config.mlp_bias),
    ]


def norm_parts(config: ModelConfig) -> list[Part]:
    """The norms before attention and MLP."""
    return [
        vector("attention_norm", "input_layernorm", config.hidden_size),
        vector("mlp_norm", "post_attention_layernorm", config.hidden_size),
    ]


def plain_layer(config: ModelConfig, layer: int) -> list[Part]:
    """A layer as Llama has it."""
    return [*attention_parts(config), *mlp_parts(config), *norm_parts(config)]


LayerParts = Callable[["ModelConfig", int], list[Part]]
