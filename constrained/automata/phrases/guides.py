"""What the searches for completions have to know of grammars with phrases: how far an end is, at least and at most."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from constrained.automata.configurations import BOUNDS, COSTS, PASSED_ON, ConfigurationBounds, frames_above
from constrained.automata.machine import Machine
from constrained.automata.phrases.keys import expand_followed, expand_passing, plain_return, resolve_followed
from constrained.kernels.survey import FAR

if TYPE_CHECKING:
    from constrained.automata.stacks import Stack


class _Inside:
    """Stacks of the grammar alone, for the stacks of one search."""

    def __init__(self, bounds: ConfigurationBounds) -> None:
        self._machine = bounds.machine
        self._known: dict[Stack, Stack] = {None: None}

    def stack(self, stack: Stack) -> Stack:
        """The stack without what has been read of phrases."""
        for one in frames_above(stack, self._known):
            self._known[one] = (plain_return(self._machine, one[0]), self._known[one[1]])
        return self._known[stack]


def _followed(bounds: ConfigurationBounds, stack: Any, phrased: Any, state: int, read: int, _context: int) -> int:
    inside = bounds.part(_Inside).stack(stack)
    missing: int = phrased.follower.distance(read)
    return max(bounds.of(state, inside), missing)


def _cost(machine: Machine, state: int) -> int | None:
    """No bound that holds whatever the text: near a budget, every token is looked at."""
    return FAR if machine.key(state)[0] in (expand_followed, expand_passing, resolve_followed) else None


def _costs(
    machine: Machine, _spelled: Callable[[bytes], int], _cost_of: Callable[[int], int]
) -> Callable[[int], int | None]:
    return lambda state: _cost(machine, state)


PASSED_ON.add(expand_passing)
BOUNDS.update({expand_followed: _followed, expand_passing: _followed})
COSTS.append(_costs)
