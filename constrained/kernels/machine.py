"""Steps of the byte-level pushdown machine, and the walk of a token's bytes through it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from constrained.kernels.branches import L_KNOWN, READS_KEYS
from constrained.kernels.jit import Bytes, inlined, kernel
from constrained.kernels.object_keys import ABSENT, K_BRACE, K_END, settled_state
from constrained.kernels.tables import (
    ACCEPT,
    ACCEPTED,
    C_DEPTH,
    C_MARK,
    C_NEXT,
    C_RETURN,
    CELLS_FULL,
    CHAIN_FLAG,
    EXIT,
    GOTO,
    HISTORY_FULL,
    KIND_SHIFT,
    OK,
    OPEN,
    OPEN_HERE,
    OPERAND_MASK,
    OUTCOME_BITS,
    PASSING,
    POP_AFTER,
    POP_KEY,
    PUSH,
    PUSH_AFTER,
    REJECTED,
    RETURN_SHIFT,
    S_ACTIONS,
    S_MAP,
    S_ROW,
    S_SLACK,
    TOO_DEEP,
    UNKNOWN_POP,
    UNKNOWN_STATE,
    WAITS_BIT,
)

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt8 = NDArray[np.uint8]
UInt64 = NDArray[np.uint64]

M_STATE, M_CELL, M_TOP, M_LENGTH, M_ROW, M_BYTES, M_DETAIL, M_OUTCOME, M_AT, M_HITS, M_DEEPEST = range(11)
M_FINISHED, M_BUDGETED, M_STORE = range(16, 19)
REGISTERS = 19
"""Registers of a matcher, int64[19]: the configuration, tokens and bytes committed, the row found (or -1), and what a
status code refers to: the state or wait state, its outcome, the byte of the token at which it came up; rows found; how many
cells the stack may have; those of `object_keys`; whether an end token was committed, whether there is a budget, and the
number of the store."""
H_STATE, H_CELL, H_TOP, H_BYTES = range(4)


@inlined
def memo_get(memo: Int64, key: int) -> int:
    """Value of `key` in the open-addressing table `memo` (int64[2^k, 2], empty keys are -1), or -1."""
    mask = memo.shape[0] - 1
    mixed = ((key >> 32) * 0x1E3779B1 ^ key) & 0x7FFFFFFF
    slot = ((mixed * 0x45D9F3B) >> 12) & mask
    while True:
        found = memo[slot, 0]
        if found == key:
            return memo[slot, 1]  # type: ignore[no-any-return]
        if found == -1:
            return -1
        slot = (slot + 1) & mask


@inlined
def memo_put(memo: Int64, key: int, value: int) -> None:
    """Insert `key`, which must be absent; the value is written first, so that readers never see a key without it."""
    mask = memo.shape[0] - 1
    mixed = ((key >> 32) * 0x1E3779B1 ^ key) & 0x7FFFFFFF
    slot = ((mixed * 0x45D9F3B) >> 12) & mask
    while memo[slot, 0] != -1:
        slot = (slot + 1) & mask
    memo[slot, 1] = value
    memo[slot, 0] = key


@kernel
def memo_insert(memo: Int64, key: int, value: int) -> None:
    """`memo_put` for Python callers."""
    memo_put(memo, key, value)


@kernel
def memo_find(memo: Int64, key: int) -> int:
    """`memo_get` for Python callers."""
    return memo_get(memo, key)


@kernel
def memo_copy(source: Int64, target: Int64) -> None:
    """Re-insert every entry of `source` into the larger, empty `target`."""
    for slot in range(source.shape[0]):
        if source[slot, 0] != -1:
            memo_put(target, source[slot, 0], source[slot, 1])


@inlined
def dispatch(
    states: Int32, maps: UInt8, actions: Int64, memo: Int64, cells: Int32,
    state: int, cell: int, top: int, symbol: int, floor: int, mark: int,
) -> tuple[int, int, int, int, int]:  # fmt: skip
    """One symbol (a byte, or 256 at the end of the text) through the machine.

    Returns (status, state, cell, top, outcome).  A pop of the cell `floor` is not made: the status is EXIT, the state is
    the one that wanted to leave (or -1 if the symbol was consumed) and `outcome` what it wanted to leave with.
    UNKNOWN_STATE names the state to expand; UNKNOWN_POP the wait state and, in `outcome`, what it was left with.
    """
    while True:
        block = states[state, S_ACTIONS]
        if block < 0:
            return UNKNOWN_STATE, state, cell, top, 0
        if symbol == 256:
            action = actions[block]
            if action == 0:
                return REJECTED, state, cell, top, 0
        else:
            group = maps[states[state, S_MAP] * 256 + symbol]
            if group == 0:
                return REJECTED, state, cell, top, 0
            action = actions[block + group]
        kind = action >> KIND_SHIFT
        if kind == GOTO:
            return OK, action & OPERAND_MASK, cell, top, 0
        if kind == PUSH or kind == PUSH_AFTER:
            if top >= cells.shape[0]:
                return CELLS_FULL, state, cell, top, 0
            then = (action >> RETURN_SHIFT) & OPERAND_MASK
            if (action >> WAITS_BIT) & 1:
                then = -1 - then
            cells[top, C_RETURN] = then
            cells[top, C_NEXT] = cell
            cells[top, C_DEPTH] = cells[cell, C_DEPTH] + 1
            cells[top, C_MARK] = mark
            cell = top
            top += 1
            state = action & OPERAND_MASK
            if kind == PUSH_AFTER:
                return OK, state, cell, top, 0
            continue
        if kind == ACCEPT:
            return ACCEPTED, state, cell, top, 0
        outcome = action & OPERAND_MASK
        if cell == floor:
            return EXIT, (-1 if kind == POP_AFTER else state), cell, top, outcome
        then = cells[cell, C_RETURN]
        if then >= 0:
            state = then
        else:
            target = memo_get(memo, POP_KEY | (np.int64(-1 - then) << OUTCOME_BITS) | outcome)
            if target < 0:
                return UNKNOWN_POP, -1 - then, cell, top, outcome
            if target == 0:
                return REJECTED, state, cells[cell, C_NEXT], top, 0  # what the cell says has been looked at
            state = target
        cell = cells[cell, C_NEXT]
        if kind == POP_AFTER:
            return OK, state, cell, top, 0


@inlined
def find_row(states: Int32, memo: Int64, cells: Int32, state: int, cell: int) -> int:
    """Number of the memoised row of the configuration, or -1."""
    row = states[state, S_ROW]
    if row >= 0:
        return row  # type: ignore[no-any-return]
    node = np.int64(state)
    while True:
        value = memo_get(memo, (node << 32) | (np.int64(cells[cell, C_RETURN]) & 0xFFFFFFFF))
        if value < CHAIN_FLAG:
            return value
        node = np.int64(value - CHAIN_FLAG)
        cell = cells[cell, C_NEXT]


@inlined
def settle(
    states: Int32, actions: Int64, memo: Int64, cells: Int32, state: int, cell: int, top: int, mark: int
) -> tuple[int, int, int, int, int]:
    """Go on from a state that is PASSING to the first that is not; results as of `dispatch`."""
    while states[state, S_SLACK] == PASSING:
        block = states[state, S_ACTIONS]
        if block < 0:
            return UNKNOWN_STATE, state, cell, top, 0
        action = actions[block]
        if action >> KIND_SHIFT == PUSH:
            if top >= cells.shape[0]:
                return CELLS_FULL, state, cell, top, 0
            then = (action >> RETURN_SHIFT) & OPERAND_MASK
            cells[top, C_RETURN] = -1 - then if (action >> WAITS_BIT) & 1 else then
            cells[top, C_NEXT] = cell
            cells[top, C_DEPTH] = cells[cell, C_DEPTH] + 1
            cells[top, C_MARK] = mark
            cell = top
            top += 1
            state = action & OPERAND_MASK
        else:
            outcome = action & OPERAND_MASK
            then = np.int64(cells[cell, C_RETURN])
            if then < 0:
                target = memo_get(memo, POP_KEY | ((-1 - then) << OUTCOME_BITS) | outcome)
                if target < 0:
                    return UNKNOWN_POP, -1 - then, cell, top, outcome  # type: ignore[return-value]
                then = target
            state = then
            cell = cells[cell, C_NEXT]
    return OK, state, cell, top, 0


@kernel
def commit(
    states: Int32, maps: UInt8, actions: Int64, memo: Int64, loops: UInt64, settled: Int64, cells: Int32, history: Int32,
    text: UInt8, matcher: Int64, blob: UInt8, first: int, last: int,
) -> int:  # fmt: skip
    """Commit the bytes `blob[first:last]` of one token and look the next row up.

    On OK the registers have moved, the history has grown by one and M_ROW is the row or -1.  On any other status
    nothing has moved; M_DETAIL and M_OUTCOME say what is missing.  OPEN: a state is reached that the text has to tell, and
    `settled` (see `object_keys`) does not know it.
    """
    state, cell, top = matcher[M_STATE], matcher[M_CELL], matcher[M_TOP]
    length = matcher[M_LENGTH]
    written = matcher[M_BYTES]
    if matcher[K_END] > written:  # that text was not committed, or taken back
        matcher[K_BRACE] = -1
    if length >= history.shape[0] or written + last - first > text.shape[0]:
        return HISTORY_FULL
    for at in range(first, last):
        status, state, cell, top, outcome = dispatch(
            states, maps, actions, memo, cells, state, cell, top, blob[at], -1, written
        )
        if status != OK:
            matcher[M_DETAIL] = state
            matcher[M_OUTCOME] = outcome
            matcher[M_AT] = at
            return status
        text[written] = blob[at]
        written += 1
        if OPEN_HERE <= states[state, S_SLACK] < 0:
            if loops[state, L_KNOWN] & np.uint64(READS_KEYS) == np.uint64(0):
                return OPEN
            state = settled_state(text, cells[cell, C_MARK], written, settled, matcher, state)
            if state == ABSENT:
                return OPEN
            if state == 0:
                return REJECTED
    if states[state, S_SLACK] == PASSING:
        status, state, cell, top, outcome = settle(states, actions, memo, cells, state, cell, top, written)
        if status != OK:
            matcher[M_DETAIL] = state
            matcher[M_OUTCOME] = outcome
            return status
    if cells[cell, C_DEPTH] > matcher[M_DEEPEST]:
        return TOO_DEEP
    history[length, H_STATE] = matcher[M_STATE]
    history[length, H_CELL] = matcher[M_CELL]
    history[length, H_TOP] = matcher[M_TOP]
    history[length, H_BYTES] = matcher[M_BYTES]
    matcher[M_LENGTH] = length + 1
    matcher[M_STATE] = state
    matcher[M_CELL] = cell
    matcher[M_TOP] = top
    matcher[M_BYTES] = written
    row = find_row(states, memo, cells, state, cell)
    matcher[M_ROW] = row
    if row >= 0:
        matcher[M_HITS] += 1
    return OK


@kernel
def look_up(states: Int32, memo: Int64, cells: Int32, state: int, cell: int) -> int:
    """`find_row` for Python callers."""
    return find_row(states, memo, cells, state, cell)


@kernel
def run(
    states: Int32, maps: UInt8, actions: Int64, memo: Int64, cells: Int32, data: Bytes, position: Int64
) -> int:  # fmt: skip
    """Run `data` from position[0:3] = (state, cell, top) as far as it goes.

    `position` is int64[7]: state, cell, top, bytes consumed, then detail and outcome of the status returned, and the place
    of data[0] in the text.  A symbol 256 is dispatched after the last byte if position[5] is 1 on entry, and ACCEPTED is
    returned if the text may end.  OPEN: the state reached is one that the text has to tell; position[4] is the cell before.
    """
    state, cell, top = position[0], position[1], position[2]
    wants_end = position[5] == 1
    begun = position[6]
    for at in range(position[3], data.shape[0]):
        status, after, cell_after, top_after, outcome = dispatch(
            states, maps, actions, memo, cells, state, cell, top, data[at], -1, begun + at
        )
        if status != OK:
            position[4] = after
            position[5] = outcome
            return status
        position[4] = cell
        state, cell, top = after, cell_after, top_after
        position[0], position[1], position[2], position[3] = state, cell, top, at + 1
        if OPEN_HERE <= states[state, S_SLACK] < 0:
            return OPEN
    if wants_end:
        status, after, cell, top, outcome = dispatch(states, maps, actions, memo, cells, state, cell, top, 256, -1, 0)
        position[4] = after
        position[5] = outcome
        return status
    return OK
