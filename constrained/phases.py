"""Two constraints one after the other, each with a budget of its own: thoughts, then the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from constrained.errors import BudgetError
from engine.constraint import Row

if TYPE_CHECKING:
    from constrained.compile import Constraint
    from constrained.matcher import Matcher
    from constrained.segments import SegmentedConstraint, SegmentedMatcher
    from constrained.vocabulary import Vocabulary


class Phases:
    """A text of `first`, in at most `first_tokens` tokens, then one of `then`; no token crosses from one to the other.

    Attributes:
        first: its texts end in one way, so that nothing can follow one of them but `then`.
    """

    def __init__(
        self, first: Constraint | SegmentedConstraint, first_tokens: int, then: Constraint | SegmentedConstraint
    ) -> None:
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
        self._then: Matcher | SegmentedMatcher | None = None
        self._count = 0
        self._settle()

    def fill_mask(self, row: Row) -> None:
        """As `Matcher.fill_mask`."""
        self._current.fill_mask(row)

    def accept(self, token: int) -> None:
        """As `Matcher.accept`."""
        self._current.accept(token)
        self._count += 1
        self._settle()

    def is_accepting(self) -> bool:
        """Whether the text so far is whole."""
        return self._then is not None and self._then.is_accepting()

    def is_finished(self) -> bool:
        """Whether an end token was accepted."""
        return self._then is not None and self._then.is_finished()

    @property
    def _current(self) -> Matcher | SegmentedMatcher:
        return self._first if self._then is None else self._then

    def _settle(self) -> None:
        if self._then is None and self._first.is_accepting():
            left = None if self._max_tokens is None else self._max_tokens - self._count
            self._then = self._phases.then.matcher(max_tokens=left)
