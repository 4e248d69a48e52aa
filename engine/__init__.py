"""A decoder-only language model decodes: weights, attention, KV caches, sampling, generation.

Knows a constraint only through the protocol in `engine.constraint`; knows no grammar.  Names are imported when first
used: the arithmetic of `kv_cache_bytes` does not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.caches.plan import kv_cache_bytes, required_blocks
    from engine.config import ModelConfig
    from engine.constraint import DeviceConstraint, DeviceRows, SpeculativeConstraint, TokenConstraint
    from engine.generation import Output, Token, TokenStream, generate
    from engine.loading import fetch_default_model, load_model, load_text
    from engine.metrics import Metrics
    from engine.model import Model
    from engine.sampling import EmptyRow, Fallback, InvalidLogits, Sampling, SamplingError
    from engine.text import Text

__all__ = [
    "DeviceConstraint",
    "DeviceRows",
    "EmptyRow",
    "Fallback",
    "InvalidLogits",
    "Metrics",
    "Model",
    "ModelConfig",
    "Output",
    "Sampling",
    "SamplingError",
    "SpeculativeConstraint",
    "Text",
    "Token",
    "TokenConstraint",
    "TokenStream",
    "fetch_default_model",
    "generate",
    "kv_cache_bytes",
    "load_model",
    "load_text",
    "required_blocks",
]

_HOMES = {
    "DeviceConstraint": "engine.constraint",
    "DeviceRows": "engine.constraint",
    "EmptyRow": "engine.sampling",
    "Fallback": "engine.sampling",
    "InvalidLogits": "engine.sampling",
    "Metrics": "engine.metrics",
    "Model": "engine.model",
    "ModelConfig": "engine.config",
    "Output": "engine.generation",
    "Sampling": "engine.sampling",
    "SamplingError": "engine.sampling",
    "SpeculativeConstraint": "engine.constraint",
    "Text": "engine.text",
    "Token": "engine.generation",
    "TokenConstraint": "engine.constraint",
    "TokenStream": "engine.generation",
    "fetch_default_model": "engine.loading",
    "generate": "engine.generation",
    "kv_cache_bytes": "engine.caches.plan",
    "load_model": "engine.loading",
    "load_text": "engine.loading",
    "required_blocks": "engine.caches.plan",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'engine' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
