"""Bounds on what a compile or a request may cost; every one of them ends in `LimitExceeded`."""

from __future__ import annotations

from dataclasses import dataclass

from grammars.effort import Timed


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one machine and of the matchers on it.

    Attributes:
        states: states of the byte-level machine that a vocabulary may hold at a time.
        stack_depth: frames below the one in use (nesting of objects and arrays).
        step_states: states that a single mask or token may make.
        step_seconds: time that a thread may compute for compiling, a mask, or a piece of a committed token before it is given up.
        step_searches: derivatives and the like that the same may take; each leaves about a kilobyte behind.
        bytes: memory for states, rows and memos, languages and texts of grammars among them, about.  Rows that take half of
            it are let go, to be made again where needed; past it a fresh machine is started for new compiles.
    """

    states: int = 4_000_000
    stack_depth: int = 4_000
    step_states: int = 400_000
    step_seconds: float = 20.0
    step_searches: int = 4_000_000
    bytes: int = 256 << 20

    def timed(self) -> Timed:
        """`step_seconds` and `step_searches` for the blocks that it is entered for."""
        return Timed(
            self.step_seconds,
            f"a step takes more than {self.step_seconds:g} s (Limits.step_seconds)",
            self.step_searches,
            f"a step takes more than {self.step_searches} searches (Limits.step_searches)",
        )


DEFAULT_LIMITS = Limits()
