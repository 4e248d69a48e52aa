"""The making of a row in one call: the local rows it rests on, then its completion by the frames below."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from constrained.kernels import handles as h
from constrained.kernels.branches import IS_STRING, L_KNOWN, NOT_KEPT
from constrained.kernels.compose import compose, file_row
from constrained.kernels.jit import inlined, kernel
from constrained.kernels.joining import join_exits
from constrained.kernels.leaving import find_items, find_large
from constrained.kernels.machine import M_CELL, M_HITS, M_ROW, M_STATE, M_TOP, find_row, memo_put
from constrained.kernels.object_places import make_piece
from constrained.kernels.object_tables import N_STATES
from constrained.kernels.rows import expand_row
from constrained.kernels.tables import (
    ASK_KEPT,
    C_DEPTH,
    DEAR_LOCAL,
    L_DENSE,
    L_EXITS,
    L_EXITS_END,
    L_IDS,
    L_IDS_END,
    L_LARGE,
    L_LARGE_END,
    L_OPEN,
    L_PREPARED,
    LOCAL_COLUMNS,
    MEMO_FULL,
    NEED_LOCAL,
    NO_ROOM,
    NODE_COLUMNS,
    OK,
    OPEN_LOCAL,
    OPEN_ROW,
    ROW_COLUMNS,
    S_ACTIONS,
    S_BASE,
    S_LOCAL,
    S_SLACK,
    UNKNOWN_POP,
    UNKNOWN_STATE,
    WITHIN_KEY,
    WITHIN_SHIFT,
)
from constrained.kernels.walk import begin_local, walk_alone, walk_beside
from constrained.kernels.walk_registers import (
    CHAINS,
    W_BUDGET,
    W_CELL,
    W_CHAIN,
    W_COST,
    W_DENSE,
    W_DETAIL,
    W_EXITS,
    W_FIRST,
    W_FOUND,
    W_HORIZON,
    W_ITEMS,
    W_JOINED,
    W_JOINED_TOKENS,
    W_KEEPS,
    W_LIMIT_DENSE,
    W_LOCALS,
    W_MADE,
    W_MEMO,
    W_MISSES,
    W_OPEN,
    W_POOL,
    W_RESUME,
    W_ROOT,
    W_ROWS,
    W_STAGE,
    W_STATE,
    W_STEP_STATES,
    W_TOP,
    W_UNFILED,
    W_WALKED,
    W_WALKS,
    W_WITHIN,
)

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt32 = NDArray[np.uint32]
UInt64 = NDArray[np.uint64]

_ENTRY_BYTES = 48
"""Of the memo, for each entry: 16 bytes, a third full on average."""
_NODE_BYTES = 4 * NODE_COLUMNS + 17
"""Of a node of joined exits: its columns, its byte, and what is below it."""
STEP_ENTRIES = 64
"""Memo entries that one row may make at most, beside those for the frames of the stack."""
_LOCAL, _PARTS, _COMPOSING, BEGIN = range(4)
"""W_STAGE: the state's local row is being made, those of large exits, the row itself, or nothing yet."""


@kernel
def bytes_of_rows(w: Int64, words: int) -> int:
    """Bytes that rows, and what is memoised for them, take."""
    rows = w[W_ROWS] - w[W_FIRST]
    entries = w[W_CHAIN] - CHAINS + rows
    listed = 4 * w[W_POOL] + 12 * w[W_EXITS] + 4 * words * w[W_DENSE]
    listed += _NODE_BYTES * w[W_JOINED] + 8 * w[W_JOINED_TOKENS]
    return listed + 4 * (ROW_COLUMNS * rows + LOCAL_COLUMNS * w[W_LOCALS]) + _ENTRY_BYTES * entries  # type: ignore[no-any-return]


