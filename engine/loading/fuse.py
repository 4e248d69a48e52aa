"""From a model file's tensors to the engine's: fused QKV and gate/up, one name per thing."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from engine.config import ModelConfig

GetTensor = Callable[[str], Tensor]
"""Gives a tensor by its Transformers name (`model.layers.0.self_attn.q_proj.weight`) in the engine's dtype."""


def fuse_weights(config: ModelConfig, get: GetTensor) -> dict[str, Tensor]:
    """The engine's weights: `embedding`, `norm`, `head` (unless tied) and per layer `qkv`, `output`, `gate_up`, `down`,
    `attention_norm`, `mlp_norm` and, with `qk_norm`, `query_norm` and `key_norm`; each `.weight`, some `.bias`.
    """
    weights = {"embedding.weight": get("model.embed_tokens.weight"), "norm.weight": get("model.norm.weight")}
    if not config.tied_embeddings:
        weights["head.weight"] = get("lm_head.weight")
    for layer in range(config.layers):
        weights.update(_fuse_layer(config, layer, get))
    return weights


def _fuse_layer(config: ModelConfig, layer: int, get: GetTensor) -> dict[str, Tensor]:
    theirs, ours = f"model.layers.{layer}.", f"layers.{layer}."

    def joined(kind: str, *names: str) -> Tensor:
        parts = [get(f"{theirs}{name}.{kind}") for name in names]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    weights: dict[str, Tensor] = {}
    for name, parts, has_bias in (
        ("qkv", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), config.qkv_bias),
        ("output", ("self_attn.o_proj",), config.output_bias),
        ("gate_up", ("mlp.gate_proj", "mlp.up_proj"), config.mlp_bias),
        ("down", ("mlp.down_proj",), config.mlp_bias),
    ):
        weights[f"{ours}{name}.weight"] = joined("weight", *parts)
        if has_bias:
            weights[f"{ours}{name}.bias"] = joined("bias", *parts)
    weights[ours + "attention_norm.weight"] = get(theirs + "input_layernorm.weight")
    weights[ours + "mlp_norm.weight"] = get(theirs + "post_attention_layernorm.weight")
    if config.qk_norm:
        weights[ours + "query_norm.weight"] = get(theirs + "self_attn.q_norm.weight")
        weights[ours + "key_norm.weight"] = get(theirs + "self_attn.k_norm.weight")
    return weights
