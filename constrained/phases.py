"""Two constraints one after the other, each with a budget of its own: thoughts, then the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from constrained.errors import BudgetError, TokenRejected
from constrained.matcher import Matcher
from engine.constraint import Row

if TYPE_CHECKING:
    from constrained.compile import Constraint
    from constrained.vocabulary import Vocabulary


class Phases:
    """A text of `first`, in at most `first_tokens` tokens, then one of `then`; no token crosses from one to the other.

    Attributes:
        first: its texts end in one way, so that nothing can follow one of them but `then`.
    """

    def __init__(self, first: Constraint, first_tokens: int, then: Constraint) -> None:
        self.first, self.first_tokens, self.then = first, first_tokens, then

    @property
    def vocabulary(self) -> Vocabulary:
        return self.then.vocabulary

    def matcher(self, max_tokens: int | None = None) -> PhasedMatcher:
        """A new sequence; as `Constraint.matcher`.

        Raises:
            BudgetError: one of the two does not fit.
        """
        return PhasedMatcher(self, max_tokens)


class PhasedMatcher:
    """One sequence under `Phases`, as `engine.constraint.TokenConstraint` asks for it."""

    def __init__(self, phases: Phases, max_tokens: int | None) -> None:
        self._phases, self._max_tokens = phases, max_tokens
        self._first = phases.first.matcher(
            max_tokens=phases.first_tokens + 1
        )  # and the end token, which is never drawn
        if max_tokens is not None and max_tokens <= phases.first_tokens:
            raise BudgetError(
                f"max_tokens={max_tokens} leaves nothing behind {phases.first_tokens} tokens of reasoning; raise it, or lower "
                "those"
            )
        phases.then.matcher(max_tokens=None if max_tokens is None else max_tokens - phases.first_tokens)
        self._then: Matcher | None = None
        self._count = self._first_count = 0
        self._settle()

    def fill_mask(self, row: Row) -> None:
        """As `Matcher.fill_mask`."""
        self._current.fill_mask(row)

    def accept(self, token: int) -> None:
        """As `Matcher.accept`."""
        self._current.accept(token)
        self._count += 1
        self._settle()

    def rollback(self, count: int) -> None:
        """Takes back the last `count` tokens."""
        if count > self._count:
            raise ValueError(f"cannot take back {count} of {self._count} tokens")
        target = self._count - count
        if self._then is not None and target < self._first_count:
            self._then = None
            self._first.rollback(self._first_count - target)
        else:
            self._current.rollback(count)
        self._count = target

    def masks_ahead(self, tokens: Sequence[int], rows: Row) -> None:
        """As `Matcher.masks_ahead`; the tokens may go over from the first to the second."""
        count = 0
        try:
            for at, token in enumerate(tokens):
                self.fill_mask(rows[at])
                try:
                    self.accept(token)
                except TokenRejected:
                    rows[at + 1 : len(tokens) + 1] = 0
                    return
                count += 1
            self.fill_mask(rows[len(tokens)])
        finally:
            self.rollback(count)

    def forced_tokens(self) -> list[int]:
        """As `Matcher.forced_tokens`; not beyond the border."""
        return self._current.forced_tokens()

    def is_accepting(self) -> bool:
        """Whether the text so far is whole."""
        return self._then is not None and self._then.is_accepting()

    def is_finished(self) -> bool:
        """Whether an end token was accepted."""
        return self._then is not None and self._then.is_finished()

    @property
    def _current(self) -> Matcher:
        return self._first if self._then is None else self._then

    def _settle(self) -> None:
        if self._then is None and self._first.is_accepting():
            self._first_count = self._count
            left = None if self._max_tokens is None else self._max_tokens - self._count
            self._then = self._phases.then.matcher(max_tokens=left)
