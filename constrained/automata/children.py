"""What arrays and objects have in common: alternatives that run side by side, and the values they wait for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from constrained.automata.pending import Pending
from grammars.errors import LimitExceeded
from grammars.json_schema.shapes import Alternatives, Value

Progress = tuple[Any, ...]
"""How far each alternative has come (None for one that has failed).  After a key or before an item, a `Pending` stands
for a progress that depends on what the value turns out to be."""
Wanted = Value | Pending | None
Indices = tuple[Any, ...]
"""For each alternative where the values that it wants are among those of the frame: a number, -1, or a tuple of numbers."""

MOST_VALUES = 20_000
"""Schemas that one value can be held against at a time."""
MANY = 24
"""So many alternatives or fewer are kept side by side, each at its place, whatever became of the others."""


def distinct(wanted: Iterable[Wanted]) -> tuple[tuple[Value, ...], Indices]:
    """The different values among `wanted`, and for each item its index among them (-1 for None).

    Raises:
        LimitExceeded: more than `MOST_VALUES` different values.
    """
    numbers: dict[Value, int] = {}
    indices: list[Any] = []
    for one in wanted:
        if one is None:
            indices.append(-1)
        elif isinstance(one, Pending):
            indices.append(tuple([numbers.setdefault(value, len(numbers)) for value in one.values]))
        else:
            indices.append(numbers.setdefault(one, len(numbers)))
    if len(numbers) > MANY:
        numbers, indices = _merged(numbers, indices)
    if len(numbers) > MOST_VALUES:
        pointers = [value.pointer for value in numbers if value.pointer]
        raise LimitExceeded(
            f"{len(numbers)} overlapping alternatives meet in one value; at most {MOST_VALUES} are kept apart",
            pointer=pointers[0] if pointers else None,
        )
    return tuple(numbers), tuple(indices)


def _merged(numbers: dict[Value, int], indices: list[Any]) -> tuple[dict[Value, int], list[Any]]:
    """The same with one value for all that have the same instances on their face."""
    by_shapes: dict[Alternatives, int] = {}
    after = [by_shapes.setdefault(value.alternatives(), len(by_shapes)) for value in numbers]
    firsts: dict[int, Value] = {}
    for value, number in zip(numbers, after, strict=True):
        firsts.setdefault(number, value)
    renamed: list[Any] = [
        tuple([after[at] for at in index]) if type(index) is tuple else index if index < 0 else after[index]
        for index in indices
    ]
    return {value: number for number, value in firsts.items()}, renamed


def survivors(progress: Progress, indices: Sequence[Any], outcome: int) -> Progress:
    """`progress` after a value: without the alternatives whose value is not in the bit set `outcome`."""
    after: list[Any] = []
    for one, index in zip(progress, indices, strict=True):
        if type(index) is tuple:
            own = sum(1 << bit for bit, at in enumerate(index) if outcome >> at & 1)
            after.append(one.settle(own))
        else:
            after.append(one if one is not None and index >= 0 and (outcome >> index) & 1 else None)
    return tuple(after)


def outcomes_of(progress: Progress, indices: Sequence[Any]) -> list[int]:
    """Bit sets that a value may end with, such that every progress that can follow follows one of them or is as good."""
    found: dict[int, None] = {}
    for one, index in zip(progress, indices, strict=True):
        if type(index) is tuple:
            for own in one.outcomes():
                found[sum({1 << at for bit, at in enumerate(index) if own >> bit & 1})] = None
        elif index >= 0:
            found[1 << index] = None
    return list(found)


def at_best(progress: Progress) -> Progress:
    """`progress` with what is pending as if every condition held."""
    return tuple([one.best if isinstance(one, Pending) else one for one in progress])
