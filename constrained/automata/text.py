"""Plain text of a regular language, as UTF-8."""

from __future__ import annotations

from constrained.automata.character_classes import actions_of, character_classes
from constrained.automata.free_texts import free_texts
from constrained.automata.machine import Machine
from constrained.automata.transitions import Transitions
from constrained.kernels.tables import pop_before
from grammars.regular import Rx, moves

SOLE = 1
"""The outcome of a frame that has only one."""


def text_start(machine: Machine, rx: Rx) -> int:
    """The start of a frame that reads the words of `rx` and is left where the text ends."""
    return machine.state((expand_text, rx))


def expand_text(machine: Machine, rx: Rx) -> Transitions:
    """Between two characters of a text; what may follow are the words of `rx`."""
    steps = moves(rx)
    classes = character_classes(tuple([characters for characters, _ in steps]), False)
    states = tuple([machine.state((expand_text, to)) for _, to in steps])
    made = Transitions(classes.groups, actions_of(machine, classes, states))
    own = machine.state((expand_text, rx))
    if classes.wide >= 0 and states[classes.wide] == own:
        machine.loop_wide(own, classes.wide_flags)
    free = free_texts((rx,))
    if free is not None:
        machine.counts(own, *free)
    if rx.nullable:
        made.at_end(pop_before(SOLE))
    return made
