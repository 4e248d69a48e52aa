"""Languages about where a match may end: the rests of a text that let it end later."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from grammars.lark.preferred_match import Threads
from grammars.regular import ALL, NONE, Rx, union
from grammars.regular.charset import ANY, join_all, meet, minus
from grammars.regular.derive import raw_moves
from grammars.regular.unfold import Unfolding, unfold


@dataclass(frozen=True, slots=True)
class Later(Unfolding):
    """The rests of a text with which a match ends later than at this state, or that are in `known`."""

    live: ClassVar[bool] = False

    state: Threads
    known: Rx

    @property
    def nullable(self) -> bool:
        """Whether the text may end here."""
        return self.known.nullable

    @property
    def order(self) -> int:
        """A structural hash, the same in every process."""
        return hash((2, self.state.order, self.known.order))

    def moves(self) -> Iterable[tuple[int, int, Rx]]:
        """The moves by ranges of code points."""
        return [(lo, hi, target) for chars, target in self.set_moves() for lo, hi in chars.a]

    def set_moves(self) -> list[tuple[Rx, Rx]]:
        """Disjoint sets of characters, each with the language that follows."""
        steps = self.state.steps()
        left = minus(ANY, join_all([chars for chars, _ in steps]))
        out = []
        for chars, known in [*raw_moves(self.known), (_others(self.known), NONE)]:
            for one, state in steps:
                common = meet(chars, one)
                if common is not NONE:
                    out.append((common, ends_later(state, union(known, state.accept))))
            out.append((meet(chars, left), known))
        return [(chars, target) for chars, target in out if chars is not NONE and target is not NONE]


def _others(known: Rx) -> Rx:
    return minus(ANY, join_all([chars for chars, _ in raw_moves(known)]))


def ends_later(state: Threads, known: Rx = NONE) -> Rx:
    """The rests with which a match ends later than at `state`, or that are in `known`."""
    if known is ALL or not state.threads:
        return known
    return unfold(Later(state, known))


@dataclass(frozen=True, slots=True)
class Shorter(Unfolding):
    """The rests that begin with a word v of `ends` and let a match end later than behind v, or that are in `known`."""

    live: ClassVar[bool] = False

    state: Threads
    ends: Rx
    known: Rx

    @property
    def nullable(self) -> bool:
        """Whether the text may end here."""
        return self.known.nullable

    @property
    def order(self) -> int:
        """A structural hash, the same in every process."""
        return hash((3, self.state.order, self.ends.order, self.known.order))

    def moves(self) -> Iterable[tuple[int, int, Rx]]:
        """The moves by ranges of code points."""
        return [(lo, hi, target) for chars, target in self.set_moves() for lo, hi in chars.a]

    def set_moves(self) -> list[tuple[Rx, Rx]]:
        """Disjoint sets of characters, each with the language that follows."""
        steps = self.state.steps()
        left = minus(ANY, join_all([chars for chars, _ in steps]))
        out = []
        for chars, known in [*raw_moves(self.known), (_others(self.known), NONE)]:
            out.append((meet(chars, left), known))
            for one, state in steps:
                common = meet(chars, one)
                if common is NONE:
                    continue
                for more, ends in [*raw_moves(self.ends), (_others(self.ends), NONE)]:
                    out.append((meet(common, more), ends_after(state, ends, known)))
        return [(chars, target) for chars, target in out if chars is not NONE and target is not NONE]


def ends_after(state: Threads, ends: Rx, known: Rx = NONE) -> Rx:
    """The rests that begin with a word v of `ends` and let a match end later than behind v, or that are in `known`."""
    if ends.nullable:
        known = ends_later(state, known)
    if known is ALL or ends is NONE or not state.threads:
        return known
    return unfold(Shorter(state, ends, known))
