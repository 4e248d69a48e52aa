"""Proposers by name, alone or joined by "+"."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import SpeculationError
from engine.speculation.combined import Combined
from engine.speculation.lookups import Fold, Forced, NGram
from engine.speculation.models import DraftModel, EarlyExit, relative_cost
from engine.speculation.proposer import Proposer
from engine.speculation.suffix import Suffix
from engine.speculation.universal import Universal

if TYPE_CHECKING:
    from engine.model import Model
    from engine.text import Text

AUTO = "forced+ngram"
"""Costs next to nothing: what the grammar dictates, and what stands in the prompt."""

NAMES = ("forced", "ngram", "suffix", "draft", "universal", "early_exit")
_NEED_A_DRAFT = ("draft", "universal")


def check_name(name: object) -> None:
    """
    Raises:
        SpeculationError: no such proposer, the same one twice, or one that runs a model before others.
    """
    if name in ("auto", "none"):
        return
    parts = name.split("+") if isinstance(name, str) else ["?"]
    unknown = [part for part in parts if part not in NAMES]
    if unknown:
        known = ", ".join(map(repr, ("auto", "none", *NAMES)))
        raise SpeculationError(
            f"proposer={name!r} is not accepted: pass {known}, or several joined by '+', as {AUTO!r}"
        )
    if len(set(parts)) < len(parts):
        raise SpeculationError(f"proposer={name!r} names one twice; pass each once")
    costly = [part for part in parts if part in (*_NEED_A_DRAFT, "early_exit")]
    if len(costly) > 1 or (costly and parts[-1] != costly[0]):
        raise SpeculationError(
            f"proposer={name!r}: one that runs a model can only be the last, and the only one of its kind"
        )


def make_proposer(name: str, model: Model, draft: Model | None = None) -> Proposer | None:
    """The proposer of that name for a model; `None` for `"none"`.

    Args:
        name: `"auto"`, `"none"`, one of `NAMES`, or several joined by "+", those that run a model last.
        draft: the smaller model of `"draft"` and `"universal"`; `"auto"` takes it up, too.

    Raises:
        SpeculationError: as `check_name`; no draft model where one is needed; tokenizers that do not fit the proposer.
    """
    check_name(name)
    if name == "none":
        return None
    if name == "auto":
        name = AUTO
        if draft is not None:
            name += "+draft" if same_tokens(model.text, draft.text) else "+universal"
    parts = [_make(part, model, draft) for part in name.split("+")]
    return parts[0] if len(parts) == 1 else Combined(parts)


def _make(name: str, model: Model, draft: Model | None) -> Proposer:
    if name == "forced":
        return Forced()
    if name == "ngram":
        return NGram(fold=None if model.text is None else fold_spaces(model.text))
    if name == "suffix":
        return Suffix()
    if name == "early_exit":
        return EarlyExit(model, max(1, model.config.layers // 3))
    if draft is None:
        raise SpeculationError(
            f"proposer={name!r} needs a draft model; pass draft_model=, a file, a folder, a hub id or a Model"
        )
    cost = relative_cost(draft, model)
    if name == "draft":
        if not same_tokens(model.text, draft.text):
            raise SpeculationError("the draft model has other tokens than the target; pass proposer='universal'")
        return DraftModel(draft, model.config.vocab_size, cost)
    if model.text is None or draft.text is None:
        raise SpeculationError(
            "proposer='universal' needs the tokenizers of both models; put tokenizer.json beside the weights"
        )
    return Universal(draft, draft.text, model.text, cost)


def same_tokens(one: Text | None, other: Text | None) -> bool:
    """Whether two models mean the same by a token; without tokenizers that is taken on trust."""
    if one is None or other is None or one is other:
        return True
    mine: dict[str, int] = one.tokenizer.get_vocab(with_added_tokens=True)
    return mine == other.tokenizer.get_vocab(with_added_tokens=True)


def fold_spaces(text: Text) -> Fold:
    """For `NGram`: tokens that differ by spaces in front are one, and those without a letter or digit say nothing."""
    firsts: dict[bytes, int] = {}
    known: dict[int, int | None] = {}

    def fold(token: int) -> int | None:
        if token not in known:
            data = text.token_bytes(token).lstrip(b" ")
            says = any(byte >= 128 or chr(byte).isalnum() for byte in data)
            known[token] = firsts.setdefault(data, token) if says else None
        return known[token]

    return fold
