"""Llama 2, 3 and 3.x, SmolLM 1 and 2, Mistral, Qwen2 and 2.5 (bias on QKV), Qwen3 (norms of queries and keys)."""

from __future__ import annotations

from engine.architectures.fields import Fields, layer_windows, read_common
from engine.architectures.registry import Architecture
from engine.architectures.tensors import plain_layer
from engine.config import ModelConfig


def read_llama(config: Fields, generation: Fields) -> ModelConfig:
    return read_common(config, generation)


def read_mistral(config: Fields, generation: Fields) -> ModelConfig:
    return read_common(config, generation, windows=layer_windows(config, True))


def read_qwen2(config: Fields, generation: Fields) -> ModelConfig:
    return read_common(config, generation, qkv_bias=True)


def read_qwen3(config: Fields, generation: Fields) -> ModelConfig:
    return read_common(config, generation, qk_norm=True)


ARCHITECTURES = (
    Architecture("llama", read_llama, plain_layer),
    Architecture("mistral", read_mistral, plain_layer),
    Architecture("qwen2", read_qwen2, plain_layer),
    Architecture("qwen3", read_qwen3, plain_layer),
)
