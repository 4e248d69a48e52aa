"""Strings whose length is limited far away: what may follow is that of a string without the limit, and one character less.

Every character leads to another state, so these states are many and have to be cheap: they are runs, for the numbers of
characters that are left, and neither a language nor a key is made for one unless somebody asks what it stands for.
"""

from __future__ import annotations

from collections.abc import Callable

from constrained.automata.character_classes import character_classes, expand_led
from constrained.automata.machine import Expand, Machine
from constrained.automata.state_keys import Key
from constrained.kernels import tables as t
from constrained.kernels.tables import goto, pop_after
from grammars.regular import ANY, Rx, completion_bound, intersect, moves, relax_counters, repeat
from grammars.regular.rx import CHARS, CONCAT, INTERSECT, REPEAT, UNION

StringState = Callable[[Machine, bool, tuple[Rx, ...]], int]
_AT_ONCE, _FEW_AT_ONCE = 32, 4
"""A run is for so many numbers of characters left: many where every character leads on in it, few where it may leave it."""
_OWN, _ESCAPE, _LED = range(3)
"""What is there for each number: the state between two characters, the one after a backslash, those inside characters."""


class Unlimited:
    """A language less its limit, with the runs for it; compared by identity.

    Attributes:
        at_once: numbers of characters left that a run is for.
        least: the limit is far where at least so many characters are left.
        width: states for each number of characters left.
    """

    def __init__(
        self, machine: Machine, canonical: bool, rx: Rx, string_state: StringState, expand: tuple[Expand, Expand]
    ) -> None:
        """`expand`: the functions that expand the state between two characters and the one after a backslash."""
        self.machine = machine
        self.canonical = canonical
        self.expand = expand
        self._rx = rx
        self._string_state = string_state
        self._steps = moves(rx)
        self._targets: list[Unlimited | None] | None = None
        self._runs: dict[int, int] = {}
        self.classes = classes = character_classes(tuple([characters for characters, _ in self._steps]), True)
        self.at_once = _AT_ONCE if rx.kind == REPEAT else _FEW_AT_ONCE
        self.least = machine.horizon + (completion_bound(rx) or 0) + 1
        self.width = _LED + len(classes.leads)
        self._escapes = classes.needed or (classes.needless and not canonical)
        self._map = machine.map_number(classes.closed(self._escapes, rx.nullable))

    def limited(self, left: int) -> Rx:
        """The language with at most `left` characters."""
        return intersect(self._rx, repeat(ANY, 0, left))

    def state(self, left: int) -> int:
        """The state in which `left` characters may follow, a far limit."""
        size, width = self.at_once, self.width
        number = left // size
        first = self._runs.get(number)
        if first is None:
            machine = self.machine
            first = self._runs[number] = machine.hold(CountedRun(self, number), size * width)
            base = self._string_state(machine, self.canonical, (relax_counters(self._rx, machine.horizon),))
            own = machine.states[first : first + size * width : width]
            own[:, t.S_BASE], own[:, t.S_SLACK] = base, machine.horizon
        return first + (size - 1 - left % size) * width

    def after(self, left: int) -> tuple[int, ...]:
        """The states after one character of each class, where `left` characters may follow then."""
        machine, canonical, state = self.machine, self.canonical, self._string_state
        if self._targets is None:
            self._targets = [_unlimited(machine, canonical, to, state, self.expand) for _, to in self._steps]
        return tuple(
            [
                target.state(left)
                if target is not None and left >= target.least
                else state(machine, canonical, (intersect(to, repeat(ANY, 0, left)),))
                for target, (_, to) in zip(self._targets, self._steps, strict=True)
            ]
        )

    def define(self, state: int, left: int) -> None:
        """Give the state in which `left` characters may follow its transitions."""
        classes, after = self.classes, self.after(left - 1)
        actions = [0]
        actions += [goto(after[index]) for index in classes.single]
        actions += range(goto(state + _LED), goto(state + _LED) + len(classes.leads))
        if self._escapes:
            actions.append(goto(state + _ESCAPE))
        if self._rx.nullable:
            actions.append(pop_after(1))
        self.machine.define(state, self._map, actions)


class CountedRun:
    """The states for some numbers of characters left, from the largest down."""

    __slots__ = ("_language", "_most")

    def __init__(self, language: Unlimited, number: int) -> None:
        self._language = language
        self._most = number * language.at_once + language.at_once - 1

    def key(self, offset: int) -> Key:
        """See `Run`."""
        language = self._language
        place, part = divmod(offset, language.width)
        left = self._most - place
        if part >= _LED:
            return (expand_led, language.classes, language.after(left - 1), part - _LED)
        return (language.expand[part], language.canonical, (language.limited(left),))

    def expand(self, machine: Machine, state: int, offset: int) -> None:
        """See `Run`."""
        language = self._language
        place, part = divmod(offset, language.width)
        if part == _OWN:
            language.define(state, self._most - place)
            return
        function, *rest = self.key(offset)
        made = function(machine, *rest)
        machine.define(state, machine.map_number(bytes(made.groups)), made.actions)


def counted_state(
    machine: Machine, canonical: bool, rx: Rx, string_state: StringState, expand: tuple[Expand, Expand]
) -> int:
    """The state inside a string of `rx`, if that is a language with a limit that is far away; else 0."""
    if rx.kind == REPEAT:
        if rx.least or rx.most is None or rx.a.kind != CHARS:
            return 0
        unlimited, left = repeat(rx.a, 0, None), rx.most
    elif rx.kind == INTERSECT and len(rx.a) == 2:
        limit, unlimited = rx.a
        if not (limit.kind == REPEAT and limit.a is ANY):
            limit, unlimited = unlimited, limit
        if limit.kind != REPEAT or limit.a is not ANY or limit.least or limit.most is None:
            return 0
        left = limit.most
    else:
        return 0
    if left <= machine.horizon:
        return 0
    language = _unlimited(machine, canonical, unlimited, string_state, expand)
    return 0 if language is None or left < language.least else language.state(left)


def _unlimited(
    machine: Machine, canonical: bool, rx: Rx, string_state: StringState, expand: tuple[Expand, Expand]
) -> Unlimited | None:
    """The runs for limits of `rx`; None where a limit may make a difference at any place, or never."""
    if rx.kind == REPEAT:
        if rx.least or rx.most is not None or rx.a.kind != CHARS:
            return None
    elif rx.kind not in (CONCAT, UNION) or rx.high is not None or completion_bound(rx) is None:
        return None
    found: Unlimited = machine.kept(
        (Unlimited, canonical, rx), lambda: Unlimited(machine, canonical, rx, string_state, expand)
    )
    return found
