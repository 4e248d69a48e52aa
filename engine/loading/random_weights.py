"""Models without files: any shape, random weights.  For measurements and tests; what they say means nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from engine import architectures
from engine.architectures.tensors import Part
from engine.config import ModelConfig
from engine.devices import choose_device, choose_numbers
from engine.errors import ModelError
from engine.loading.fuse import fuse_weights
from engine.model import Model
from engine.packed import pack_weights

_LLAMA = {"model_type": "llama", "rms_norm_eps": 1e-5, "tie_word_embeddings": False}

SHAPES: dict[str, Mapping[str, Any]] = {
    "smollm2-135m": {
        **_LLAMA, "vocab_size": 49_152, "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30,
        "num_attention_heads": 9, "num_key_value_heads": 3, "max_position_embeddings": 8192, "tie_word_embeddings": True,
    },
    "llama-3.2-1b": {
        **_LLAMA, "vocab_size": 128_256, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
        "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131_072, "tie_word_embeddings": True,
    },
    "llama-3-8b": {
        **_LLAMA, "vocab_size": 128_256, "hidden_size": 4096, "intermediate_size": 14_336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 8192,
    },
    "qwen3-0.6b": {
        "model_type": "qwen3", "rms_norm_eps": 1e-6, "vocab_size": 151_936, "hidden_size": 1024, "intermediate_size": 3072,
        "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
        "max_position_embeddings": 40_960, "tie_word_embeddings": True,
    },
}  # fmt: skip
"""Configurations of published models, as in their `config.json`, as far as speed depends on them."""


def random_model(
    config: ModelConfig | str,
    *,
    device: str | torch.device = "auto",
    dtype: str | torch.dtype = "auto",
    seed: int = 0,
) -> Model:
    """A model of this shape with random weights and no tokenizer.

    Args:
        config: a configuration, or one of `SHAPES` by name.
        device, dtype: as for `load_model`; `"auto"` packs nothing.

    Raises:
        ModelError: no such shape, device or dtype.
    """
    if isinstance(config, str):
        if config not in SHAPES:
            raise ModelError(f"no shape {config!r}: choose {', '.join(SHAPES)}")
        config = ModelConfig.from_huggingface(SHAPES[config])
    chosen = choose_device(device)
    numbers, packing = choose_numbers(dtype, chosen)
    shapes = dict(_shapes(config))
    generator = torch.Generator(chosen).manual_seed(seed)
    shift = architectures.find(config.architecture).norms_from_one

    def weight(name: str) -> Tensor:
        shape = shapes[name]
        drawn = torch.randn(shape, generator=generator, device=chosen, dtype=numbers)
        if "norm" in name.rsplit(".", 2)[-2]:
            return drawn.mul_(0.1).add_(0.0 if shift else 1.0)
        return drawn.mul_(shape[-1] ** -0.5)

    with torch.no_grad():
        weights = fuse_weights(config, weight)
        if packing is not None:
            weights = pack_weights(weights, packing)
    return Model(config, weights)


def _shapes(config: ModelConfig) -> list[tuple[str, tuple[int, ...]]]:
    """Name and shape of every tensor of a checkpoint."""
    hidden, vocab = config.hidden_size, config.vocab_size
    found: list[tuple[str, tuple[int, ...]]] = [
        ("model.embed_tokens.weight", (vocab, hidden)),
        ("model.norm.weight", (hidden,)),
        ("lm_head.weight", (vocab, hidden)),
    ]
    parts = architectures.find(config.architecture).layer_parts
    for layer in range(config.layers):
        for part in parts(config, layer):
            found += [(f"model.layers.{layer}.{name}", shape) for name, shape in _of_part(part)]
    return found


def _of_part(part: Part) -> list[tuple[str, tuple[int, ...]]]:
    found: list[tuple[str, tuple[int, ...]]] = []
    for source, rows in part.sources:
        names = [source.format(expert=at) for at in range(part.experts)] if part.experts else [source]
        for name in names:
            found.append((f"{name}.weight", (rows, part.width) if part.width else (rows,)))
            if part.bias:
                found.append((f"{name}.bias", (rows,)))
    return found
