"""What a store has done: counters for people who want to know."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from constrained.kernels.machine import M_HITS

_MOST_TALLIES = 1024
"""What matchers that have gone had found is added up when there are this many numbers."""


@dataclass(frozen=True, slots=True)
class Counters:
    """What the store has done so far.

    Attributes:
        hits: rows that were there when a token was committed or a mask was asked for.
        misses: rows that had to be composed.
        local_walks: walks of the whole trie from one state.
        kept_rows: such walks that were not made, since an earlier process had made them.
        walked_nodes: trie nodes visited by all walks.
        states, rows: how many have been made.
        bytes: memory of tables, rows and memos.
        evictions: how often all rows were let go to stay within `Limits.bytes`.
    """

    hits: int
    misses: int
    local_walks: int
    kept_rows: int
    walked_nodes: int
    states: int
    rows: int
    bytes: int
    evictions: int


class Tally:
    """Rows found by all matchers of a store.

    A matcher counts in its own registers, so that a hit costs no more for being counted.
    """

    def __init__(self) -> None:
        self._found_by: dict[int, NDArray[np.int64]] = {}
        self._found_before = 0
        self._gone: deque[int] = deque()
        self._lock = threading.Lock()

    def enrol(self, matcher: int, registers: NDArray[np.int64]) -> None:
        """Count in what a new matcher finds."""
        self._found_by[matcher] = registers
        if len(self._gone) > _MOST_TALLIES and self._lock.acquire(blocking=False):
            try:
                self._add_up()
            finally:
                self._lock.release()

    def dismiss(self, matcher: int) -> None:
        """A matcher goes; what it found stays counted.  The garbage collector may call this anywhere: it takes no lock."""
        registers = self._found_by.pop(matcher, None)
        if registers is not None:
            self._gone.append(int(registers[M_HITS]))

    def total(self) -> int:
        """Rows found so far."""
        with self._lock:
            self._add_up()
            return self._found_before + sum(int(registers[M_HITS]) for registers in [*self._found_by.values()])

    def _add_up(self) -> None:
        while self._gone:
            self._found_before += self._gone.popleft()
