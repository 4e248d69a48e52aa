"""What a frame is left with: a set of schemas or languages that hold, or a name, as a number that fits into an action.

A set of a few schemas is its own bit set.  Larger ones are numbered as they are met, machine by machine.
"""

from __future__ import annotations

from constrained.automata.machine import Machine
from constrained.kernels.tables import OUTCOME_BITS
from grammars.errors import LimitExceeded

DECLARED = 1 << (OUTCOME_BITS - 2)
"""Outcomes of a key frame from here on are numbers of names (`keys.name_number`); below are sets of languages."""
_NUMBERED = DECLARED >> 1
"""Outcomes from here on are numbers of sets."""


def outcome_of(machine: Machine, holds: int) -> int:
    """The outcome of a frame that is left with the schemas of the bit set `holds`; less than `DECLARED`.

    Raises:
        LimitExceeded: there are too many sets.
    """
    if holds < _NUMBERED:
        return holds
    numbers: dict[int, int] = machine.kept("numbers of sets", dict)
    number = numbers.get(holds)
    if number is None:
        sets: list[int] = machine.kept("sets by number", list)
        if len(sets) >= DECLARED - _NUMBERED:
            raise LimitExceeded(f"more than {DECLARED - _NUMBERED} sets of alternatives that hold together")
        number = numbers[holds] = len(sets)
        sets.append(holds)
    return _NUMBERED + number


def holds_of(machine: Machine, outcome: int) -> int:
    """The bit set of the schemas that an outcome stands for."""
    if outcome < _NUMBERED:
        return outcome
    sets: list[int] = machine.kept("sets by number", list)
    return sets[outcome - _NUMBERED]
