"""Two constraints one after the other, each with a budget of its own: thoughts, then the answer."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING

from constrained.errors import BudgetError, TokenRejected
from engine.constraint import Row

if TYPE_CHECKING:
    from constrained.compile import Constraint
    from constrained.matcher import Matcher
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
    """One sequence under `Phases`, as `engine.constraint` asks for it: it can be looked ahead in, taken back and forked."""

    def __init__(self, phases: Phases, max_tokens: int | None) -> None:
        self._phases, self._max_tokens = phases, max_tokens
        try:
            self._first = phases.first.matcher(max_tokens=phases.first_tokens + 1)  # the end token is never drawn
        except BudgetError as error:
            needed = None if error.needed is None else error.needed - 1
            raise BudgetError(
                f"{phases.first_tokens} tokens of reasoning are too few: their marks alone take {needed}; raise that limit"
                if needed is not None
                else f"{phases.first_tokens} tokens of reasoning are too few; raise that limit",
                needed,
                phases.first_tokens,
            ) from None
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
        self._first_count += self._then is None
        self._settle()

    def rollback(self, count: int) -> None:
        """As `Matcher.rollback`.

        Raises:
            ValueError: fewer tokens have been committed.
        """
        if not 0 <= count <= self._count:
            raise ValueError(f"cannot take {count} tokens back: {self._count} have been committed")
        kept = self._count - count
        if self._then is not None and kept >= self._first_count:
            self._then.rollback(count)
        else:
            self._then = None
            self._first.rollback(self._first_count - kept)
            self._first_count = kept
        self._count = kept
        self._settle()

    def masks_ahead(self, tokens: Sequence[int], rows: Row) -> None:
        """As `Matcher.masks_ahead`."""
        count = 0
        try:
            while self._then is None and count < len(tokens):
                self.fill_mask(rows[count])
                try:
                    self.accept(tokens[count])
                except TokenRejected:
                    rows[count + 1 : len(tokens) + 1] = 0
                    return
                count += 1
            self._current.masks_ahead(tokens[count:], rows[count:])
        finally:
            self.rollback(count)

    def forced_tokens(self) -> list[int]:
        """As `Matcher.forced_tokens`, as far as one of the two texts dictates them."""
        return self._current.forced_tokens()

    def fork(self) -> PhasedMatcher:
        """A copy that goes its own way."""
        other = copy(self)
        other._first = self._first.fork()
        other._then = None if self._then is None else self._then.fork()
        return other

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
            left = None if self._max_tokens is None else self._max_tokens - self._count
            self._then = self._phases.then.matcher(max_tokens=left)
