"""Objects whose declared properties come in their order: the commonest ones, with cheap states.

What such an object may go on with depends on the index of the next declared property alone, until a key comes that is not
declared.  Its states are a run, numbered by that index: they are named without a key, and made without a look at the general
case, whose keys they have (`expand_next`, `expand_comma`, ...) for everybody who asks what a state stands for.
"""

from __future__ import annotations

from collections.abc import Callable

from constrained.automata.machine import Key, Machine
from constrained.automata.object_frames import Entries, ObjectFrame
from constrained.automata.objects import after_comma, expand_colon, expand_comma, expand_first, expand_next, key_action
from constrained.automata.outcomes import outcome_of
from constrained.automata.property_plans import OrderedPlan
from constrained.automata.style import Punctuation, Style, punctuation
from constrained.kernels.tables import goto, pop_after, push_after


def object_start(machine: Machine, style: Style, entries: Entries, value_start: Callable[..., int]) -> int:
    """The state just after the opening brace."""
    frame = machine.kept((ObjectFrame, style, entries), lambda: ObjectFrame(style, entries, value_start))
    plan = None if frame.run else frame.in_order()
    if plan is not None:
        run = ObjectRun(machine, frame, plan)
        frame.run = machine.hold(run, 3 * run.width)
    if frame.run:
        return int(frame.run)
    progress = frame.start()
    return machine.state((expand_first, style.gap, frame, progress)) if any(progress) else 0


class ObjectRun:
    """The states of an object with n declared properties, 3(n + 1) of them.

    For i from 0 to n: the one after the value before property i (or after the brace, for 0), the one after the comma before
    it; for i from 0 to n - 1: the one after the key i.
    """

    __slots__ = ("_frame", "_plan", "_punctuation", "width")

    def __init__(self, machine: Machine, frame: ObjectFrame, plan: OrderedPlan) -> None:
        self._frame = frame
        self._plan = plan
        self._punctuation: Punctuation = punctuation(machine, frame.style.gap)
        self.width = len(plan.properties) + 1

    def key(self, offset: int) -> Key:
        """See `Run`."""
        frame, gap = self._frame, self._frame.style.gap
        kind, index = divmod(offset, self.width)
        if kind == 2:
            return (expand_colon, gap, frame, (self._plan.properties[index].value,), (0,), ((index + 1, 0),))
        function = expand_comma if kind else expand_next if index else expand_first
        return (function, gap, frame, ((index, 0),))

    def expand(self, machine: Machine, state: int, offset: int) -> None:
        """See `Run`."""
        frame, plan = self._frame, self._plan
        kind, index = divmod(offset, self.width)
        marks = self._punctuation
        actions = marks.begun(machine, state, lambda: self.key(offset))
        symbols = b""
        if not marks.may_end:
            pass
        elif kind == 2:
            start = frame.value_start(machine, frame.style, (plan.properties[index].value,))
            symbols = b":"
            actions.append(push_after(start, frame.run + index + 1))
        elif kind == 1:
            symbols = b'"'
            actions.append(key_action(machine, frame, ((index, 0),)))
        else:
            progress = (index, 0)
            if plan.required_left(progress) == 0:
                symbols = b"}"
                actions.append(pop_after(outcome_of(machine, 1 << frame.owners[0])))
            if plan.offered(progress) or plan.offers_undeclared(progress):
                symbols += b"," if index else b'"'
                actions.append(
                    goto(after_comma(machine, frame, (progress,))) if index else key_action(machine, frame, (progress,))
                )
        machine.define(state, marks.map_number(machine, symbols), actions)
        if symbols[-1:] == b",":
            machine.expand(
                state + self.width
            )  # tokens go on behind the comma: whoever looks at the one needs the other
