"""The tables that hold the rows of a store for a time: a generation, replaced as a whole when they are full."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constrained.kernels import handles as h
from constrained.kernels import tables as t
from constrained.memory import reserved

_LEAST_DENSE = 64
_SPARE_ROWS = 1024


class Generation:
    """Rows from number `first` on.

    Row numbers are never used again, so a number tells whether its row is here: those from `first` on are.  A generation
    is kept alive by whoever reads rows from it (its `handles` hold the tables), not by the numbers of its rows.

    Attributes:
        first: the number of its first row.
        pool, dense, locals, rows, exits: tables of `constrained.kernels.tables`; memory is used only where it is written.
        joined: the tables of joined exits (`constrained.kernels.joining`) and of the parts of a row, by their slots.
        handles: those tables and the fixed ones of the store.
        open_tokens: for some rows, tokens that are not in the row and are allowed where the text so far admits them.
        open_locals: the same for local rows.
    """

    __slots__ = ("dense", "exits", "first", "handles", "joined", "locals", "open_locals", "open_tokens", "pool", "rows")

    def __init__(self, first: int, budget: int, words: int, nodes: int, fixed: Mapping[int, NDArray[Any]]) -> None:
        """Tables of which each could hold `budget` bytes, and at least one row of `words` words from a trie of `nodes`."""
        self.first = first
        self.pool: NDArray[np.int32] = reserved((budget // 4 + 8 * (32 * words + 64),), np.int32)
        self.dense: NDArray[np.uint32] = reserved((budget // (4 * words) + _LEAST_DENSE, words), np.uint32)
        self.locals: NDArray[np.int32] = reserved(
            (budget // (4 * t.LOCAL_COLUMNS) + _SPARE_ROWS, t.LOCAL_COLUMNS), np.int32
        )
        self.rows: NDArray[np.int32] = reserved((budget // (4 * t.ROW_COLUMNS) + _SPARE_ROWS, t.ROW_COLUMNS), np.int32)
        self.exits: NDArray[np.int32] = reserved((budget // 12 + 8 * nodes, 3), np.int32)
        count = budget // 64 + 2 * nodes
        tokens = budget // 8 + 2 * 32 * words
        self.joined: dict[int, NDArray[Any]] = {
            h.T_JOINED: reserved((count, t.NODE_COLUMNS), np.int32),
            h.T_JOINED_BYTES: reserved((count,), np.uint8),
            h.T_JOINED_BELOW: reserved((count, 2), np.uint64),
            h.T_JOINED_TOKENS: reserved((tokens,), np.int32),
            h.T_JOINED_LENGTHS: reserved((tokens,), np.int32),
            h.T_JOIN_SCRATCH: reserved((4 * nodes + 257,), np.int32),
            h.T_ITEMS: np.zeros((t.ITEMS, 2), dtype=np.int64),
        }
        tables = {
            h.T_POOL: self.pool, h.T_DENSE: self.dense, h.T_LOCALS: self.locals, h.T_ROWS: self.rows, h.T_EXITS: self.exits,
        }  # fmt: skip
        self.handles = h.handles_of(h.TABLES, {**fixed, **tables, **self.joined})
        self.handles[h.T_FIRST, 0] = first
        self.open_tokens: dict[int, tuple[int, ...]] = {}
        self.open_locals: dict[int, list[int]] = {}

    def write(self, number: int, row: NDArray[np.uint32]) -> bool:
        """Write row `number` into `row`, uint32[words]; False, and nothing written, if it is not one of this generation."""
        return bool(h.write_numbered(self.handles, number, row) >= 0)

    def local_row(self, local: int) -> tuple[NDArray[np.uint32], NDArray[np.int32]]:
        """Copies of a local row, uint32[words], and of its exits, int32[n, 3]."""
        base, first, last, exits, exits_end = self.locals[local, : t.L_EXITS_END + 1].tolist()
        row: NDArray[np.uint32] = (
            np.zeros(self.dense.shape[1], dtype=np.uint32) if base < 0 else self.dense[base].copy()
        )
        listed = self.pool[first:last]
        np.bitwise_xor.at(row, listed >> 5, np.uint32(1) << (listed & 31).astype(np.uint32))
        return row, self.exits[exits:exits_end].copy()
