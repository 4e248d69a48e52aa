"""Strings and numbers that are read against many schemas at once: only what is still possible is kept.

A part is a language and the bit set of the schemas that it is for.  Of three thousand constants few are left after a
character or two, so the states behind it are small.
"""

from __future__ import annotations

from collections.abc import Iterable

from constrained.automata.code_points import add_code_points
from constrained.automata.machine import Machine
from constrained.automata.outcomes import outcome_of
from constrained.automata.strings import BACKSLASH, QUOTE, escapable, escape, raw
from constrained.automata.transitions import Transitions
from constrained.kernels.tables import goto, pop_after, pop_before
from grammars.regular import NONE, Rx, derivatives

Parts = tuple[tuple[Rx, int], ...]


def held_parts(languages: Iterable[Rx]) -> Parts:
    """The parts of languages side by side, equal ones together."""
    found: dict[Rx, int] = {}
    for index, rx in enumerate(languages):
        if rx is not NONE:
            found[rx] = found.get(rx, 0) | 1 << index
    return tuple(found.items())


def following(parts: Parts) -> list[tuple[int, int, Parts]]:
    """(low, high, parts): what each next character leaves, in order."""
    borders: dict[int, tuple[list[int], list[int]]] = {}
    targets: list[tuple[Rx, int]] = []
    for rx, holders in parts:
        for low, high, target in derivatives(rx):
            number = len(targets)
            targets.append((target, holders))
            borders.setdefault(low, ([], []))[0].append(number)
            borders.setdefault(high + 1, ([], []))[1].append(number)
    found: list[tuple[int, int, Parts]] = []
    active: dict[int, None] = {}
    start = 0
    for position in sorted(borders):
        if active:
            merged: dict[Rx, int] = {}
            for number in active:
                target, holders = targets[number]
                merged[target] = merged.get(target, 0) | holders
            here = tuple(merged.items())
            if found and found[-1][1] + 1 == start and found[-1][2] == here:
                found[-1] = (found[-1][0], position - 1, here)
            else:
                found.append((start, position - 1, here))
        opened, closed = borders[position]
        for number in closed:
            del active[number]
        active.update(dict.fromkeys(opened))
        start = position
    return found


def held_by(parts: Parts) -> int:
    """The schemas that hold if the text ends here, as a bit set."""
    holds = 0
    for rx, holders in parts:
        if rx.nullable:
            holds |= holders
    return holds


def held_string(machine: Machine, canonical: bool, parts: Parts) -> int:
    """The state inside a string that is a word of some part."""
    return machine.state((expand_held_string, canonical, parts))


def _pieces(machine: Machine, canonical: bool, parts: Parts) -> list[tuple[int, int, int]]:
    return [(low, high, held_string(machine, canonical, after)) for low, high, after in following(parts)]


def expand_held_string(machine: Machine, canonical: bool, parts: Parts) -> Transitions:
    """Between two characters of a string."""
    made = Transitions()
    pieces = _pieces(machine, canonical, parts)
    add_code_points(machine, made, raw(pieces))
    if escapable(pieces, canonical):
        made.on(BACKSLASH, BACKSLASH, goto(machine.state((expand_held_escape, canonical, parts))))
    holds = held_by(parts)
    if holds:
        made.on(QUOTE, QUOTE, pop_after(outcome_of(machine, holds)))
    return made


def expand_held_escape(machine: Machine, canonical: bool, parts: Parts) -> Transitions:
    """After a backslash."""
    return escape(machine, canonical, _pieces(machine, canonical, parts))


def expand_held_number(machine: Machine, parts: Parts) -> Transitions:
    """Inside a number, or before it."""
    made = Transitions()
    for low, high, after in following(parts):
        made.on(low, high, goto(machine.state((expand_held_number, after))))
    holds = held_by(parts)
    if holds:
        left = pop_before(outcome_of(machine, holds))
        made.otherwise(left)
        made.at_end(left)
    return made
