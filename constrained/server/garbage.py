"""Python's garbage collector in a server that runs for long: full collections that look at what is new alone.

A full collection looks at every object that may be part of a cycle: 300 ms and more where a thousand schemas are alive, in which
no token is made.  Nearly all of it lives on, so what a collection has left is frozen, and the next one passes over it.  Cycles
among frozen objects are found by thorough collections: every so many, when grammars are let go (`grammars.memory`), and when the
last request has ended that used what was let go.
"""

from __future__ import annotations

import gc
from time import perf_counter
from typing import Any

from constrained.compile import retired
from grammars.memory import forgets, forgets_no_more

EVERY = 32
"""Full collections to one that is thorough: some two million new objects, as Python counts before it collects."""


class ShortCollections:
    """In force until `close`; for the whole process.

    Attributes:
        count: full collections so far.
        seconds, longest: that they took in all, and the longest.
    """

    def __init__(self) -> None:
        self.count, self.seconds, self.longest = 0, 0.0, 0.0
        self._begin = 0.0
        self._quick = self._retired = 0
        self._is_due = False
        gc.collect()
        gc.freeze()
        gc.callbacks.append(self._note)
        forgets(self._ask)

    def close(self) -> None:
        """Back to Python's own ways."""
        gc.callbacks.remove(self._note)
        forgets_no_more(self._ask)
        gc.unfreeze()

    def _ask(self) -> None:
        """Have the next full collection be a thorough one."""
        self._is_due = True

    def _note(self, phase: str, info: dict[str, Any]) -> None:
        if info["generation"] != 2:
            return
        if phase == "start":
            before, self._retired = self._retired, retired()
            self._quick += 1
            if self._is_due or self._quick >= EVERY or before > self._retired == 0:
                self._quick, self._is_due = 0, False
                gc.unfreeze()
            self._begin = perf_counter()
            return
        took = perf_counter() - self._begin  # noted without a lock: this is called wherever memory is asked for
        self.count, self.seconds, self.longest = self.count + 1, self.seconds + took, max(self.longest, took)
        gc.freeze()
