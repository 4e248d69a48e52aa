"""The keys of states that stand for a state of a grammar and what has been read of phrases, and what is inside of them.

Whoever looks at the kinds of states without caring for phrases looks at the state inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from constrained.automata.transitions import Transitions

if TYPE_CHECKING:
    from constrained.automata.machine import Machine
from constrained.automata.state_keys import Key


def expand_followed(machine: Machine, phrased: Any, state: int, read: int, context: int) -> Transitions:
    """A state of the grammar, and what has been read of the phrases; in `context` the frame may be left.

    `phrased` is a `constrained.automata.phrases.product.Phrased`.
    """
    made: Transitions = phrased.expanded(machine, state, read, context)
    return made


def expand_passing(machine: Machine, phrased: Any, state: int, read: int, context: int) -> Transitions:
    """The same for a state of a kind that may hand bytes on to other frames."""
    made: Transitions = phrased.expanded(machine, state, read, context)
    return made


def resolve_followed(machine: Machine, outcome: int, phrased: Any, then: int, context: int) -> int:
    """A frame has been left with an outcome of the grammar and what has been read by then; `then` as in `C_RETURN`."""
    found: int = phrased.resolved(machine, outcome, then, context)
    return found


_FOLLOWED = (expand_followed, expand_passing)


def inside(machine: Machine, state: int) -> tuple[Key, int] | None:
    """The key of a state or wait state with phrases, and the state (or, as in `C_RETURN`, wait state) inside; None of others."""
    key = machine.key(state)
    if key[0] in _FOLLOWED or key[0] is resolve_followed:
        return key, key[2]
    return None


def plain(machine: Machine, state: int) -> int:
    """The state of the grammar that a state stands for: itself, where no phrases are followed."""
    key = machine.key(state)
    return int(key[2]) if key[0] in _FOLLOWED else state


def plain_return(machine: Machine, then: int) -> int:
    """The same for a return state (or -1 - wait state)."""
    if then >= 0:
        return plain(machine, then)
    key = machine.key(-1 - then)
    return int(key[2]) if key[0] is resolve_followed else then
