"""From a model file's tensors to the engine's: fused QKV and gate/up, one name per thing."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from engine.config import ModelConfig
from engine.errors import ModelFileError

GetTensor = Callable[[str], Tensor]
"""Gives a tensor by its Transformers name (`model.layers.0.self_attn.q_proj.weight`) in the engine's dtype."""


def fuse_weights(config: ModelConfig, get: GetTensor) -> dict[str, Tensor]:
    """The engine's weights: `embedding`, `norm`, `head` (unless tied) and per layer `qkv`, `output`, `gate_up`, `down`,
    `attention_norm`, `mlp_norm` and, with `qk_norm`, `query_norm` and `key_norm`; each `.weight`, some `.bias`.

    Raises:
        ModelFileError: a tensor whose shape is not the one that the configuration implies.
    """

    def sized(name: str, *shape: int) -> Tensor:
        tensor = get(name)
        if tuple(tensor.shape) != shape:
            raise ModelFileError(
                f"tensor {name} has the shape {list(tensor.shape)}, but the model's configuration asks for {list(shape)}: "
                "the files do not belong together, or are damaged; fetch the model again"
            )
        return tensor

    hidden, vocab = config.hidden_size, config.vocab_size
    weights = {
        "embedding.weight": sized("model.embed_tokens.weight", vocab, hidden),
        "norm.weight": sized("model.norm.weight", hidden),
    }
    if not config.tied_embeddings:
        weights["head.weight"] = sized("lm_head.weight", vocab, hidden)
    for layer in range(config.layers):
        weights.update(_fuse_layer(config, layer, sized))
    return weights


def _fuse_layer(config: ModelConfig, layer: int, sized: Callable[..., Tensor]) -> dict[str, Tensor]:
    theirs, ours = f"model.layers.{layer}.", f"layers.{layer}."
    hidden, inner, head = config.hidden_size, config.intermediate_size, config.head_dim
    queries, keys = config.query_heads * head, config.kv_heads * head
    weights: dict[str, Tensor] = {}
    for name, width, parts, has_bias in (
        (
            "qkv",
            hidden,
            {"self_attn.q_proj": queries, "self_attn.k_proj": keys, "self_attn.v_proj": keys},
            config.qkv_bias,
        ),
        ("output", queries, {"self_attn.o_proj": hidden}, config.output_bias),
        ("gate_up", hidden, {"mlp.gate_proj": inner, "mlp.up_proj": inner}, config.mlp_bias),
        ("down", inner, {"mlp.down_proj": hidden}, config.mlp_bias),
    ):
        matrices = [sized(f"{theirs}{part}.weight", rows, width) for part, rows in parts.items()]
        weights[f"{ours}{name}.weight"] = _joined(matrices)
        if has_bias:
            weights[f"{ours}{name}.bias"] = _joined(
                [sized(f"{theirs}{part}.bias", rows) for part, rows in parts.items()]
            )
    weights[ours + "attention_norm.weight"] = sized(theirs + "input_layernorm.weight", hidden)
    weights[ours + "mlp_norm.weight"] = sized(theirs + "post_attention_layernorm.weight", hidden)
    if config.qk_norm:
        weights[ours + "query_norm.weight"] = sized(theirs + "self_attn.q_norm.weight", head)
        weights[ours + "key_norm.weight"] = sized(theirs + "self_attn.k_norm.weight", head)
    return weights


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)