@inlined
def has_room(handles: Int64, w: Int64) -> bool:
    """Whether one more walk and one more row fit into the tables and the budget, whatever they hold."""
    tokens = 32 * handles[h.T_DENSE, 2]
    rows = w[W_ROWS] - w[W_FIRST]
    return bool(
        bytes_of_rows(w, handles[h.T_DENSE, 2]) <= w[W_BUDGET]
        and w[W_POOL] + 3 * tokens + 64 <= handles[h.T_POOL, 1]
        and w[W_DENSE] + 2 < handles[h.T_DENSE, 1]
        and w[W_EXITS] + 2 * handles[h.T_NODES, 1] <= handles[h.T_EXITS, 1]
        and w[W_LOCALS] + 1 < handles[h.T_LOCALS, 1]
        and rows + 1 < handles[h.T_ROWS, 1]
        and w[W_ROWS] < h.LAST_ROW
    )


@inlined
def _next_walk(states: Int32, loops: UInt64, w: Int64) -> int:
    """The state to walk from next: w[W_ROOT], or the last of its bases that has no local row yet.  Shares a base's row
    where a state can never be told from it.

    Returns:
        the state; -1 if the root has a local row; -2 if w[W_DETAIL] has to be looked up among the rows kept on disk.
    """
    root = w[W_ROOT]
    while states[root, S_LOCAL] < 0:
        state = root
        while True:
            if w[W_KEEPS] >= 0 and loops[state, L_KNOWN] & np.uint64(IS_STRING | NOT_KEPT) == np.uint64(IS_STRING):
                w[W_DETAIL] = state
                return -2
            base = states[state, S_BASE]
            if base < 0 or states[base, S_LOCAL] >= 0:
                break
            state = np.int64(base)
        base = states[state, S_BASE]
        if base < 0 or states[state, S_SLACK] < w[W_HORIZON]:
            return state  # type: ignore[no-any-return]
        states[state, S_LOCAL] = states[base, S_LOCAL]
    return -1


@inlined
def _local_rows(handles: Int64, memo: Int64, w: Int64) -> int:
    """Make the local row of w[W_ROOT], those of its bases first; a status, OK when it is there."""
    states, maps, actions = (
        h.int32_rows(handles, h.T_STATES), h.uint8_items(handles, h.T_MAPS), h.int64_items(handles, h.T_ACTIONS),
    )  # fmt: skip
    loops, scratch = h.uint64_rows(handles, h.T_LOOPS), h.int32_rows(handles, h.T_SCRATCH)
    nodes, bytes_ = h.int32_rows(handles, h.T_NODES), h.uint8_items(handles, h.T_BYTES)
    below, lengths = h.uint64_rows(handles, h.T_BELOW), h.int32_items(handles, h.T_LENGTHS)
    token_ids = h.int32_items(handles, h.T_TOKEN_IDS)
    pool, dense = h.int32_items(handles, h.T_POOL), h.uint32_rows(handles, h.T_DENSE)
    locals_, exits = h.int32_rows(handles, h.T_LOCALS), h.int32_rows(handles, h.T_EXITS)
    frames = h.int32_rows(handles, h.T_FRAMES)
    while True:
        if w[W_RESUME] == 0:
            state = _next_walk(states, loops, w)
            if state == -1:
                return OK
            if state == -2:
                return ASK_KEPT
            if states[state, S_ACTIONS] < 0:  # expanding a state may give it a base
                w[W_DETAIL] = state
                return UNKNOWN_STATE
            if not has_room(handles, w):
                return NO_ROOM
            w[W_STATE] = state
            w[W_COST] = 0
            w[W_WALKS] += 1
        base = states[w[W_STATE], S_BASE]
        before = w[W_WALKED]
        local = states[base, S_LOCAL] if base >= 0 else -1
        if local >= 0 and locals_[local, L_DENSE] >= 0 and not locals_[local, L_OPEN]:
            status = walk_beside(
                states, maps, actions, memo, scratch, loops, nodes, bytes_, below, token_ids, lengths, pool, dense, locals_, exits,
                frames, w,
            )  # fmt: skip
        else:
            status = walk_alone(
                states, maps, actions, memo, scratch, loops, nodes, bytes_, below, token_ids, lengths, pool, dense, locals_, exits,
                frames, w,
            )  # fmt: skip
        w[W_COST] += w[W_WALKED] - before
        if status != OK:
            return status
        if w[W_OPEN]:
            return OPEN_LOCAL
        if 0 <= w[W_KEEPS] <= w[W_COST] and loops[w[W_STATE], L_KNOWN] & np.uint64(IS_STRING):
            return DEAR_LOCAL


