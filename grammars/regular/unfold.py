"""Languages given by a state and its moves instead of an expression: remainders, comparisons, decoders.

Some regular languages have a small description as a machine and a huge one as an expression (multiples of 97, numbers
up to 65535, valid Punycode).  A state is a hashable value that knows its moves; it becomes a node of the algebra, and
its moves are asked for when derivatives first need them.  Machines thus cost what is visited.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar

from grammars.regular.charset import from_ranges, normalise
from grammars.regular.rx import BOOLEAN, OUTLINED, UNFOLD, Rx, intern, lookup


class Unfolding(ABC):
    """A state of a deterministic machine: a hashable value, equal to another only if both have the same language.

    Attributes that refer to nodes of the algebra keep them alive as long as the state lives.
    """

    __slots__ = ()

    live: ClassVar[bool] = True
    """Whether no state of this class has an empty language; else dead ends are searched for, as in intersections."""

    @property
    @abstractmethod
    def nullable(self) -> bool:
        """Whether the empty text is a word."""

    @property
    @abstractmethod
    def order(self) -> int:
        """A structural hash, the same in every process."""

    @property
    def description(self) -> str | None:
        """A text that tells this state from all others, the same in every process; `None` where it has none."""
        return None

    @property
    def longest(self) -> int | None:
        """A bound on the length of words in code points, `None` where there is none."""
        return None

    @property
    def nearest(self) -> tuple[int, str | None]:
        """A lower bound on the length of words in code points, and a word of that length where one is at hand.

        Asked for where the empty text is no word.  The nearer the bound, the fewer states a search for a shortest word
        visits.
        """
        return 1, None

    @property
    def outline(self) -> tuple[Rx, Rx] | None:
        """A simple language within this one, and one around it, for machines with more states than can be searched."""
        return None

    @abstractmethod
    def moves(self) -> Iterable[tuple[int, int, Rx]]:
        """Inclusive code point ranges, disjoint and without surrogates, each with the language that follows."""

    def set_moves(self) -> list[tuple[Rx, Rx]]:
        """The same by disjoint sets of code points (CHARS nodes); states that have sets at hand override this one."""
        by_target: dict[Rx, list[tuple[int, int]]] = {}
        for lo, hi, target in self.moves():
            by_target.setdefault(target, []).append((lo, hi))
        return [
            (from_ranges(tuple(ranges) if len(ranges) == 1 else normalise(ranges)), target)
            for target, ranges in by_target.items()
        ]


class PlainUnfolding(Unfolding):
    """A dataclass of numbers, texts and tuples of them, which its `repr` describes."""

    __slots__ = ()

    @property
    def description(self) -> str:
        return f"{type(self).__module__}.{self!r}"


def unfold(state: Unfolding) -> Rx:
    """The language of a state."""
    key = (UNFOLD, state)
    found = lookup(key)
    if found is not None:
        return found
    longest = state.longest
    nullable = state.nullable
    # How far a word is from any state is not known without a bound; the flag is what keeps that from being assumed.
    flags = BOOLEAN if longest is None or not state.live else 0
    if type(state).outline is not Unfolding.outline:
        flags |= OUTLINED
    node = intern(key, nullable, hash((UNFOLD, state.order)), 0 if nullable else 1, longest, flags, state)
    if state.live:
        node._empty = False
    return node
