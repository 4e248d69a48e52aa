"""JSON numbers and the three literal names."""

from __future__ import annotations

from constrained.automata.machine import Machine
from constrained.automata.outcomes import outcome_of
from constrained.automata.state_keys import in_series
from constrained.automata.strings import Languages, joint_derivatives
from constrained.automata.transitions import Transitions
from constrained.kernels.tables import goto, pop_after, pop_before
from grammars.regular import NONE, at_hand, matches, moves


@in_series
def expand_number(machine: Machine, languages: Languages) -> Transitions:
    """Inside a number, which ends before the first byte that cannot belong to it."""
    made = Transitions()
    if len(languages) == 1:
        for characters, to in moves(languages[0]):
            action = goto(machine.state((expand_number, (to,))))
            for low, high in characters.a:
                made.on(low, high, action)
    else:
        for low, high, after in joint_derivatives(languages):
            made.on(low, high, goto(machine.state((expand_number, after))))
    holds = sum(1 << index for index, rx in enumerate(languages) if rx.nullable)
    if holds:
        made.otherwise(pop_before(outcome_of(machine, holds)))
        made.at_end(pop_before(outcome_of(machine, holds)))
    return made


def numbers_at_hand(machine: Machine, state: int) -> dict[bytes, int]:
    """Short texts that end the number that `state` is in, each with its outcome; none where a search has to tell."""
    key = machine.key(state)
    if key[0] is not expand_number:
        return {}
    languages: Languages = key[1]
    found = [at_hand(rx) for rx in languages if rx is not NONE]
    words = [word for word in found if word is not None]
    if len(words) < len(found):
        return {}
    if len(languages) == 1:
        return {word.encode(): outcome_of(machine, 1) for word in words}
    return {
        word.encode(): outcome_of(machine, sum(1 << index for index, rx in enumerate(languages) if matches(rx, word)))
        for word in words
    }


def literal_name(machine: Machine, rest: bytes, holds: int) -> int:
    """The state that reads `rest` and then leaves the frame with the schemas of the bit set `holds`."""
    return machine.literal(rest[:-1], machine.state((expand_last_byte, rest[-1], outcome_of(machine, holds))))


def expand_last_byte(machine: Machine, byte: int, outcome: int) -> Transitions:
    """Before the one byte that ends the frame."""
    made = Transitions()
    made.on(byte, byte, pop_after(outcome))
    return made
