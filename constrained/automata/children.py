"""What arrays and objects have in common: alternatives that run side by side, and the values they wait for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from constrained.kernels.tables import OPERAND_MASK
from grammars.errors import LimitExceeded
from grammars.json_schema.shapes import Value

Progress = tuple[tuple[int, ...] | None, ...]
"""How far each alternative has come; None for one that has failed."""

MOST_VALUES = 24
"""Schemas that one value can be held against at a time: outcomes are bit sets of an action's operand."""
assert (1 << MOST_VALUES) - 1 <= OPERAND_MASK


def distinct(wanted: Iterable[Value | None]) -> tuple[tuple[Value, ...], tuple[int, ...]]:
    """The different values among `wanted`, and for each item its index among them (-1 for None).

    Raises:
        LimitExceeded: more than `MOST_VALUES` different values.
    """
    numbers: dict[Value, int] = {}
    indices = tuple(-1 if value is None else numbers.setdefault(value, len(numbers)) for value in wanted)
    if len(numbers) > MOST_VALUES:
        first = next(iter(numbers))
        raise LimitExceeded(
            f"{len(numbers)} overlapping alternatives meet in one value; at most {MOST_VALUES} are kept apart",
            pointer=first.pointer,
        )
    return tuple(numbers), indices


def survivors(progress: Progress, indices: Sequence[int], outcome: int) -> Progress:
    """`progress` without the alternatives whose value is not in the bit set `outcome`."""
    return tuple(
        one if one is not None and index >= 0 and (outcome >> index) & 1 else None
        for one, index in zip(progress, indices, strict=True)
    )
