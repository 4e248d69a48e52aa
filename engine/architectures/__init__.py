"""The decoders that the engine runs, each a file: what it reads from a `config.json`, and which tensors it has."""

from __future__ import annotations

from engine.architectures import deepseek, gemma, llama, phi, smollm3
from engine.architectures.registry import Architecture, find, names, read_huggingface, register

for _family in (llama, smollm3, phi, gemma, deepseek):
    for _architecture in _family.ARCHITECTURES:
        register(_architecture)

__all__ = ["Architecture", "find", "names", "read_huggingface", "register"]
