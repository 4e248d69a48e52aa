"""What a frame can be left with, as seen from the state that waits for it."""

from __future__ import annotations

from constrained.automata import arrays, objects
from constrained.automata.children import outcomes_of
from constrained.automata.keys import name_number
from constrained.automata.machine import Machine
from constrained.automata.outcomes import DECLARED, outcome_of

_MOST_OUTCOMES = 100


def outcomes(machine: Machine, state: int) -> list[int] | None:
    """The least outcomes that the wait state `state` may meet (others hold more alternatives); None for other states.

    None at all where there are so many that they are better looked at as they come.
    """
    key = machine.key(state)
    if key[0] is objects.resolve_value or key[0] is arrays.resolve_item:
        found = outcomes_of(key[2], key[3])
        return [] if len(found) > _MOST_OUTCOMES else [outcome_of(machine, holds) for holds in found]
    if key[0] is objects.resolve_key:
        frame, progress = key[1], key[2]
        languages, _ = frame.groups(progress)
        return [DECLARED + name_number(machine, name) for name in frame.offered_names(progress)] + [
            outcome_of(machine, 1 << index) for index in range(len(languages))
        ]
    return None
