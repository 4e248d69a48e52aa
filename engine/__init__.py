"""A decoder-only language model decodes: weights, attention, KV caches, sampling, generation.

Knows a constraint only through the protocol in `engine.constraint`; knows no grammar.  Names load on first use, so that
importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.caches import kv_cache_bytes, required_blocks
    from engine.constraint import SpeculativeConstraint, TokenConstraint
    from engine.generation import Output, Token, TokenStream, generate
    from engine.loading import load_model
    from engine.metrics import Metrics
    from engine.model import Model
    from engine.sampling import EmptyRow, Fallback, InvalidLogits, Sampling, SamplingError

__all__ = [
    "EmptyRow",
    "Fallback",
    "InvalidLogits",
    "Metrics",
    "Model",
    "Output",
    "Sampling",
    "SamplingError",
    "SpeculativeConstraint",
    "Token",
    "TokenConstraint",
    "TokenStream",
    "generate",
    "kv_cache_bytes",
    "load_model",
    "required_blocks",
]

_HOMES = {
    "EmptyRow": "sampling",
    "Fallback": "sampling",
    "InvalidLogits": "sampling",
    "Metrics": "metrics",
    "Model": "model",
    "Output": "generation",
    "Sampling": "sampling",
    "SamplingError": "sampling",
    "SpeculativeConstraint": "constraint",
    "Token": "generation",
    "TokenConstraint": "constraint",
    "TokenStream": "generation",
    "generate": "generation",
    "kv_cache_bytes": "caches",
    "load_model": "loading",
    "required_blocks": "caches",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
