"""What it takes to leave a frame, for all of its states that a shortest way out goes through.

A shortest way from one state goes on in a shortest way from each state that it meets, so one text tells the cost of all of them,
and a way that has come to where the cost is known is not followed any further.  Without that, what an object is short of, a
long text perhaps, would be followed byte by byte from each of its states.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING

from constrained.automata.machine import Machine, expand_literal
from constrained.automata.settling import forgetful, wants_new_key

if TYPE_CHECKING:
    from constrained.automata.stacks import Stack


def is_of_one_text(machine: Machine, state: int) -> bool:
    """Whether the cost of a state is that of one text, and makes no allowance for texts that are not known."""
    if machine.key(state)[0] is expand_literal:
        return True
    return not machine.is_open(state) and forgetful(machine, state) == state and not wants_new_key(machine, state)


class WayOut:
    """A way out of a frame, and the states of the frame that it goes through.

    Attributes:
        ground: the stack while the frame is the top one.
        read: bytes of the way so far.
        rest: bytes that are left to the end of the frame, once they are known.
    """

    def __init__(self, machine: Machine, ground: Stack, cost: Callable[[int], int]) -> None:
        """`cost`: bytes from a state to the end of its frame; below 0: not known."""
        self.ground = ground
        self.read = 0
        self.rest: int | None = None
        self._machine, self._cost = machine, cost
        self._passed: list[tuple[int, int]] = []

    def forked(self) -> WayOut:
        """The same way so far, to be gone on alone."""
        other = copy(self)
        other._passed = []
        return other

    def take(self, fork: WayOut) -> None:
        """Go on as a fork has gone on."""
        self.read, self.rest = fork.read, fork.rest
        self._passed += fork._passed

    def ends_at(self, state: int, stack: Stack, at: int) -> bool:
        """Notes that the way is at `state`, `at` bytes after `read`; true where its rest is known from there on."""
        if stack != self.ground:
            return False
        cost = self._cost(state)
        if cost >= 0 and is_of_one_text(self._machine, state):
            self.read, self.rest = self.read + at, cost
            return True
        self._passed.append((state, self.read + at))
        return False

    @property
    def length(self) -> int:
        """Bytes of the whole way, whose end is known."""
        assert self.rest is not None
        return self.read + self.rest

    def costs(self) -> list[tuple[int, int]]:
        """(state, bytes to the end of the frame) of the states that it goes through."""
        return [(state, self.length - read) for state, read in self._passed if is_of_one_text(self._machine, state)]
