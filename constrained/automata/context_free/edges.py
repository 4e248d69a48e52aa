"""Edges of states that read terminals: where sets of characters lead, and before which of them a frame is left."""

from __future__ import annotations

from constrained.automata.character_classes import wide_flags
from constrained.automata.code_points import spelling
from constrained.automata.context_free.hypotheses import Hypothesis, Outcome
from constrained.automata.context_free.parser import Parser, Readings
from constrained.automata.machine import Machine
from constrained.automata.transitions import Transitions
from constrained.kernels.tables import pop_before
from grammars.context_free.letters import ascii_ranges
from grammars.context_free.scans import Scan
from grammars.memory import remembered
from grammars.regular import ALL, Rx


def on_ascii(made: Transitions, bits: int, action: int) -> None:
    """The bytes that `bits` has take `action`."""
    for low, high in ascii_ranges(bits):
        made.on(low, high, action)


def loop_wide(machine: Machine, state: int, wide: list[tuple[Rx, int]]) -> None:
    """Declare that characters outside ASCII lead back to `state`, if that is where those of `wide` lead."""
    for characters, to in wide:
        if to == state:
            flags = wide_flags(characters)
            if flags:
                machine.loop_wide(state, flags)


def leave_before(
    made: Transitions, parser: Parser, scan: Scan, staying: list[tuple[Rx, int]], leaving: list[tuple[Rx, int]]
) -> None:
    """Leave before the first bytes of characters that are not ASCII.

    A first byte may belong both to characters before which a terminal ends and to others: then all is left open.
    """
    if not leaving:
        return
    shared = set().union(*[_first_bytes(characters) for characters, _ in staying])
    outcomes: dict[int, set[int]] = {}
    for characters, outcome in leaving:
        for byte in _first_bytes(characters):
            outcomes.setdefault(byte, set()).add(outcome)
    undecided = parser.outcome(Outcome(scan))
    decided: dict[int, int] = {}
    for byte, found in outcomes.items():
        outcome = undecided if byte in shared or len(found) > 1 else next(iter(found))
        decided[outcome] = decided.get(outcome, 0) | 1 << byte
    for outcome, bits in decided.items():
        on_ascii(made, bits, pop_before(outcome))


@remembered(1 << 12)
def _first_bytes(characters: Rx) -> frozenset[int]:
    return frozenset(byte for first, last, _, _ in spelling(characters).leads for byte in range(first, last + 1))


def left_alone(parser: Parser, ordered: list[Hypothesis], readings: Readings) -> dict[int, int]:
    """Of hypotheses that are the only one with many sets of characters: the outcome that leaves the frame with it alone.

    What follows is then asked for only where a token goes on so, and is the same as behind a text with one way to read it.
    """
    if parser.separation is None:
        return {}
    return {
        number: parser.outcome(Outcome(hypotheses=frozenset((ordered[number]._replace(rest=ALL),))))
        for number in readings.alone
        if parser.stacks.has_base(ordered[number].node)
    }
