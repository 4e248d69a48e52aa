"""Rows written out one below the other, for callers that hand row numbers around (a device gathers them by number)."""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from constrained.masks.generation import Generation


class RowTable:
    """Dense rows of one store, each written once.

    Rows are only ever added, so what a mirror on a device has copied stays right; it copies `rows[copied:count]`.  A table
    that is full is not added to any more: the store has another one then, with numbers of its own.

    Attributes:
        count: rows in use.
    """

    def __init__(self, words: int) -> None:
        self._lock = threading.Lock()
        self._slots: dict[int | bytes, int] = {}
        self._rows: NDArray[np.uint32] = np.zeros((16, words), dtype=np.uint32)
        self.count = 0

    @property
    def rows(self) -> NDArray[np.uint32]:
        """uint32[count, ceil(vocabulary size / 32)]."""
        return self._rows[: self.count]

    @property
    def nbytes(self) -> int:
        """Memory in use, in bytes."""
        return self.rows.nbytes

    def is_full(self, most: int) -> bool:
        """Whether the rows take more than `most` bytes."""
        return self.nbytes > most

    def slot_of(self, source: Generation, number: int) -> int:
        """The place in the table of row `number`, one of `source`."""
        slot = self._slots.get(number)
        if slot is None:
            with self._lock:
                slot = self._slots.get(number)
                if slot is None:
                    slot = self._grown()
                    if not source.write(number, self._rows[slot]):
                        raise IndexError(f"row {number} is not of the generation that begins with {source.first}")
                    self.count = slot + 1
                    self._slots[number] = slot  # last: others look here without the lock
        return slot

    def slot_for(self, row: NDArray[np.uint32]) -> int:
        """The place in the table of a row that is not one of the store's own."""
        key = row.tobytes()
        with self._lock:
            slot = self._slots.get(key)
            if slot is None:
                slot = self._grown()
                self._rows[slot] = row
                self.count = slot + 1
                self._slots[key] = slot
            return slot

    def _grown(self) -> int:
        if self.count == self._rows.shape[0]:
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
        return self.count
