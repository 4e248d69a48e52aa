"""The rows along a draft: written while its tokens are committed, in one call."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from constrained.kernels.handles import (
    O_CELLS,
    O_HISTORY,
    O_TEXT,
    T_ACTIONS,
    T_BLOB,
    T_BOUNDS,
    T_DENSE,
    T_FIRST,
    T_MAPS,
    T_POOL,
    T_ROWS,
    T_STATES,
    int32_items,
    int32_rows,
    int64_items,
    uint8_items,
    uint32_rows,
)
from constrained.kernels.jit import kernel
from constrained.kernels.machine import M_CELL, M_ROW, M_STATE, commit, find_row
from constrained.kernels.rows import expand_row
from constrained.kernels.tables import OK

Int64 = NDArray[np.int64]
UInt32 = NDArray[np.uint32]


@kernel
def rows_ahead(
    handles: Int64, memo: Int64, own: Int64, registers: Int64, tokens: Int64, numbers: Int64, rows: UInt32
) -> int:  # fmt: skip
    """Write the row of each place into `rows` and its number into `numbers`, int64[len(tokens) + 1], and commit the tokens.

    Goes as far as rows are there and allow the tokens, and commits ask for nothing; the number behind the last row written
    is -1.

    Returns:
        How many tokens were committed; the row behind them is the last that can have been written.
    """
    states, bounds = int32_rows(handles, T_STATES), int64_items(handles, T_BOUNDS)
    cells = int32_rows(own, O_CELLS)
    first_row, done = handles[T_FIRST, 0], 0
    while True:
        number = registers[M_ROW]
        if number < first_row:
            number = find_row(states, memo, cells, registers[M_STATE], registers[M_CELL])
        if number < first_row:
            numbers[done] = -1
            return done
        expand_row(
            int32_rows(handles, T_ROWS),
            uint32_rows(handles, T_DENSE),
            int32_items(handles, T_POOL),
            number - first_row,
            rows[done],
        )
        numbers[done] = number
        if done == tokens.shape[0]:
            return done
        numbers[done + 1] = -1
        token = tokens[done]
        if token < 0 or token >= bounds.shape[0] - 1 or token >> 5 >= rows.shape[1]:
            return done
        if not (rows[done, token >> 5] >> np.uint32(token & 31)) & np.uint32(1) or bounds[token] == bounds[token + 1]:
            return done
        status = commit(
            states,
            uint8_items(handles, T_MAPS),
            int64_items(handles, T_ACTIONS),
            memo,
            cells,
            int32_rows(own, O_HISTORY),
            uint8_items(own, O_TEXT),
            registers,
            uint8_items(handles, T_BLOB),
            bounds[token],
            bounds[token + 1],
        )
        if status != OK:
            return done
        done += 1