@inlined
def _prepare(handles: Int64, w: Int64, local: int) -> None:
    """Have the next walks of the exits of a local row shorter, once one was long."""
    locals_, exits = h.int32_rows(handles, h.T_LOCALS), h.int32_rows(handles, h.T_EXITS)
    states, maps = h.int32_rows(handles, h.T_STATES), h.uint8_items(handles, h.T_MAPS)
    actions = h.int64_items(handles, h.T_ACTIONS)
    nodes, bytes_ = h.int32_rows(handles, h.T_NODES), h.uint8_items(handles, h.T_BYTES)
    first, end = locals_[local, L_EXITS], locals_[local, L_EXITS_END]
    locals_[local, L_PREPARED] = -1
    count = -1 if locals_[local, L_OPEN] else find_large(states, maps, actions, nodes, bytes_, exits, w, first, end)
    if count < 0:
        return
    locals_[local, L_LARGE], locals_[local, L_LARGE_END] = w[W_EXITS], w[W_EXITS] + count
    w[W_EXITS] += count
    join_exits(
        states,
        maps,
        actions,
        nodes,
        bytes_,
        h.uint64_rows(handles, h.T_BELOW),
        h.int32_items(handles, h.T_TOKEN_IDS),
        locals_,
        exits,
        h.int32_rows(handles, h.T_JOINED),
        h.uint8_items(handles, h.T_JOINED_BYTES),
        h.uint64_rows(handles, h.T_JOINED_BELOW),
        h.int32_items(handles, h.T_JOINED_TOKENS),
        h.int32_items(handles, h.T_JOINED_LENGTHS),
        h.int32_items(handles, h.T_JOIN_SCRATCH),
        h.int32_rows(handles, h.T_FRAMES),
        w,
        local,
    )


@inlined
def _parts(handles: Int64, memo: Int64, cells: Int32, w: Int64) -> int:
    """Find, or make, the local rows that make up the row of w[W_ROOT]; a status, OK when all are there."""
    states, locals_, exits = (
        h.int32_rows(handles, h.T_STATES), h.int32_rows(handles, h.T_LOCALS), h.int32_rows(handles, h.T_EXITS),
    )  # fmt: skip
    used = h.int64_items(handles, h.T_MEMO_USED)
    while True:
        if w[W_WITHIN] < 0:
            status = find_items(
                states,
                h.int64_items(handles, h.T_ACTIONS),
                memo,
                cells,
                locals_,
                exits,
                h.int64_rows(handles, h.T_ITEMS),
                w,
            )
            if status == OK and w[W_ITEMS] <= 0:
                if w[W_ITEMS] < 0:
                    if not has_room(handles, w):
                        return NO_ROOM
                    _prepare(handles, w, w[W_DETAIL])
                continue
            if status != NEED_LOCAL:
                return status
            w[W_RESUME] = 0
            w[W_STATE] = w[W_DETAIL]
        if w[W_RESUME] == 0:
            if states[w[W_STATE], S_ACTIONS] < 0:
                w[W_DETAIL] = w[W_STATE]
                return UNKNOWN_STATE
            if not has_room(handles, w):
                return NO_ROOM
            w[W_WALKS] += 1
        made, key = w[W_LOCALS], WITHIN_KEY | (w[W_STATE] << WITHIN_SHIFT) | w[W_WITHIN]
        status = walk_alone(
            states, h.uint8_items(handles, h.T_MAPS), h.int64_items(handles, h.T_ACTIONS), memo,
            h.int32_rows(handles, h.T_SCRATCH), h.uint64_rows(handles, h.T_LOOPS), h.int32_rows(handles, h.T_NODES),
            h.uint8_items(handles, h.T_BYTES), h.uint64_rows(handles, h.T_BELOW), h.int32_items(handles, h.T_TOKEN_IDS),
            h.int32_items(handles, h.T_LENGTHS), h.int32_items(handles, h.T_POOL), h.uint32_rows(handles, h.T_DENSE),
            locals_, exits, h.int32_rows(handles, h.T_FRAMES), w,
        )  # fmt: skip
        if status != OK:
            return status
        w[W_OPEN] = 0  # it says that it has such tokens; nobody uses it
        w[W_WITHIN] = -1
        memo_put(memo, key, made)
        used[0] += 1


