"""Bounds of whole configurations, and what kinds of states say of themselves that are imported only where they are used.

Frames of some grammars (`constrained.automata.context_free`) depend on those below them.  Their module enters here, when it
is imported, how such states are bounded; where it is not, there are no such states.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any, TypeVar

from constrained.kernels.survey import FAR

if TYPE_CHECKING:
    from constrained.automata.lower_bounds import LowerBounds
    from constrained.automata.machine import Machine
    from constrained.automata.stacks import Stack

PASSED_ON: set[Callable[..., Any]] = set()
"""Kinds of states that may hand a byte on to other frames before it is read."""
BOUNDS: dict[Callable[..., Any], Callable[..., int]] = {}
"""For a kind of states: (bounds, stack, the rest of the key) -> bytes to the end of a sentence, at least."""
COSTS: list[Callable[[Machine, Callable[[bytes], int], Callable[[int], int]], Callable[[int], int | None]]] = []
"""(machine, tokens that spell a text, cost of a state) -> the cost of states of a kind, None for others."""

P = TypeVar("P")


def frames_above(stack: Stack, known: Container[Stack]) -> list[Any]:
    """The stacks from the lowest that is not `known` up to `stack`, one frame more each; the empty one is known."""
    found = []
    while stack not in known:
        assert stack is not None
        found.append(stack)
        stack = stack[1]
    return found[::-1]


class ConfigurationBounds:
    """Lower bounds for configurations of one machine, for the time of one search."""

    def __init__(self, bounds: LowerBounds) -> None:
        self.machine = bounds.machine
        self._bounds = bounds
        self._below: dict[Stack, int] = {None: 0}
        self._parts: dict[type[Any], Any] = {}

    def part(self, kind: type[P]) -> P:
        """What the bounds of one kind of states share: an instance of `kind`, made of these bounds at the first call."""
        found: P | None = self._parts.get(kind)
        if found is None:
            found = self._parts[kind] = kind(self)  # type: ignore[call-arg]
        return found

    def of(self, state: int, stack: Stack) -> int:
        """Bytes to the end of a sentence, at least."""
        key = self.machine.key(state)
        rule = BOUNDS.get(key[0])
        if rule is not None:
            return min(FAR, rule(self, stack, *key[1:]))
        return min(FAR, self._bounds.of(state) + self.below(stack))

    def below(self, stack: Stack) -> int:
        """Bytes that the frames of a stack take at least."""
        for one in frames_above(stack, self._below):
            then = one[0]
            key = self.machine.key(then) if then >= 0 else ()
            if key and key[0] in BOUNDS:  # what is gone back to knows of all that follows
                total = BOUNDS[key[0]](self, one[1], *key[1:])
            else:
                total = self._below[one[1]] + self._bounds.of(then if then >= 0 else -1 - then)
            self._below[one] = min(FAR, total)
        return self._below[stack]
