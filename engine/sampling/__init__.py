"""Logits to tokens: `Sampling` says how, `Sampler` draws, `processors` are the steps as pure functions of tensors.

Usable with anybody's engine.  `Sampling` and the errors come without importing torch; the rest loads on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from engine.sampling.errors import EmptyRow, InvalidLogits, SamplingError
from engine.sampling.outcome import GIVE_WAY, Draw, Fallback, TokenLogprob
from engine.sampling.parameters import GREEDY, Sampling

if TYPE_CHECKING:
    from engine.sampling.chain import Chain, SamplerRow
    from engine.sampling.mask import allowed_tokens, apply_mask, row_words
    from engine.sampling.sampler import Sampler

__all__ = [
    "GIVE_WAY",
    "GREEDY",
    "Chain",
    "Draw",
    "EmptyRow",
    "Fallback",
    "InvalidLogits",
    "Sampler",
    "SamplerRow",
    "Sampling",
    "SamplingError",
    "TokenLogprob",
    "allowed_tokens",
    "apply_mask",
    "row_words",
]

_LAZY = {
    "Chain": "chain",
    "SamplerRow": "chain",
    "Sampler": "sampler",
    "allowed_tokens": "mask",
    "apply_mask": "mask",
    "row_words": "mask",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
