"""JSON arrays: the alternatives of a frame run side by side, each knowing how many items it has seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from constrained.automata.children import Progress, distinct, survivors
from constrained.automata.machine import Machine
from constrained.automata.style import Style, add_gap
from constrained.automata.transitions import Transitions
from constrained.kernels.tables import goto, pop_after, push
from grammars.errors import UnsupportedFeature
from grammars.json_schema.shapes import ArrayShape, Value

Entries = tuple[tuple[ArrayShape, int], ...]
COMMA, CLOSE = 0x2C, 0x5D


class ArrayFrame:
    """What the states of one kind of array share; compared by identity."""

    __slots__ = ("entries", "style", "value_start")

    def __init__(self, style: Style, entries: Entries, value_start: Callable[..., int]) -> None:
        self.style = style
        self.entries = entries
        self.value_start = value_start
        for shape, _ in entries:
            for present, keyword in (
                (shape.counts, "contains"), (shape.unique, "uniqueItems"), (shape.repeated, "uniqueItems"),
            ):  # fmt: skip
                if present:
                    raise UnsupportedFeature(f"{keyword} is not supported", shape.rest.pointer, keyword)

    def complete(self, progress: Progress) -> int:
        """The owners of alternatives that may end here, as a bit set."""
        holds = 0
        for (shape, owner), seen in zip(self.entries, progress, strict=True):
            if seen is not None and seen[0] >= shape.min_items:
                holds |= 1 << owner
        return holds

    def extended(self, progress: Progress) -> tuple[tuple[Value, ...], tuple[int, ...], Progress]:
        """One more item: the values that it is held against, which alternative wants which, and who is left."""
        wanted: list[Value | None] = []
        after: list[tuple[int, ...] | None] = []
        for (shape, _), seen in zip(self.entries, progress, strict=True):
            value = None if seen is None else _item(shape, seen[0])
            wanted.append(value)
            after.append(None if seen is None or value is None else (_counted(shape, seen[0] + 1),))
        values, indices = distinct(wanted)
        return values, indices, tuple(after)


def _item(shape: ArrayShape, index: int) -> Value | None:
    """What the item at `index` must be, or None if there can be none."""
    if shape.max_items is not None and index >= shape.max_items:
        return None
    value = shape.prefix[index] if index < len(shape.prefix) else shape.rest
    return None if value.is_empty() else value


def _counted(shape: ArrayShape, seen: int) -> int:
    """`seen`, or the least number that means the same for all that follows."""
    return seen if shape.max_items is not None else min(seen, max(len(shape.prefix), shape.min_items))


def array_start(machine: Machine, style: Style, entries: Entries, value_start: Callable[..., int]) -> int:
    """The state just after the opening bracket."""
    frame = machine.kept((ArrayFrame, style, entries), lambda: ArrayFrame(style, entries, value_start))
    return machine.state((expand_first, style.gap, frame, ((0,),) * len(entries)))


def expand_first(machine: Machine, gap: Any, frame: ArrayFrame, progress: Progress) -> Transitions:
    """After the bracket: the first item or the end."""
    made = Transitions()
    add_gap(machine, made, gap, expand_first, frame, progress)
    if gap.nullable:
        holds = frame.complete(progress)
        if holds:
            made.on(CLOSE, CLOSE, pop_after(holds))
        _add_item(machine, made, frame, progress)
    return made


def expand_next(machine: Machine, gap: Any, frame: ArrayFrame, progress: Progress) -> Transitions:
    """After an item: a comma or the end."""
    made = Transitions()
    add_gap(machine, made, gap, expand_next, frame, progress)
    if gap.nullable:
        holds = frame.complete(progress)
        if holds:
            made.on(CLOSE, CLOSE, pop_after(holds))
        if frame.extended(progress)[0]:
            made.on(COMMA, COMMA, goto(machine.state((expand_item, frame.style.gap, frame, progress))))
    return made


def expand_item(machine: Machine, gap: Any, frame: ArrayFrame, progress: Progress) -> Transitions:
    """After a comma: an item."""
    made = Transitions()
    add_gap(machine, made, gap, expand_item, frame, progress)
    if gap.nullable:
        _add_item(machine, made, frame, progress)
    return made


def _add_item(machine: Machine, made: Transitions, frame: ArrayFrame, progress: Progress) -> None:
    values, indices, after = frame.extended(progress)
    if not values:
        return
    start = frame.value_start(machine, frame.style, values)
    if len(values) == 1:
        then = machine.state((expand_next, frame.style.gap, frame, after))
        made.otherwise(push(start, then))
    else:
        made.otherwise(push(start, machine.state((resolve_item, frame, after, indices)), waits=True))


def resolve_item(machine: Machine, outcome: int, frame: ArrayFrame, after: Progress, indices: tuple[int, ...]) -> int:
    """An item has ended and satisfies the values in `outcome`."""
    left = survivors(after, indices, outcome)
    return machine.state((expand_next, frame.style.gap, frame, left)) if any(left) else 0
