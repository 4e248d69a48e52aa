"""A lock whose holder sees that others wait for it."""

from __future__ import annotations

import threading
import time

_SECONDS_TO_WAKE = 2e-4


class TurnLock:
    """As `threading.RLock`; whoever holds it for long can let others go first in between."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self._waiting = 0
        self._counting = threading.Lock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            with self._counting:
                self._waiting += 1
            try:
                self._lock.acquire()
            finally:
                with self._counting:
                    self._waiting -= 1
        self._depth += 1

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        self._lock.release()

    @property
    def is_wanted(self) -> bool:
        """Whether the holder, who has entered it once, keeps others waiting."""
        return self._waiting > 0 and self._depth == 1

    def give_way(self) -> None:
        """Let one who waits go first, where `is_wanted`; what the lock guards must be whole, and may be otherwise afterwards."""
        self._depth -= 1
        self._lock.release()
        time.sleep(_SECONDS_TO_WAKE)  # locks are not fair: taken again at once, it would never be anybody else's
        self.__enter__()
