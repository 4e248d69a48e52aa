"""JSON arrays: the alternatives of a frame run side by side, each knowing how many items it has seen, and what it has to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from constrained.automata.children import MANY, Indices, Progress, Wanted, distinct, survivors
from constrained.automata.constants import NO_KEYS, Key
from constrained.automata.frame import Frame, ValueStart, frame_of
from constrained.automata.item_plans import Items, LinkedItems, item_plan
from constrained.automata.machine import Machine
from constrained.automata.outcomes import holds_of, outcome_of
from constrained.automata.pending import Pending
from constrained.automata.style import Style, add_gap
from constrained.automata.transitions import Transitions
from constrained.kernels.tables import OPEN_AHEAD, OPEN_HERE, goto, pop_after, push
from grammars.json_schema.shapes import ArrayShape, Value
from grammars.regular import derivatives

Entries = tuple[tuple[ArrayShape, int], ...]
COMMA, CLOSE = 0x2C, 0x5D


class ArrayFrame(Frame):
    """What the states of one kind of array share; compared by identity.

    Attributes:
        plans: one for each alternative.
        owners: the schema that each alternative belongs to.
        linked: whether what an item was can matter later.
    """

    __slots__ = ("linked", "owners", "plans", "style", "value_start")

    linked_plan = LinkedItems

    def __init__(self, style: Style, entries: Entries, value_start: ValueStart) -> None:
        self.style = style
        self.value_start = value_start
        self.plans = tuple([item_plan(shape) for shape, _ in entries])
        self.owners = tuple([owner for _, owner in entries])
        self.linked = any(isinstance(plan, LinkedItems) for plan in self.plans)

    def narrowed(self, machine: Machine, progress: Progress) -> tuple[ArrayFrame, Progress]:
        """The frame and progress of the alternatives that are left, where those are few of many and no items matter."""
        left = [number for number, one in enumerate(progress) if one is not None] if len(progress) > MANY else []
        if self.linked or not left or len(left) * 2 > len(progress):
            return self, progress
        entries = tuple([(self.plans[number].shape, self.owners[number]) for number in left])
        frame = frame_of(machine, ArrayFrame, self.style, entries, self.value_start)
        return frame, tuple([progress[number] for number in left])

    def extended(self, progress: Progress) -> tuple[tuple[Value, ...], Indices, Progress]:
        """One more item: the values that it is held against, which alternative wants which, and who is left."""
        wanted: list[Wanted] = []
        after: list[Any] = []
        for plan, one in zip(self.plans, progress, strict=True):
            value, then = (None if one is None else plan.item(one)) or (None, None)
            wanted.append(value)
            after.append(then)
        values, indices = distinct(wanted)
        return values, indices, tuple(after)


def array_start(machine: Machine, style: Style, entries: Entries, value_start: ValueStart) -> int:
    """The state just after the opening bracket."""
    frame = frame_of(machine, ArrayFrame, style, entries, value_start)
    progress = frame.start()
    return machine.state((expand_first, style.gap, frame, progress)) if any(progress) else 0


def is_open(frame: ArrayFrame, progress: Progress) -> bool:
    """Whether an item has ended of which the text would have to be known."""
    return frame.linked and any(isinstance(one, Items) and one.unknown > 0 for one in progress)


def known(frame: ArrayFrame, progress: Progress, item: Key) -> Progress:
    """`progress` with the item that was not known."""
    return tuple([
        plan.known(one, item) if isinstance(plan, LinkedItems) and one is not None and one.unknown else one
        for plan, one in zip(frame.plans, progress, strict=True)
    ])  # fmt: skip


def forgotten(frame: ArrayFrame, progress: Progress) -> Progress:
    """`progress` as if the items that are not known could not come again."""
    return tuple([
        plan.forgotten(one) if isinstance(plan, LinkedItems) and one is not None else one
        for plan, one in zip(frame.plans, progress, strict=True)
    ])  # fmt: skip


def noted(frame: ArrayFrame, progress: Progress, item: Key) -> Progress:
    """`progress` if `item` had come before."""
    return tuple([
        one._replace(seen=one.seen | {item}) if isinstance(plan, LinkedItems) and one is not None and plan.records(one) else one
        for plan, one in zip(frame.plans, progress, strict=True)
    ])  # fmt: skip


def textless(progress: tuple[Any, ...]) -> tuple[Any, ...]:
    """`progress` (or another part of a key) with numbers of items in place of items; itself if there are none."""
    after = tuple([
        (one._replace(seen=NO_KEYS), len(one.seen)) if isinstance(one, Items) and one.seen
        else (one.best._replace(seen=NO_KEYS), len(one.best.seen), len(one.values)) if isinstance(one, Pending) and one.best.seen
        else one
        for one in progress
    ])  # fmt: skip
    return progress if all(new is old for new, old in zip(after, progress, strict=True)) else after


def indifferent(frame: ArrayFrame, progress: Progress, ended: int, endless: Sequence[bool]) -> bool:
    """Whether no alternative is lost whatever the one item is that is not known.

    Args:
        ended: how many items ended after it.
        endless: for each alternative whether the item that has begun since then has endlessly many ways to end.
    """
    return all(
        plan.indifferent(one, ended, ways)
        for plan, one, ways in zip(frame.plans, progress, endless, strict=True)
        if one is not None and isinstance(plan, LinkedItems)
    )


def _next(machine: Machine, frame: ArrayFrame, gap: Any, progress: Progress) -> int:
    state = machine.state((expand_next, gap, frame, progress))
    if is_open(frame, progress):
        machine.open(state, OPEN_HERE)
    return state


def _comma(machine: Machine, frame: ArrayFrame, gap: Any, progress: Progress) -> int:
    state = machine.state((expand_item, gap, frame, progress))
    if is_open(frame, progress):
        machine.open(state, OPEN_AHEAD)
    return state


def expand_first(machine: Machine, gap: Any, frame: ArrayFrame, progress: Progress) -> Transitions:
    """After the bracket: the first item or the end."""
    made = Transitions()
    add_gap(machine, made, gap, expand_first, frame, progress)
    if gap.nullable:
        holds = frame.complete(progress)
        if holds:
            made.on(CLOSE, CLOSE, pop_after(outcome_of(machine, holds)))
        _add_item(machine, made, frame, progress)
    return made


def expand_next(machine: Machine, gap: Any, frame: ArrayFrame, progress: Progress) -> Transitions:
    """After an item: a comma or the end."""
    made = Transitions()
    for low, high, to in derivatives(gap):
        made.on(low, high, goto(_next(machine, frame, to, progress)))
    if gap.nullable:
        holds = frame.complete(progress)
        if holds:
            made.on(CLOSE, CLOSE, pop_after(outcome_of(machine, holds)))
        if frame.extended(progress)[0]:
            made.on(COMMA, COMMA, goto(_comma(machine, frame, frame.style.gap, progress)))
    return made


def expand_item(machine: Machine, gap: Any, frame: ArrayFrame, progress: Progress) -> Transitions:
    """After a comma: an item."""
    made = Transitions()
    for low, high, to in derivatives(gap):
        made.on(low, high, goto(_comma(machine, frame, to, progress)))
    if gap.nullable:
        _add_item(machine, made, frame, progress)
    return made


def _add_item(machine: Machine, made: Transitions, frame: ArrayFrame, progress: Progress) -> None:
    values, indices, after = frame.extended(progress)
    if not values:
        return
    start = frame.value_start(machine, frame.style, values)
    if len(values) == 1:
        made.otherwise(push(start, _next(machine, frame, frame.style.gap, survivors(after, indices, 1))))
    else:
        made.otherwise(push(start, machine.state((resolve_item, frame, after, indices)), waits=True))


def resolve_item(machine: Machine, outcome: int, frame: ArrayFrame, after: Progress, indices: Indices) -> int:
    """An item has ended and satisfies the values in `outcome`."""
    left = survivors(after, indices, holds_of(machine, outcome))
    if not any(left):
        return 0
    frame, left = frame.narrowed(machine, left)
    return _next(machine, frame, frame.style.gap, left)