@inlined
def _composed(handles: Int64, memo: Int64, cells: Int32, w: Int64) -> int:
    """Make the row w[W_ROOT] and the stack have, and memoise it; a status."""
    states, locals_ = h.int32_rows(handles, h.T_STATES), h.int32_rows(handles, h.T_LOCALS)
    used = h.int64_items(handles, h.T_MEMO_USED)
    spare = STEP_ENTRIES + cells[w[W_CELL], C_DEPTH]
    if (used[0] + spare) * 2 > memo.shape[0]:
        w[W_DETAIL] = spare
        return MEMO_FULL
    if w[W_STAGE] == _PARTS:
        status = _parts(handles, memo, cells, w)
        if status != OK:
            return status
        if not has_room(handles, w):
            return NO_ROOM
        w[W_STAGE] = _COMPOSING
        w[W_STATE] = w[W_ROOT]
        w[W_RESUME] = 0
        w[W_UNFILED] = locals_[states[w[W_ROOT], S_LOCAL], L_OPEN]
    status = compose(
        states,
        h.uint8_items(handles, h.T_MAPS),
        h.int64_items(handles, h.T_ACTIONS),
        memo,
        cells,
        h.uint64_rows(handles, h.T_LOOPS),
        h.int32_rows(handles, h.T_NODES),
        h.uint8_items(handles, h.T_BYTES),
        h.uint64_rows(handles, h.T_BELOW),
        h.int32_items(handles, h.T_TOKEN_IDS),
        h.int32_items(handles, h.T_LENGTHS),
        h.int32_rows(handles, h.T_JOINED),
        h.uint8_items(handles, h.T_JOINED_BYTES),
        h.uint64_rows(handles, h.T_JOINED_BELOW),
        h.int32_items(handles, h.T_JOINED_TOKENS),
        h.int32_items(handles, h.T_JOINED_LENGTHS),
        h.int32_items(handles, h.T_EOS),
        h.int32_items(handles, h.T_POOL),
        h.uint32_rows(handles, h.T_DENSE),
        locals_,
        h.int32_rows(handles, h.T_ROWS),
        h.int32_rows(handles, h.T_EXITS),
        h.int32_rows(handles, h.T_FRAMES),
        h.int64_rows(handles, h.T_ITEMS),
        w,
    )
    used[0] += w[W_MEMO]
    w[W_MEMO] = 0
    if status == OK and (w[W_UNFILED] or w[W_OPEN]):
        return OPEN_ROW
    return status


@inlined
def _written(handles: Int64, w: Int64, registers: Int64, row: UInt32) -> int:
    """Note and write the row w[W_FOUND]; OK."""
    number = w[W_FOUND]
    registers[M_ROW] = number
    if row.shape[0]:
        expand_row(
            h.int32_rows(handles, h.T_ROWS),
            h.uint32_rows(handles, h.T_DENSE),
            h.int32_items(handles, h.T_POOL),
            number - handles[h.T_FIRST, 0],
            row,
        )
    return OK


