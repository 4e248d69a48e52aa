"""What searches may cost: each counts its steps, and a caller may bound steps and seconds for all of them together.

Every search here has a bound of its own, so that none goes on for ever; many that are short may still add up, where a
schema asks for thousands.  `bounded` is for callers that must come back: within it, `spend` raises `LimitExceeded` once
the steps or the seconds are used up.  Bounds belong to a thread, and inner ones end with the outer ones at the latest.

Seconds are those that the thread computes: one that waits for others, on a machine with much to do, is not late for it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import thread_time

from grammars.errors import LimitExceeded

_STEPS_BETWEEN_LOOKS = 200
"""A step takes some ten microseconds: how many are made between two looks at the clock."""


class _Meter(threading.local):
    """What this thread has left.

    Attributes:
        unseen: steps until `spend` has to look; None where nothing is bounded.
        steps: steps left after those; None without a bound.
        deadline: by `thread_time`; None without a bound.
        lateness: the message of the deadline.
        allowed: seconds from the next look at the clock on, and `allowed_lateness` their message; None where there are none.
        refusal: the message of the bound on steps.
    """

    unseen: int | None = None
    steps: int | None = None
    deadline: float | None = None
    lateness: str = ""
    allowed: float | None = None
    allowed_lateness: str = ""
    refusal: str = ""

    def begin(self) -> None:
        """Turn the seconds that are allowed into a deadline, unless there is an earlier one."""
        if self.allowed is not None:
            deadline, self.allowed = thread_time() + self.allowed, None
            if self.deadline is None or deadline < self.deadline:
                self.deadline, self.lateness = deadline, self.allowed_lateness


_METER = _Meter()


@contextmanager
def bounded(
    steps: int | None = None,
    seconds: float | None = None,
    refusal: str = "the grammar takes too many steps to be worked out",
) -> Iterator[None]:
    """Let searches of this thread make so many steps, and go on for so many seconds, within the block.

    Raises `LimitExceeded` in the block, out of the search that went past the bound, with the message `refusal` for steps.
    What was learnt until then is kept, so that another try goes on from there.
    """
    meter = _METER
    meter.begin()
    outer = (meter.unseen, meter.steps, meter.deadline, meter.lateness, meter.refusal)
    left = None if outer[1] is None else outer[1] + (outer[0] or 0)
    own = left
    if steps is not None and (left is None or steps < left):
        own, meter.refusal = steps, refusal
    if seconds is not None:
        meter.allowed = seconds
        meter.allowed_lateness = f"the grammar takes more than {seconds:g} s to be worked out so far"
        meter.begin()
    meter.steps, meter.unseen = own, 0
    try:
        yield
    finally:
        spent = 0 if own is None else own - (meter.steps or 0) - (meter.unseen or 0)
        meter.unseen, meter.steps, meter.deadline, meter.lateness, meter.refusal = outer
        meter.allowed = None
        if left is not None:
            meter.steps, meter.unseen = left - spent, 0


class Timed:
    """`bounded(steps, seconds)` for blocks so short that making a generator is felt, or asking the system for the thread's time.

    The clock begins with the first look at it.  Steps are not bounded where they are already.  An instance serves one thread
    at a time.
    """

    __slots__ = ("_lateness", "_outer", "_refusal", "_seconds", "_steps")

    def __init__(self, seconds: float, lateness: str, steps: int | None = None, refusal: str = "") -> None:
        self._seconds, self._lateness = seconds, lateness
        self._steps, self._refusal = steps, refusal
        self._outer: list[tuple[int | None, int | None, float | None, str, str]] = []

    def anew(self) -> Timed:
        """Another with the same bounds."""
        return Timed(self._seconds, self._lateness, self._steps, self._refusal)

    def __enter__(self) -> None:
        meter = _METER
        if meter.allowed is not None:  # else it would begin anew behind each block inside
            meter.begin()
        self._outer.append((meter.unseen, meter.steps, meter.deadline, meter.lateness, meter.refusal))
        meter.allowed, meter.allowed_lateness = self._seconds, self._lateness
        if meter.unseen is None:
            meter.unseen = _STEPS_BETWEEN_LOOKS
            if self._steps is not None:
                meter.unseen = min(_STEPS_BETWEEN_LOOKS, self._steps)
                meter.steps, meter.refusal = self._steps - meter.unseen, self._refusal

    def __exit__(self, *_: object) -> None:
        meter = _METER
        unseen, steps, meter.deadline, meter.lateness, meter.refusal = self._outer.pop()
        meter.allowed = None
        if unseen is None:
            meter.unseen, meter.steps = None, steps


def spend(steps: int = 1) -> None:
    """Count steps of a search; raises `LimitExceeded` where the caller's bound is used up."""
    unseen = _METER.unseen
    if unseen is None:
        return
    if steps <= unseen:
        _METER.unseen = unseen - steps
        return
    _look(steps)


def _look(steps: int) -> None:
    meter = _METER
    meter.begin()
    if meter.deadline is not None and thread_time() > meter.deadline:
        raise LimitExceeded(meter.lateness)
    portion = _STEPS_BETWEEN_LOOKS
    if meter.steps is not None:
        left = meter.steps + (meter.unseen or 0) - steps
        if left < 0:
            raise LimitExceeded(meter.refusal)
        portion = min(portion, left)
        meter.steps = left - portion
    meter.unseen = portion
