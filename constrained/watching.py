"""A generation watched step by step: what the model wanted, and what the mask left of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from constrained.compile import Constraint
from constrained.streaming import BytesDecoding
from engine.generation import CancelToken, generate
from engine.model import Model
from engine.sampling import Sampling

if TYPE_CHECKING:
    from constrained.llm import LLM
    from engine.caches import Cache

SHOWN = 8
"""Tokens of each step that are reported, likeliest first."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token that might have come.

    Attributes:
        text: what it spells; bytes of an unfinished character as U+FFFD.
        probability: that the model gave it, before the mask, at temperature 1.
        allowed: whether the mask let it through.
    """

    token_id: int
    text: str
    probability: float
    allowed: bool


@dataclass(frozen=True, slots=True)
class WatchedStep:
    """One token and how it came.

    Attributes:
        text: the characters that it completes.
        allowed: how many tokens the mask let through; that of the vocabulary without a constraint.
        removed: the probability of all that it did not let through.
        candidates: the likeliest before the mask, and the token that came.
    """

    text: str
    token_id: int
    allowed: int
    removed: float
    candidates: list[Candidate]


class _Watched:
    """The model, whose last logits are kept."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.config, self.device, self.new_cache = model.config, model.device, model.new_cache
        self.alike = model.alike
        self.logits: Tensor | None = None

    def forward(
        self,
        input_ids: Tensor,
        cache: Cache,
        *,
        logits: Literal["last", "all"] | int = "last",
        prompt: bool | None = None,
    ) -> Tensor:
        self.logits = self._model.forward(input_ids, cache, logits=logits, prompt=prompt)
        return self.logits


def watched(
    llm: LLM,
    ids: list[int],
    constraint: Constraint | None,
    *,
    max_tokens: int,
    sampling: Sampling,
    cancel: CancelToken | None = None,
) -> Iterator[WatchedStep]:
    """Generates one sequence alone, without speculation, and reports each step.

    Raises:
        As `LLM.generate`.
    """
    vocabulary = llm.vocabulary
    matcher = None if constraint is None else constraint.matcher(max_tokens=max_tokens)
    second = None if constraint is None else constraint.matcher(max_tokens=max_tokens)
    decoding: Any = llm.text.detokenizer() if constraint is None else BytesDecoding(vocabulary.token_bytes)
    model = _Watched(llm.model)
    row = np.zeros(vocabulary.row_words, np.uint32)
    stream = generate(
        model,
        ids,
        sampling=sampling,
        constraint=matcher,
        max_new_tokens=max_tokens,
        eos_token_ids=llm.text.eos_token_ids or None,
        cancel=cancel,
    )
    with stream:
        for token in stream:
            assert model.logits is not None
            if second is None:
                allowed = np.ones(vocabulary.size, bool)
            else:
                second.fill_mask(row)
                allowed = np.unpackbits(row.view(np.uint8), bitorder="little")[: vocabulary.size].astype(bool)
                second.accept(token.token_id)
            probabilities = torch.softmax(model.logits[0, : vocabulary.size].float(), -1).cpu().numpy()
            best = np.argsort(-probabilities)[:SHOWN].tolist()
            if token.token_id not in best:
                best[-1] = token.token_id
            yield WatchedStep(
                decoding.push(token.token_id),
                token.token_id,
                int(allowed.sum()),
                float(probabilities[~allowed].sum()),
                [
                    Candidate(one, _shown(vocabulary, one), float(probabilities[one]), bool(allowed[one]))
                    for one in best
                ],
            )
    rest = decoding.flush()
    if rest:
        yield WatchedStep(rest, -1, 0, 0.0, [])


def _shown(vocabulary: Any, token: int) -> str:
    spelled = vocabulary.token_bytes(token)
    if spelled is not None:
        return str(spelled.decode("utf-8", "replace"))
    names = {number: name for name, number in vocabulary.special_tokens.items()}
    return str(names.get(token, f"token {token}"))
