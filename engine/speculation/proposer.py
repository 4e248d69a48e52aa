"""What a proposer is.  Anybody's class with these methods will do; see docs/speculation.md for one of ten lines."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol, runtime_checkable

from engine.speculation.draft import Frontier


class Drafter(Protocol):
    """Guesses for one sequence."""

    def propose(self, frontier: Frontier, most: int) -> None:
        """Put at most `most` guesses behind the frontier's draft, none where there is no good one.

        What was guessed before may not have come to pass: `frontier.tokens` up to `frontier.length` is what holds.  That
        part only ever grows.
        """

    def close(self, output: Sequence[int]) -> None:
        """The sequence ended with that output, or was given up there."""


@runtime_checkable
class Proposer(Protocol):
    """Makes drafters; shared by the requests of a model, and by threads.

    Attributes:
        name: its name in reports.
        cost: what one guess takes, in forward passes of the target; 0 for look-ups.
        draws: whether guesses are drawn from a distribution where the request samples.  What a request draws then depends
            on the lengths of its drafts, so these are chosen without a look at the clock.
        wants_state: whether it reads `Target.state`.
    """

    name: str
    cost: float
    draws: bool
    wants_state: bool

    def begin(self, prompt: Sequence[int], group: Hashable = None) -> Drafter:
        """A drafter for a new sequence.

        Args:
            prompt: its prompt.
            group: equal for requests that are likely to be answered alike, those of one schema, say.
        """
