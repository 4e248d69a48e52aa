"""The rows along a draft: written while its tokens are committed, in one call."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from constrained.kernels.handles import O_CELLS, T_FIRST, T_ROWS, commit_token, int32_rows, row_of, write_numbered
from constrained.kernels.jit import kernel
from constrained.kernels.machine import M_BYTES, M_CELL, M_LENGTH, M_ROW, M_STATE, M_TOP
from constrained.kernels.tables import OK, R_OPEN

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
        How many tokens were committed: numbers and rows of the places before them are there, and those of the next where
        its number is not negative.
    """
    done = 0
    while True:
        number = write_numbered(generation, registers[M_ROW], rows[done])
        if number < 0:
            found = row_of(handles, memo, int32_rows(own, O_CELLS), registers[M_STATE], registers[M_CELL])
            number = write_numbered(generation, found, rows[done])
        numbers[done] = number
        if number < 0 or done == tokens.shape[0]:
            return done
        token = tokens[done]
        if token < 0 or token >> 5 >= rows.shape[1]:
            return done
        if not (rows[done, token >> 5] >> np.uint32(token & 31)) & np.uint32(1):
            return done
        if commit_token(handles, memo, own, registers, token) != OK:
            return done
        done += 1


@kernel
def rows_there_and_back(
    handles: Int64, generation: Int64, memo: Int64, own: Int64, registers: Int64, tokens: Int64, numbers: Int64,
    rows: UInt32,
) -> int:  # fmt: skip
    """`rows_ahead`, after which nothing has been committed; rows behind a token that is not allowed are empty.

    Returns:
        How many of `rows` are masks, so far as no budget is in their way; 0 where some are not known, or the text has to
        tell of some tokens.
    """
    state, cell, top = registers[M_STATE], registers[M_CELL], registers[M_TOP]
    length, written, row = registers[M_LENGTH], registers[M_BYTES], registers[M_ROW]
    done = rows_ahead(handles, generation, memo, own, registers, tokens, numbers, rows)
    registers[M_STATE], registers[M_CELL], registers[M_TOP] = state, cell, top
    registers[M_LENGTH], registers[M_BYTES], registers[M_ROW] = length, written, row
    if numbers[done] < 0:
        return 0
    table, first = int32_rows(generation, T_ROWS), generation[T_FIRST, 0]
    for place in range(done + 1):
        if table[numbers[place] - first, R_OPEN]:
            return 0
    if done < tokens.shape[0]:
        token, allowed = tokens[done], np.uint32(0)
        if 0 <= token < 32 * rows.shape[1]:
            allowed = (rows[done, token >> 5] >> np.uint32(token & 31)) & np.uint32(1)
        if allowed:
            return 0  # it ends the text, or something is to be made for it
        for place in range(done + 1, tokens.shape[0] + 1):
            for word in range(rows.shape[1]):
                rows[place, word] = 0
    return done + 1
