"""Drafts: guesses at the next tokens of one sequence, made against its constraint and its processors.

A `Frontier` is the text as far as it is guessed.  Proposers read it and put tokens behind it; a token that the constraint
forbids is not taken, so none reaches the target.  While guesses are added the constraint and the sampler may be ahead of
the text; `close` brings both back to where they were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from engine.constraint import Row, can_go_back
from engine.metrics import Part, Stopwatch
from engine.sampling import EmptyRow, InvalidLogits, processors, race
from engine.sampling.coupling import Guess
from engine.sampling.sampler import Sampler
from engine.sampling.uniform import GUESS_LANE, uniform

if TYPE_CHECKING:
    from engine.caches import Cache
    from engine.sequence import SequenceState

FORCED = "forced"
"""Source of the guesses that the grammar dictates; they are no guesses in the limits of a block."""

MOST_FORCED = 32
"""Most tokens of a block, dictated ones included: one more pass costs less than a block without end would."""


@dataclass(frozen=True, slots=True)
class Drafted:
    """One guess.

    Attributes:
        token_id: the token.
        source: who guessed it; how often guesses are accepted is counted by source.
        probs: float32 [vocab], the processed distribution that it was drawn from; `None`: it was not drawn.
    """

    token_id: int
    source: str
    probs: Tensor | None = None

    @property
    def guess(self) -> Guess | None:
        """As `Sampler.sample` takes it; a guess that was not drawn holds where the target draws the same."""
        return None if self.probs is None else Guess(self.token_id, self.probs)


@dataclass(frozen=True)
class Target:
    """What a proposer that runs a part of the target itself may use.

    Attributes:
        cache: the sequence's cache, which holds all of the text but `pending`; it must be left as it was.
        pending: the last tokens of the text, which have not been through the target.
        state: the target's last hidden state before the pending tokens, [hidden]; `None` where it is not kept.
    """

    cache: Cache
    pending: tuple[int, ...]
    state: Tensor | None = None


class Frontier:
    """The text of one sequence, its draft behind it.

    Attributes:
        tokens: prompt, output and draft; not to be changed.
        length, prompt_length: how many of them are the text's, and of these the prompt's.
        draft: the guesses so far.
        room: how many more a block may take at all.
        rows: uint32 [words] each, the masks before every guess and after the last; empty without a constraint.
    """

    def __init__(
        self,
        sequence: SequenceState,
        sampler: Callable[[], Sampler],
        room: int,
        target: Callable[[], Target] | None = None,
        clock: Stopwatch | None = None,
    ) -> None:
        self._clock = Stopwatch() if clock is None else clock
        self._sequence = sequence
        self._make_sampler = sampler
        self._sampler: Sampler | None = None
        self._constraint = sequence.constraint if can_go_back(sequence.constraint) else None
        self._target = target
        history = sequence.row.history
        self.tokens = list(history.tokens)
        self.length, self.prompt_length = len(self.tokens), history.prompt_length
        self.draft: list[Drafted] = []
        self.room = min(room, MOST_FORCED)
        self.rows: list[Row] = [] if sequence.mask is None else [sequence.mask]
        self._moved = self._committed = 0

    @property
    def guessed(self) -> int:
        """Guesses that the grammar does not dictate."""
        return sum(drafted.source != FORCED for drafted in self.draft)

    @property
    def is_greedy(self) -> bool:
        """Whether the target will take the most likely token each time."""
        return self._sequence.row.sampling.is_greedy

    @property
    def target(self) -> Target | None:
        """For proposers that run a part of the target; `None` where its cache is not to be had."""
        return None if self._target is None else self._target()

    def timed(self, part: Part) -> AbstractContextManager[None]:
        """Around a part of proposing that is reported apart."""
        return self._clock.part(part)

    def forced_tokens(self) -> list[int]:
        """What the constraint dictates behind the draft; nothing without a constraint."""
        if self._constraint is None:
            return []
        with self.timed("mask"):
            self._move_constraint()
            return self._constraint.forced_tokens()

    def extend(self, tokens: Sequence[int], source: str, probs: Sequence[Tensor] | None = None) -> int:
        """Put guesses behind the draft: as many, from the first, as are allowed and have room; their number.

        End tokens are never taken: what follows an end is nobody's text.
        """
        tokens = list(tokens[: self.room])
        ends = self._sequence.eos_token_ids
        count = next((at for at, token in enumerate(tokens) if token in ends), len(tokens))
        if count and self._constraint is not None:
            with self.timed("mask"):
                count = self._allowed(tokens[:count])
        for at, token in enumerate(tokens[:count]):
            self.draft.append(Drafted(token, source, None if probs is None else probs[at]))
        self.tokens.extend(tokens[:count])
        self.room -= count
        return count

    def draw(self, logits: Tensor, source: str, *, sampled: bool = True) -> int | None:
        """Guess as the target would with these logits, [1, vocab], and put the guess behind the draft.

        The request's processors and the constraint apply to them.  Under sampling the guess is drawn from the processed
        distribution, or, with `sampled=False`, is the most likely token.

        Returns:
            The token; `None` where none was added: nothing can be drawn, there is no room, or it would end the text.
        """
        if self.room < 1:
            return None
        sampler = self._move_sampler()
        masks = self.rows[-1][None] if self.rows else None
        try:
            if self.is_greedy:
                draw = sampler.sample(logits, masks)[0]
                token, probs = (draw.token_id if draw.follows_constraint else -1), None
            else:
                distribution = sampler.probabilities(logits, masks)
                token, probs = int(processors.argmax(distribution)), None
                if sampled:
                    row = self._sequence.row
                    number = distribution.new_tensor([uniform(row.seed, row.step, GUESS_LANE)]).double()
                    token, probs = int(race.draw(distribution, number)), [distribution[0]]
        except (EmptyRow, InvalidLogits):
            return None  # the target's own logits decide what is to be done
        return token if token >= 0 and self.extend([token], source, probs) else None

    def close(self) -> None:
        """Constraint and sampler are back where the text ends."""
        if self._constraint is not None and self._moved:
            self._constraint.rollback(self._moved)
        if self._sampler is not None and self._committed:
            self._sampler.rollback([self._committed])
        self._moved = self._committed = 0

    def _allowed(self, tokens: list[int]) -> int:
        """How many of `tokens` the constraint allows; their rows are noted."""
        assert self._constraint is not None
        self._move_constraint()
        rows = np.empty((len(tokens) + 1, len(self.rows[-1])), np.uint32)
        try:
            self._constraint.masks_ahead(tokens, rows)
        except Exception:
            # A limit of the constraint, on a way that the text may never take: if it does, it is raised there.  What is
            # wrong where the text stands is raised now.
            tokens = []
            self._constraint.masks_ahead(tokens, rows[:1])
        count = 0
        while count < len(tokens) and rows[count, tokens[count] >> 5] >> (tokens[count] & 31) & 1:
            count += 1
        self.rows.extend(rows[1 : count + 1])
        return count

    def _move_constraint(self) -> None:
        assert self._constraint is not None
        while self._moved < len(self.draft):
            self._constraint.accept(self.draft[self._moved].token_id)
            self._moved += 1

    def _move_sampler(self) -> Sampler:
        if self._sampler is None:
            self._sampler = self._make_sampler()
        while self._committed < len(self.draft):
            self._sampler.commit([self.draft[self._committed].token_id])
            self._committed += 1
        return self._sampler
