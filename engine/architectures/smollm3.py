"""SmolLM3: a Llama in which every fourth layer has no RoPE (Yang et al. 2025, RNoPE)."""

from __future__ import annotations

from engine.architectures.fields import Fields, read_common, read_rope, rope_parameters
from engine.architectures.registry import Architecture
from engine.architectures.tensors import plain_layer
from engine.config import ModelConfig


def read_smollm3(config: Fields, generation: Fields) -> ModelConfig:
    plain = read_common(config, generation)
    rotated = config.get("no_rope_layers")  # 1 for a layer *with* RoPE, whatever the name says
    if rotated is None:
        interval = int(config.get("no_rope_layer_interval", 4))
        rotated = [(layer + 1) % interval for layer in range(plain.layers)]
    return read_common(
        config,
        generation,
        rope=read_rope(config, rope_parameters(config), plain.context_length, theta=2_000_000.0),
        unrotated_layers=tuple(layer for layer, turns in enumerate(rotated) if not turns),
    )


ARCHITECTURES = (Architecture("smollm3", read_smollm3, plain_layer),)
