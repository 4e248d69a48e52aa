"""Speculative decoding that keeps the constraint and the distribution: proposers guess tokens ahead, one forward pass of the
target verifies them.

`Speculation` is what generation takes; `Proposer` is what a third party implements; `verify` is the rule alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.speculation.combined import Combined
    from engine.speculation.draft import Drafted, Frontier, Target
    from engine.speculation.lookups import Forced, NGram
    from engine.speculation.models import DraftHead, DraftModel, EarlyExit, HeadProposer, LinearHead
    from engine.speculation.names import NAMES, make_proposer
    from engine.speculation.proposer import Drafter, Proposer
    from engine.speculation.speculation import Speculation, Speculator
    from engine.speculation.suffix import Suffix
    from engine.speculation.universal import Universal
    from engine.speculation.verification import Verdict, verify

_HOMES = {
    "Combined": "combined",
    "Drafted": "draft",
    "Frontier": "draft",
    "Target": "draft",
    "Forced": "lookups",
    "NGram": "lookups",
    "DraftHead": "models",
    "DraftModel": "models",
    "EarlyExit": "models",
    "HeadProposer": "models",
    "LinearHead": "models",
    "NAMES": "names",
    "make_proposer": "names",
    "Drafter": "proposer",
    "Proposer": "proposer",
    "Speculation": "speculation",
    "Speculator": "speculation",
    "Suffix": "suffix",
    "Universal": "universal",
    "Verdict": "verification",
    "verify": "verification",
}

__all__ = [
    "NAMES",
    "Combined",
    "DraftHead",
    "DraftModel",
    "Drafted",
    "Drafter",
    "EarlyExit",
    "Forced",
    "Frontier",
    "HeadProposer",
    "LinearHead",
    "NGram",
    "Proposer",
    "Speculation",
    "Speculator",
    "Suffix",
    "Target",
    "Universal",
    "Verdict",
    "make_proposer",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
