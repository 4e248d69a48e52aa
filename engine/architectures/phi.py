"""Phi-3, 3.5 and Phi-4-mini: QKV and gate/up are stored fused."""

from __future__ import annotations

import dataclasses

from engine.architectures.fields import Fields, layer_windows, read_common, rotated_share
from engine.architectures.registry import Architecture
from engine.architectures.tensors import Part, norm_parts
from engine.config import ModelConfig


def read_phi3(config: Fields, generation: Fields) -> ModelConfig:
    windows = layer_windows(config, True)
    plain = read_common(config, generation, windows=windows, rotary_dim=0)
    return dataclasses.replace(plain, rotary_dim=int(plain.head_dim * rotated_share(config)))


def phi3_layer(config: ModelConfig, layer: int) -> list[Part]:
    hidden, inner, queries = config.hidden_size, config.intermediate_size, config.query_heads * config.head_dim
    rows = queries + 2 * config.kv_heads * config.head_dim
    return [
        Part("qkv", (("self_attn.qkv_proj", rows),), hidden),
        Part("output", (("self_attn.o_proj", hidden),), queries),
        Part("gate_up", (("mlp.gate_up_proj", 2 * inner),), hidden),
        Part("down", (("mlp.down_proj", hidden),), inner),
        *norm_parts(config),
    ]


ARCHITECTURES = (Architecture("phi3", read_phi3, phi3_layer),)
