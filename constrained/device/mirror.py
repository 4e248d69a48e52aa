"""A device's copy of a row table."""

from __future__ import annotations

import threading
import weakref

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from constrained.device.transfer import staged
from constrained.masks.row_table import RowTable

_FIRST_ROWS = 64


class TableMirror:
    """The rows of one table on one device; rows are sent once, when they are first needed there.

    One mirror serves all threads and CUDA streams.

    Attributes:
        device: where it is.
        copied: rows that are there.
    """

    def __init__(self, table: RowTable, device: torch.device) -> None:
        self.device = device
        self.copied = 0
        self._table = weakref.ref(table)
        self._words = table.rows.shape[1]
        self._lock = threading.Lock()
        self._stream: torch.cuda.Stream | None = None
        self._sent: torch.cuda.Event | None = None
        self._rows = self._room(_FIRST_ROWS)
        self._note_stream()

    @classmethod
    def of(cls, table: RowTable, device: torch.device) -> TableMirror:
        """The mirror of `table` on `device`, made at the first call; it goes when the table does."""
        if device == torch.device("cuda"):
            device = torch.device("cuda", torch.cuda.current_device())
        with _MIRRORS_LOCK:
            mirrors = _MIRRORS.setdefault(table, {})
            mirror = mirrors.get(device)
            if mirror is None:
                mirror = mirrors[device] = cls(table, device)
            return mirror

    def rows(self) -> Tensor:
        """int32 [at least the table's count, words]: every row that the table has at the time of the call.

        Work that is put on the current stream afterwards finds them there.  Rows that are there are not written again,
        and the tensor stays right when a later call returns a larger one.
        """
        table = self._table()
        if table is None:
            raise ReferenceError("the table of this mirror is gone")
        with self._lock:
            self._order_streams()
            new = table.rows[self.copied :]
            if len(new):
                self._append(new.view(np.int32))
            return self._rows

    def _append(self, new: NDArray[np.int32]) -> None:
        count = self.copied + len(new)
        if count > self._rows.shape[0]:
            larger = self._room(max(count, 2 * self._rows.shape[0]))
            larger[: self.copied].copy_(self._rows[: self.copied])
            self._rows = larger
        self._rows[self.copied : count].copy_(staged(new, self.device), non_blocking=True)
        self.copied = count
        self._note_stream()

    def _room(self, rows: int) -> Tensor:
        # a tensor made in inference mode could not be written outside it
        with torch.inference_mode(False):
            return torch.zeros((rows, self._words), dtype=torch.int32, device=self.device)

    def _note_stream(self) -> None:
        if self.device.type == "cuda":
            self._stream = torch.cuda.current_stream(self.device)
            self._sent = self._stream.record_event()

    def _order_streams(self) -> None:
        """Let the current stream see what was sent on another, and keep the memory until both are done with it."""
        if self._stream is None or self._sent is None:
            return
        current = torch.cuda.current_stream(self.device)
        if current != self._stream:
            current.wait_event(self._sent)
            self._rows.record_stream(current)


_MIRRORS_LOCK = threading.Lock()
_MIRRORS: weakref.WeakKeyDictionary[RowTable, dict[torch.device, TableMirror]] = weakref.WeakKeyDictionary()
