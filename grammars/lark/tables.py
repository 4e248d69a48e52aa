"""Deterministic machines written out: the texts of a terminal by the condition on what follows them.

The states of a matcher are compared by the nodes of their conditions, which another process need not derive in the same
way.  A table has numbers instead; states that go on alike are one.  It can be kept on disk.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from grammars.regular import EPSILON, NONE, Rx
from grammars.regular.charset import from_ranges, join_all
from grammars.regular.unfold import Unfolding, unfold

State = TypeVar("State", bound=Hashable)
Ranges = tuple[tuple[int, int], ...]

NO_LABEL = -1


@dataclass(frozen=True)
class Table:
    """A deterministic machine whose states have labels; it starts in state 0.

    Attributes:
        moves: of each state, disjoint sets of code points and the states after them.
        labels: of each state; NO_LABEL where no text of interest ends.
    """

    moves: tuple[tuple[tuple[Ranges, int], ...], ...]
    labels: tuple[int, ...]
    _languages: dict[tuple[int, int], Rx] = field(default_factory=dict, init=False, repr=False, compare=False)
    _lengths: dict[int, dict[int, int]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def _hash(self) -> int:
        return hash((self.moves, self.labels))

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _ahead(self) -> tuple[frozenset[int], ...]:
        """Of each state, the labels of the states that can be reached from it."""
        sources: list[list[int]] = [[] for _ in self.moves]
        for state, moves in enumerate(self.moves):
            for _, target in moves:
                sources[target].append(state)
        found: list[set[int]] = [set() for _ in self.moves]
        for end, label in enumerate(self.labels):
            queue = [end] if label != NO_LABEL and label not in found[end] else []
            while queue:
                state = queue.pop()
                if label not in found[state]:
                    found[state].add(label)
                    queue += sources[state]
        return tuple(map(frozenset, found))

    def longest(self, label: int, state: int) -> int | None:
        """How long the texts are that lead from a state to those with a label, at most; None where there is no bound."""
        found = self._lengths.get(label)
        if found is None:
            found = self._lengths[label] = self._longest(label)
        return found.get(state)

    def _longest(self, label: int) -> dict[int, int]:
        sources: dict[int, list[int]] = {}
        left: dict[int, int] = {}
        for state, moves in enumerate(self.moves):
            if label in self._ahead[state]:
                targets = [to for _, to in moves if label in self._ahead[to]]
                left[state] = len(targets)
                for to in targets:
                    sources.setdefault(to, []).append(state)
        lengths = {state: 0 for state, count in left.items() if not count}
        queue = list(lengths)
        for to in queue:  # grows: states behind which all lengths are known
            for state in sources.get(to, ()):
                left[state] -= 1
                if not left[state]:
                    lengths[state] = 1 + max(lengths[after] for _, after in self.moves[state] if after in lengths)
                    queue.append(state)
        return lengths

    def language(self, label: int, state: int = 0) -> Rx:
        """The texts that lead from a state to those with a label."""
        found = self._languages.get((label, state))
        if found is None:
            if label not in self._ahead[state]:
                found = NONE
            elif self.labels[state] == label and all(label not in self._ahead[to] for _, to in self.moves[state]):
                found = EPSILON
            else:
                found = unfold(Labelled(self, state, label))
            self._languages[label, state] = found
        return found


@dataclass(frozen=True, slots=True)
class Labelled(Unfolding):
    """The texts that lead from a state of a table to those with a label; there is one."""

    table: Table
    state: int
    label: int

    @property
    def nullable(self) -> bool:
        """Whether the state itself is one of them."""
        return self.table.labels[self.state] == self.label

    @property
    def longest(self) -> int | None:
        """A bound on the length of words, `None` where there is none."""
        return self.table.longest(self.label, self.state)

    @property
    def order(self) -> int:
        """A structural hash, the same in every process."""
        return hash((4, self.table, self.state, self.label))

    def moves(self) -> Iterable[tuple[int, int, Rx]]:
        """The moves by ranges of code points."""
        return [(lo, hi, target) for chars, target in self.set_moves() for lo, hi in chars.a]

    def set_moves(self) -> list[tuple[Rx, Rx]]:
        """Disjoint sets of characters, each with the language that follows."""
        moves = [
            (from_ranges(ranges), self.table.language(self.label, to)) for ranges, to in self.table.moves[self.state]
        ]
        return [(chars, target) for chars, target in moves if target is not NONE]


def written_out(moves: Mapping[State, Sequence[tuple[Rx, State]]], start: State, labels: Mapping[State, int]) -> Table:
    """The table of a machine, in which states that are seen to go on alike are one.

    Args:
        moves: of each state that can be reached, disjoint sets of characters (CHARS nodes) and the states after them.
        labels: of some of the states.
    """
    kinds = {state: labels.get(state, NO_LABEL) for state in moves}
    count = 0
    while len(set(kinds.values())) > count:
        count = len(set(kinds.values()))
        numbers: dict[tuple[int, frozenset[tuple[int, int]]], int] = {}
        kinds = {
            state: numbers.setdefault((kinds[state], frozenset([(chars.serial, kinds[to]) for chars, to in own])), len(numbers))
            for state, own in moves.items()
        }  # fmt: skip
    order = {kinds[start]: 0}
    members = [start]
    for state in members:  # grows: the states in the order in which they are reached
        for _, to in moves[state]:
            if kinds[to] not in order:
                order[kinds[to]] = len(members)
                members.append(to)
    rows = []
    for state in members:
        sets: dict[int, list[Rx]] = {}
        for chars, to in moves[state]:
            sets.setdefault(order[kinds[to]], []).append(chars)
        rows.append(tuple((join_all(one).a, to) for to, one in sets.items()))
    return Table(tuple(rows), tuple(labels.get(state, NO_LABEL) for state in members))
