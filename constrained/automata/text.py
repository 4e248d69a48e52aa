"""Plain text of a regular language, as UTF-8."""

from __future__ import annotations

from constrained.automata.code_points import add_code_points
from constrained.automata.machine import Machine
from constrained.automata.transitions import Transitions
from constrained.kernels.tables import pop_before
from grammars.regular import Rx, derivatives

SOLE = 1
"""The outcome of a frame that has only one."""


def text_start(machine: Machine, rx: Rx) -> int:
    """The start of a frame that reads the words of `rx` and is left where the text ends."""
    return machine.state((expand_text, rx))


def expand_text(machine: Machine, rx: Rx) -> Transitions:
    """Between two characters of a text; what may follow are the words of `rx`."""
    made = Transitions()
    add_code_points(machine, made, [(low, high, machine.state((expand_text, to))) for low, high, to in derivatives(rx)])
    if rx.nullable:
        made.at_end(pop_before(SOLE))
    return made