@kernel
def make_row(handles: Int64, memo: Int64, own: Int64, w: Int64, registers: Int64, row: UInt32) -> int:
    """Find the row of where a matcher stands, or make it, and write it; w[W_FOUND] is its number on OK.

    Only one thread at a time, the one that holds the machine's lock.  It begins where w[W_STAGE] is BEGIN, and otherwise goes
    on after another status:

    - UNKNOWN_STATE, UNKNOWN_POP, UNKNOWN_MEMBER: w[W_DETAIL], w[W_OUTCOME] say what has to be made first (see `make_piece`);
    - TABLES_FULL: no more states can be made;
    - NO_ROOM: the row may not fit into these tables, which the caller replaces before it begins again;
    - MEMO_FULL: w[W_DETAIL] more entries have to fit into the memo;
    - CELLS_FULL: frames do not fit into the cells; the caller begins again with more;
    - ASK_KEPT: w[W_DETAIL] is a string; the caller gives it the local row of an earlier process, or marks it as NOT_KEPT;
    - OPEN_LOCAL: the local row of w[W_STATE] has tokens set apart, which the caller takes;
    - DEAR_LOCAL: the local row of w[W_STATE], a string, has cost as much as w[W_KEEPS] says is worth to keep;
    - OPEN_ROW: row w[W_FOUND] is made, but for tokens that are set apart; not memoised (`file_row_of`), not to be resumed.

    Args:
        own: the handles of the matcher.
        registers: int64[REGISTERS], those of the matcher.
        row: uint32[words], or empty where the row is not to be written.
    """
    cells = h.int32_rows(own, h.O_CELLS)
    if w[W_STAGE] == BEGIN:
        state, cell = registers[M_STATE], registers[M_CELL]
        found = find_row(h.int32_rows(handles, h.T_STATES), memo, cells, state, cell)
        if found >= 0:
            w[W_FOUND] = found
            registers[M_HITS] += 1
            return _written(handles, w, registers, row)
        w[W_MISSES] += 1
        w[W_ROOT], w[W_CELL], w[W_TOP] = state, cell, registers[M_TOP]
        w[W_STAGE], w[W_RESUME], w[W_OPEN], w[W_WITHIN] = _LOCAL, 0, 0, -1
        w[W_MADE] = h.int64_items(handles, h.T_COUNTS)[N_STATES]
    while True:
        status = OK
        if w[W_STAGE] == _LOCAL:
            status = _local_rows(handles, memo, w)
            if status == OK:
                w[W_STAGE] = _PARTS
        if status == OK:
            status = _composed(handles, memo, cells, w)
        if status == OK:
            return _written(handles, w, registers, row)
        if status != UNKNOWN_STATE and status != UNKNOWN_POP:
            return status
        if h.int64_items(handles, h.T_COUNTS)[N_STATES] - w[W_MADE] > w[W_STEP_STATES]:
            return status
        status = make_piece(handles, memo, w, status)
        if status != OK:
            return status  # type: ignore[no-any-return]


@kernel
def add_local(handles: Int64, w: Int64, row: UInt32, exits: Int32) -> int:
    """Put a local row, uint32[words], with its exits, int32[n, 3], in as if it had been walked; its number, or -1: no room."""
    if not has_room(handles, w):
        return -1
    dense, pool = h.uint32_rows(handles, h.T_DENSE), h.int32_items(handles, h.T_POOL)
    locals_, all_exits = h.int32_rows(handles, h.T_LOCALS), h.int32_rows(handles, h.T_EXITS)
    first = end = w[W_POOL]
    last = first + w[W_LIMIT_DENSE]
    for word in range(row.shape[0]):
        bits = np.int64(row[word])
        if end > last:
            break
        token = word * 32
        while bits:
            if bits & 1:
                pool[end] = token
                end += 1
            bits >>= 1
            token += 1
    base = -1
    if end > last:
        base = w[W_DENSE]
        w[W_DENSE] = base + 1
        for word in range(row.shape[0]):
            dense[base, word] = row[word]
        end = first
    top = w[W_EXITS]
    for number in range(exits.shape[0]):
        for column in range(exits.shape[1]):
            all_exits[top + number, column] = exits[number, column]
    local = w[W_LOCALS]
    locals_[local, L_DENSE] = base
    locals_[local, L_IDS], locals_[local, L_IDS_END] = first, end
    locals_[local, L_EXITS], locals_[local, L_EXITS_END] = top, top + exits.shape[0]
    locals_[local, L_OPEN] = 0
    begin_local(locals_, local)
    w[W_POOL], w[W_EXITS], w[W_LOCALS] = end, top + exits.shape[0], local + 1
    return local  # type: ignore[no-any-return]


@kernel
def file_row_of(handles: Int64, memo: Int64, cells: Int32, w: Int64) -> None:
    """`file_row`."""
    file_row(h.int32_rows(handles, h.T_STATES), memo, cells, w)
    used = h.int64_items(handles, h.T_MEMO_USED)
    used[0] += w[W_MEMO]
    w[W_MEMO] = 0
