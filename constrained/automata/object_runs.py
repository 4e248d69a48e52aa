"""Objects whose declared properties come in their order: the commonest ones, whose states kernels make.

What such an object may go on with depends on the index of the next declared property alone, until a key comes that is not
declared.  Its states are numbered by that index, and made from tables (`constrained.kernels.object_tables`); they have the
keys of the general case (`expand_next`, `expand_comma`, ...) for everybody who asks what a state stands for.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from constrained.automata.frame import ValueStart, frame_of
from constrained.automata.keys import BARRED, WordList, expand_beside, expand_one_beside, expand_words
from constrained.automata.machine import Machine, expand_literal
from constrained.automata.object_frames import Entries, ObjectFrame
from constrained.automata.objects import (
    expand_colon,
    expand_comma,
    expand_first,
    expand_next,
    resolve_key,
    undeclared_start,
)
from constrained.automata.outcomes import outcome_of
from constrained.automata.property_plans import OrderedPlan
from constrained.automata.state_keys import Key
from constrained.automata.style import Style
from constrained.kernels import object_tables as o
from constrained.kernels.object_places import add_object
from constrained.kernels.object_tables import AFTER_COMMA, AFTER_KEY, KEY_READ
from grammars.regular import Rx


def object_start(machine: Machine, style: Style, entries: Entries, value_start: ValueStart) -> int:
    """The state just after the opening brace."""
    frame = frame_of(machine, ObjectFrame, style, entries, value_start)
    if not frame.run:
        plan = frame.in_order()
        gap = None if plan is None else machine.objects.gap_row(machine, style.gap)
        if plan is not None and gap is not None:
            _enter(machine, frame, plan, gap)
    if frame.run:
        return int(frame.run)
    progress = frame.start()
    return machine.state((expand_first, style.gap, frame, progress)) if any(progress) else 0


def _enter(machine: Machine, frame: ObjectFrame, plan: OrderedPlan, gap: int) -> None:
    """Give the frame a run: rows in the tables of objects, which ask `ObjectRun` about it."""
    words, outcomes, order = frame.spelled(machine)
    spellings = np.frombuffer(b"".join(words) or b'"', dtype=np.uint8)
    lengths = np.array([len(word) for word in words], dtype=np.int64)
    needed = np.array([one.required for one in plan.properties], dtype=np.int64)
    about = np.array([gap, outcome_of(machine, 1 << frame.owners[0])], dtype=np.int64)
    numbers, by_word = (np.array(one, dtype=np.int64) for one in (outcomes, order))
    first = machine.state_count
    frame.number = int(add_object(machine.handles, spellings, lengths, numbers, by_word, needed, about))
    if frame.number < 0:
        raise machine.full()
    machine.objects.hold(frame.number, frame, ObjectRun)
    frame.run = first


class ObjectRun:
    """The states of one object, for which it answers (see `object_tables.Held`); made anew for each question."""

    __slots__ = ("_frame", "_plan")

    def __init__(self, frame: ObjectFrame) -> None:
        self._frame = frame
        self._plan = cast(OrderedPlan, frame.sole)

    def key(self, offset: int, gap: Rx | None = None) -> Key:
        """See `Held`."""
        frame = self._frame
        kind, index = divmod(offset, len(frame.names) + 1)
        progress = ((index, 0),)
        if kind == KEY_READ:
            return (resolve_key, frame, progress)
        gap = frame.style.gap if gap is None else gap
        if kind == AFTER_KEY:
            return (expand_colon, gap, frame, (self._plan.properties[index].value,), (0,), ((index + 1, 0),))
        return (expand_comma if kind == AFTER_COMMA else expand_next if index else expand_first, gap, frame, progress)

    def names_key(self, machine: Machine, kind: int, record: list[int], offset: int) -> Key:
        """See `Held`."""
        words, outcomes, order = self._frame.spelled(machine)
        low, high, depth, inside = record[o.R_LOW], record[o.R_HIGH], record[o.R_DEPTH], record[o.R_INSIDE]
        colons = self._frame.run + AFTER_KEY * (len(words) + 1)
        if kind == o.IN_NAME:
            return (expand_literal, words[low], colons + low, offset)
        offered = set(self._plan.offered((record[o.R_PLACE], 0)))
        if kind == o.IN_NAMES:
            names = tuple([(words[index], colons + index) for index in order[low:high] if index in offered])
            return (expand_words, WordList(names), 0, len(names), depth)
        free = self._plan.has_free_names
        rests = tuple([
            (words[index][depth:], outcomes[index] if index in offered else BARRED)
            for index in order[low:high] if free or index in offered
        ])  # fmt: skip
        if kind == o.NAME_BESIDE:
            return (expand_one_beside, *rests[0], inside, offset)
        return (expand_beside, rests, inside)

    def look_at(self, machine: Machine, what: int) -> None:
        """See `Held`."""
        frame, plan, tables = self._frame, self._plan, machine.objects
        index, is_value = divmod(what, 2)
        if is_value:
            start = frame.value_start(machine, frame.style, (plan.properties[index].value,))
            tables.settle_member(frame.number, index, o.P_VALUE, start)
            machine.expand(start)  # which is read next
            return
        progress = (index, 0)
        offered = set(plan.offered(progress))
        for at in range(index, min(plan.next_required(index) + 1, len(frame.names))):
            tables.settle_member(frame.number, at, o.P_ALIVE, o.YES if at in offered else o.NO)
        if not plan.required_left(progress):
            frame.is_loose()
            may_come = plan.offers_undeclared(progress)
            string = undeclared_start(machine, frame, plan) if may_come else 0
            tables.settle_others(frame.number, string, may_come, may_come and plan.has_free_names)
