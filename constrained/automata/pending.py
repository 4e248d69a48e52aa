"""What a child value is held against where the frame's progress depends on more than that it holds.

Conditions (`contains` counts, witnesses of an object) may hold of the value or not; some combinations leave the frame
without a way to its end.  The value is split into as few parts as tell allowed combinations from the others, and read
against each part and each part with each condition, side by side: the outcome then says what holds.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, cast

from constrained.automata.constants import Among, Keys, but
from grammars.json_schema.formulas import Node, conjunction, negation
from grammars.json_schema.shapes import Value

Conditions = frozenset[int]


@dataclass(frozen=True, slots=True)
class Mark:
    """Constants whose appearance is told from the rest of the value: what is known of them, and a tag for the owner."""

    keys: Keys
    holds: Conditions
    tag: Hashable


@dataclass(frozen=True, slots=True, eq=False)
class Pending:
    """A value that is awaited; compared by identity, so owners keep what they make.

    Attributes:
        values: what the value is held against.
        after: progress of the owner for the conditions that hold and the tag of the mark met (or None).
        best: progress of the owner as if every condition held, for lower bounds.
    """

    values: tuple[Value, ...]
    best: Any
    after: Callable[[Conditions, Hashable], Any]
    _parts: tuple[tuple[int, Conditions, tuple[tuple[int, int], ...]], ...]
    _marks: tuple[tuple[int, Mark], ...]

    def settle(self, outcome: int) -> Any:
        """The progress after a value that holds for the bit set `outcome` over `values`; None if it is not allowed."""
        for index, mark in self._marks:
            if outcome >> index & 1:
                return self.after(mark.holds, mark.tag)
        for index, holds, tests in self._parts:
            met = {one for at, one in tests if outcome >> at & 1}
            # a test implies its part, but the part may be read in fewer writings (see `constants._other_numbers`)
            if met or outcome >> index & 1:
                return self.after(holds | met, None)
        return None

    def outcomes(self) -> Iterator[int]:
        """Bit sets that the value may end with, one for each different progress that can follow."""
        for index, _ in self._marks:
            yield 1 << index
        for index, _, tests in self._parts:
            for chosen in product((0, 1), repeat=len(tests)):
                yield 1 << index | sum(1 << at for (at, _), taken in zip(tests, chosen, strict=True) if taken)


def pending(
    values: Sequence[Value],
    conditions: dict[int, Value],
    allowed: Callable[[Conditions], bool],
    excluded: Keys,
    marks: Sequence[Mark],
    after: Callable[[Conditions, Hashable], Any],
) -> Pending | None:
    """The child of a frame that may be any of `values` (nodes) but the excluded constants; None if there is none.

    Args:
        conditions: what may hold of the value, besides.
        allowed: whether a combination of conditions may hold (and the others not).
        marks: constants that are told apart; all of them are allowed, and in one of `values`, unless the mark's tag says
            more than a value without a mark does.
        after: see `Pending`.
    """
    terms = _terms(tuple(conditions), allowed)
    found: list[Value] = []
    parts = []
    for value in values:
        for true, false in terms:
            node = conjunction(
                value, *[conditions[one] for one in sorted(true)], *[negation(conditions[one]) for one in sorted(false)]
            )
            part = but(node, excluded)
            if part.is_empty():
                continue
            index = len(found)
            found.append(part)
            tests = []
            for one, condition in conditions.items():
                if one not in true and one not in false:
                    tested = but(conjunction(node, condition), excluded)
                    if not tested.is_empty():
                        tests.append((len(found), one))
                        found.append(tested)
            parts.append((index, true, tuple(tests)))
    told = []
    for mark in marks:
        told.append((len(found), mark))
        found.append(Among(mark.keys, values[0].pointer if values else ""))
    if not found:
        return None
    best = after(frozenset(conditions), marks[0].tag if marks else None)
    return Pending(tuple(found), best, after, tuple(parts), tuple(told))


def _terms(names: tuple[int, ...], allowed: Callable[[Conditions], bool]) -> list[tuple[Conditions, Conditions]]:
    """(conditions that hold, conditions that do not): terms that together say `allowed` (prime implicants, Quine 1952)."""
    level = {
        (true, frozenset(names) - true)
        for chosen in product((0, 1), repeat=len(names))
        if allowed(true := frozenset(name for name, taken in zip(names, chosen, strict=True) if taken))
    }
    prime: set[tuple[Conditions, Conditions]] = set()
    while level:
        merged: set[tuple[Conditions, Conditions]] = set()
        used: set[tuple[Conditions, Conditions]] = set()
        for true, false in level:
            for one in true:
                other = (true - {one}, false | {one})
                if other in level:
                    merged.add((true - {one}, false))
                    used |= {(true, false), other}
        prime |= level - used
        level = merged
    return sorted(prime, key=lambda term: (sorted(term[0]), sorted(term[1])))


def node(value: Value) -> Node:
    """A schema position of a shape, which is a node of the algebra."""
    return cast(Node, value)
