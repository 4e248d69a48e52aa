"""The rows along a draft: written while its tokens are committed, in one call."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from constrained.kernels.handles import O_CELLS, commit_token, int32_rows, row_of, write_numbered
from constrained.kernels.jit import kernel
from constrained.kernels.machine import M_CELL, M_ROW, M_STATE
from constrained.kernels.tables import OK

Int64 = NDArray[np.int64]
UInt32 = NDArray[np.uint32]


@kernel
def rows_ahead(
    handles: Int64, generation: Int64, memo: Int64, own: Int64, registers: Int64, tokens: Int64, numbers: Int64,
    rows: UInt32,
) -> int:  # fmt: skip
    """Write the row of each place into `rows` and its number into `numbers`, int64[len(tokens) + 1], and commit the tokens.

    Goes as far as rows are in `generation` and allow the tokens, and commits ask for nothing.

    Returns:
        How many tokens were committed: numbers and rows of the places before them are there, and perhaps the next.
    """
    done = 0
    while True:
        number = write_numbered(generation, registers[M_ROW], rows[done])
        if number < 0:
            found = row_of(handles, memo, int32_rows(own, O_CELLS), registers[M_STATE], registers[M_CELL])
            number = write_numbered(generation, found, rows[done])
        if number < 0 or done == tokens.shape[0]:
            return done
        numbers[done] = number
        token = tokens[done]
        if token < 0 or token >> 5 >= rows.shape[1]:
            return done
        if not (rows[done, token >> 5] >> np.uint32(token & 31)) & np.uint32(1):
            return done
        if commit_token(handles, memo, own, registers, token) != OK:
            return done
        done += 1
