"""Walks of the token trie: the part of a row that one frame decides, and its completion with the frames below."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from constrained.kernels.jit import inlined, kernel
from constrained.kernels.machine import dispatch, memo_get, memo_put
from constrained.kernels.tables import (
    ACCEPTED,
    C_DEPTH,
    C_NEXT,
    C_RETURN,
    CHAIN_FLAG,
    E_NODE,
    E_OUTCOME,
    E_STATE,
    EXIT,
    KIND_SHIFT,
    L_DENSE,
    L_EXITS,
    L_EXITS_END,
    L_IDS,
    L_IDS_END,
    OK,
    OPEN_AHEAD,
    OPEN_BIT,
    OUTCOME_BITS,
    POP_BEFORE,
    POP_KEY,
    R_DENSE,
    R_IDS,
    R_IDS_END,
    R_MORE,
    R_MORE_END,
    REJECTED,
    S_ACTIONS,
    S_BASE,
    S_LOCAL,
    S_MAP,
    S_ROW,
    S_SLACK,
    T_BYTE_DEPTH,
    T_END,
    T_HEIGHT,
    T_TOKENS,
    UNKNOWN_POP,
)

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt8 = NDArray[np.uint8]
UInt32 = NDArray[np.uint32]

(
    W_STATE, W_CELL, W_TOP, W_RESUME, W_NODE, W_EXIT, W_POOL, W_EXITS, W_LOCALS, W_ROWS, W_DENSE, W_CHAIN, W_LOWEST,
    W_DETAIL, W_OUTCOME, W_POOL_START, W_EXITS_START, W_MEMO, W_WALKED, W_LOCK_EXIT, W_LAST, W_FOUND, W_LIMIT_DENSE,
    W_OPEN,
) = range(24)  # fmt: skip
"""Registers of a walk, int64[32]: the configuration, where to resume, the tops of the tables, what is missing, counters."""

F_STATE, F_CELL, F_TOP, F_EXIT, F_BASE, F_OPEN = range(6)
"""Columns of the frames of a walk, int32[longest token + 2, 6]: the configuration at each depth of the trie, whether an
exit was noted there, the state of the walk that runs beside it (-1: none, or not in step), and whether the way there
depends on text (`OPEN_AHEAD`).  Tokens on such ways are not in the row; they are counted in W_OPEN and listed from the end
of the pool downwards."""


@inlined
def relaxed(states: Int32, state: int, height: int) -> int:
    """The state to go on with where at most `height` more bytes are looked at: bounds that cannot matter are dropped."""
    while states[state, S_BASE] >= 0 and states[state, S_SLACK] >= height:
        state = states[state, S_BASE]
    return state


@kernel
def walk_local(
    states: Int32, maps: UInt8, actions: Int64, memo: Int64, cells: Int32, trie: Int32, token_ids: Int32,
    pool: Int32, dense: UInt32, locals_: Int32, exits: Int32, frames: Int32, w: Int64,
) -> int:  # fmt: skip
    """Walk the whole trie from w[W_STATE] as the only frame.

    Tokens that stay inside the frame, or end exactly where it ends, are noted; nodes at which the frame can be left become
    exits.  Where the state has a base whose local row is dense, a second walk from the base runs in step, subtrees in
    which both agree are skipped, and the row is stored as the base's with the differing tokens flipped.

    Resumable: on UNKNOWN_* the missing piece is named in w[W_DETAIL], w[W_OUTCOME]; call again once it is there.
    On OK the state's S_LOCAL names the new entry of `locals_`.
    """
    start = w[W_STATE]
    base = states[start, S_BASE]
    base_local = -1
    if base >= 0:
        base_local = states[base, S_LOCAL]
        if base_local >= 0 and locals_[base_local, L_DENSE] < 0:
            base_local = -1
        elif base_local >= 0 and locals_[base_local, L_IDS] < locals_[base_local, L_IDS_END]:
            # the base rests on another itself: it gets a row of its own, since subtrees are compared with one row only
            number = w[W_DENSE]
            w[W_DENSE] = number + 1
            dense[number] = dense[locals_[base_local, L_DENSE]]
            for at in range(locals_[base_local, L_IDS], locals_[base_local, L_IDS_END]):
                token = pool[at]
                dense[number, token >> 5] ^= np.uint32(1) << np.uint32(token & 31)
            locals_[base_local, L_DENSE] = number
            locals_[base_local, L_IDS_END] = locals_[base_local, L_IDS]
    if w[W_RESUME] == 0:
        w[W_RESUME] = 1
        w[W_NODE] = 1
        w[W_POOL_START] = w[W_POOL]
        w[W_EXITS_START] = w[W_EXITS]
        frames[0, F_STATE] = start
        frames[0, F_CELL] = 0
        frames[0, F_TOP] = 1
        frames[0, F_EXIT] = 0
        frames[0, F_BASE] = base if base_local >= 0 else -1
        frames[0, F_OPEN] = 0
        w[W_LOCK_EXIT] = locals_[base_local, L_EXITS] if base_local >= 0 else 0
    pool_top = w[W_POOL]
    exit_top = w[W_EXITS]
    lock_exit = w[W_LOCK_EXIT]
    lock_end = locals_[base_local, L_EXITS_END] if base_local >= 0 else 0
    base_dense = locals_[base_local, L_DENSE] if base_local >= 0 else -1
    node = w[W_NODE]
    count = trie.shape[0] - 1
    walked = 0
    while node < count:
        walked += 1
        entry = trie[node, T_BYTE_DEPTH]
        depth = entry >> 8
        symbol = entry & 255
        end = trie[node, T_END]
        above = depth - 1
        state = frames[above, F_STATE]
        cell = frames[above, F_CELL]
        beside = frames[above, F_BASE]
        beside_status = REJECTED
        beside_after = -1
        if beside >= 0:
            beside_status, beside_after, beside_cell, _, beside_outcome = dispatch(
                states, maps, actions, memo, cells, beside, 0, frames[above, F_TOP], symbol, 0, 0
            )
            if beside_status == OK and beside_cell != 0:
                beside_status = -1  # the second walk only follows the frame itself
            elif beside_status > REJECTED and beside_status != EXIT:
                w[W_DETAIL] = beside_after
                w[W_OUTCOME] = beside_outcome
                w[W_NODE], w[W_POOL], w[W_EXITS], w[W_LOCK_EXIT] = node, pool_top, exit_top, lock_exit
                w[W_WALKED] += walked
                return beside_status
        status, after, cell_after, top_after, outcome = dispatch(
            states, maps, actions, memo, cells, state, cell, frames[above, F_TOP], symbol, 0, 0
        )
        in_row = False
        descend = False
        if status == OK:
            in_row = True
            descend = end > node + 1
        elif status == EXIT:
            if after < 0:
                in_row = True
                if end > node + 1:
                    exits[exit_top, E_NODE] = node
                    exits[exit_top, E_STATE] = -1
                    exits[exit_top, E_OUTCOME] = outcome | (frames[above, F_OPEN] * OPEN_BIT)
                    exit_top += 1
            elif cell == 0 and after == state:
                if frames[above, F_EXIT] == 0:
                    frames[above, F_EXIT] = 1
                    parent = node - 1  # the parent is the nearest node above in preorder
                    while parent > 0 and trie[parent, T_BYTE_DEPTH] >> 8 != above:
                        parent -= 1
                    exits[exit_top, E_NODE] = parent
                    exits[exit_top, E_STATE] = state
                    exits[exit_top, E_OUTCOME] = 0
                    exit_top += 1
            else:
                exits[exit_top, E_NODE] = node
                exits[exit_top, E_STATE] = after
                exits[exit_top, E_OUTCOME] = 1
                exit_top += 1
        elif status != REJECTED:
            w[W_DETAIL] = after
            w[W_OUTCOME] = outcome
            w[W_NODE], w[W_POOL], w[W_EXITS], w[W_LOCK_EXIT] = node, pool_top, exit_top, lock_exit
            w[W_WALKED] += walked
            return status
        open_ahead = frames[above, F_OPEN]
        if status == OK and states[after, S_SLACK] == OPEN_AHEAD:
            open_ahead = 1
        if descend and cell_after == 0:
            after = relaxed(states, after, trie[node, T_HEIGHT])
        if beside < 0 or base_local < 0:
            if base_local >= 0:
                # out of step: flip what differs from the base's row
                for at in range(trie[node, T_TOKENS], trie[node + 1, T_TOKENS]):
                    token = token_ids[at]
                    if in_row != (((dense[base_dense, token >> 5] >> np.uint32(token & 31)) & np.uint32(1)) != 0):
                        pool[pool_top] = token
                        pool_top += 1
                if not descend and end > node + 1:
                    for at in range(trie[node + 1, T_TOKENS], trie[end, T_TOKENS]):
                        token = token_ids[at]
                        if ((dense[base_dense, token >> 5] >> np.uint32(token & 31)) & np.uint32(1)) != 0:
                            pool[pool_top] = token
                            pool_top += 1
            elif in_row:
                for at in range(trie[node, T_TOKENS], trie[node + 1, T_TOKENS]):
                    if open_ahead:
                        w[W_OPEN] += 1
                        pool[pool.shape[0] - w[W_OPEN]] = token_ids[at]
                    else:
                        pool[pool_top] = token_ids[at]
                        pool_top += 1
            frames[depth, F_BASE] = -1
        else:
            while lock_exit < lock_end and exits[lock_exit, E_NODE] < node:
                lock_exit += 1
            same = False
            if status == OK and beside_status == OK:
                same = cell_after == 0 and after == relaxed(states, beside_after, trie[node, T_HEIGHT])
            elif status == REJECTED and beside_status == REJECTED:
                same = True
            if same:
                if status == OK:
                    while lock_exit < lock_end and exits[lock_exit, E_NODE] < end:
                        exits[exit_top, 0] = exits[lock_exit, 0]
                        exits[exit_top, 1] = exits[lock_exit, 1]
                        exits[exit_top, 2] = exits[lock_exit, 2]
                        exit_top += 1
                        lock_exit += 1
                node = end
                continue
            for at in range(trie[node, T_TOKENS], trie[node + 1, T_TOKENS]):
                token = token_ids[at]
                if in_row != (((dense[base_dense, token >> 5] >> np.uint32(token & 31)) & np.uint32(1)) != 0):
                    pool[pool_top] = token
                    pool_top += 1
            if not descend and end > node + 1:
                for at in range(trie[node + 1, T_TOKENS], trie[end, T_TOKENS]):
                    token = token_ids[at]
                    if ((dense[base_dense, token >> 5] >> np.uint32(token & 31)) & np.uint32(1)) != 0:
                        pool[pool_top] = token
                        pool_top += 1
            frames[depth, F_BASE] = beside_after if beside_status == OK else -1
        if descend:
            frames[depth, F_STATE] = after
            frames[depth, F_CELL] = cell_after
            frames[depth, F_TOP] = top_after
            frames[depth, F_EXIT] = 0
            frames[depth, F_OPEN] = open_ahead
            node += 1
        else:
            node = end
    w[W_WALKED] += walked
    local = w[W_LOCALS]
    first = w[W_POOL_START]
    found = pool_top - first
    number = -1
    if base_local >= 0 and found <= dense.shape[1]:
        number = base_dense
    elif base_local >= 0 or found > w[W_LIMIT_DENSE]:
        number = w[W_DENSE]
        w[W_DENSE] = number + 1
        if base_local >= 0:
            dense[number] = dense[base_dense]
        else:
            dense[number] = 0
        for at in range(first, pool_top):
            token = pool[at]
            dense[number, token >> 5] ^= np.uint32(1) << np.uint32(token & 31)
        pool_top = first
    locals_[local, L_DENSE] = number
    locals_[local, L_IDS] = first
    locals_[local, L_IDS_END] = pool_top
    locals_[local, L_EXITS] = w[W_EXITS_START]
    locals_[local, L_EXITS_END] = exit_top
    w[W_LOCALS] = local + 1
    w[W_POOL] = pool_top
    w[W_EXITS] = exit_top
    w[W_RESUME] = 0
    states[start, S_LOCAL] = local
    return OK


@kernel
def compose(
    states: Int32, maps: UInt8, actions: Int64, memo: Int64, cells: Int32, trie: Int32, token_ids: Int32,
    eos: Int32, pool: Int32, locals_: Int32, rows: Int32, exits: Int32, frames: Int32, w: Int64,
) -> int:  # fmt: skip
    """Complete the local row of w[W_STATE] with what the stack below w[W_CELL] allows after each exit; memoise it.

    The row is filed under the state and the return states of just those cells that the walk popped.  End tokens are in
    the row iff the text may end here.  Resumable like `walk_local`.  On OK, w[W_FOUND] is the row's number.
    """
    start, bottom, first_top = w[W_STATE], w[W_CELL], w[W_TOP]
    local = states[start, S_LOCAL]
    if w[W_RESUME] == 0:
        w[W_RESUME] = 1
        w[W_EXIT] = locals_[local, L_EXITS]
        w[W_NODE] = -1
        w[W_POOL_START] = w[W_POOL]
        w[W_LOWEST] = cells[bottom, C_DEPTH]
    pool_top = w[W_POOL]
    lowest = w[W_LOWEST]
    node = w[W_NODE]
    last = w[W_LAST]
    walked = 0
    number = w[W_EXIT]
    end_of_exits = locals_[local, L_EXITS_END]
    while number < end_of_exits:
        at_node = exits[number, E_NODE]
        leaving = exits[number, E_STATE]
        if node < 0:
            if leaving < 0:
                # the frame's last byte is consumed: take the return state, go on below the node
                outcome = exits[number, E_OUTCOME] & (OPEN_BIT - 1)
                then = np.int64(cells[bottom, C_RETURN])
                below = cells[bottom, C_NEXT]
                if cells[below, C_DEPTH] < lowest:
                    lowest = cells[below, C_DEPTH]
                if then < 0:
                    target = memo_get(memo, POP_KEY | ((-1 - then) << OUTCOME_BITS) | outcome)
                    if target < 0:
                        w[W_DETAIL] = -1 - then
                        w[W_OUTCOME] = outcome
                        w[W_EXIT], w[W_POOL], w[W_LOWEST], w[W_NODE] = number, pool_top, lowest, -1
                        w[W_WALKED] += walked
                        return UNKNOWN_POP
                    then = target
                depth = trie[at_node, T_BYTE_DEPTH] >> 8
                frames[depth, F_STATE] = then
                frames[depth, F_CELL] = below
                frames[depth, F_TOP] = first_top
                frames[depth, F_OPEN] = exits[number, E_OUTCOME] // OPEN_BIT
                if states[then, S_SLACK] == OPEN_AHEAD:
                    frames[depth, F_OPEN] = 1
                node = at_node + 1
                last = trie[at_node, T_END]
            else:
                depth = trie[at_node, T_BYTE_DEPTH] >> 8
                node = at_node + 1
                last = trie[at_node, T_END]
                if exits[number, E_OUTCOME] == 1:
                    depth -= 1
                    node = at_node
                frames[depth, F_STATE] = leaving
                frames[depth, F_CELL] = bottom
                frames[depth, F_TOP] = first_top
                frames[depth, F_OPEN] = 0
        edge = -1  # depth of the nodes at which only pops are followed
        if leaving >= 0:
            edge = trie[at_node, T_BYTE_DEPTH] >> 8
            if exits[number, E_OUTCOME] == 0:
                edge += 1
        while node < last:
            walked += 1
            entry = trie[node, T_BYTE_DEPTH]
            depth = entry >> 8
            symbol = entry & 255
            above = depth - 1
            state = frames[above, F_STATE]
            if depth == edge and exits[number, E_OUTCOME] == 0:
                group = maps[states[state, S_MAP] * 256 + symbol]
                if group == 0 or actions[states[state, S_ACTIONS] + group] >> KIND_SHIFT != POP_BEFORE:
                    node = trie[node, T_END]
                    continue
            status, after, cell, top, outcome = dispatch(
                states, maps, actions, memo, cells, state, frames[above, F_CELL], frames[above, F_TOP], symbol, -1, 0
            )
            if cells[cell, C_DEPTH] < lowest:
                lowest = cells[cell, C_DEPTH]
            for pushed in range(frames[above, F_TOP], top):  # a step may pop frames and then push others over them
                if cells[pushed, C_DEPTH] <= lowest:
                    lowest = cells[pushed, C_DEPTH] - 1
            if status == OK:
                open_ahead = frames[above, F_OPEN]
                if states[after, S_SLACK] == OPEN_AHEAD:
                    open_ahead = 1
                frames[depth, F_OPEN] = open_ahead
                for at in range(trie[node, T_TOKENS], trie[node + 1, T_TOKENS]):
                    if open_ahead:
                        w[W_OPEN] += 1
                        pool[pool.shape[0] - w[W_OPEN]] = token_ids[at]
                    else:
                        pool[pool_top] = token_ids[at]
                        pool_top += 1
                frames[depth, F_STATE] = relaxed(states, after, trie[node, T_HEIGHT])
                frames[depth, F_CELL] = cell
                frames[depth, F_TOP] = top
                node += 1
            elif status == REJECTED:
                node = trie[node, T_END]
            else:
                w[W_DETAIL] = after
                w[W_OUTCOME] = outcome
                w[W_EXIT], w[W_POOL], w[W_LOWEST], w[W_NODE], w[W_LAST] = number, pool_top, lowest, node, last
                w[W_WALKED] += walked
                return status
        node = -1
        number += 1
    w[W_EXIT], w[W_POOL], w[W_LOWEST], w[W_NODE] = number, pool_top, lowest, -1
    w[W_WALKED] += walked
    status, after, cell, top, outcome = dispatch(
        states, maps, actions, memo, cells, start, bottom, first_top, 256, -1, 0
    )
    if cells[cell, C_DEPTH] < lowest:
        lowest = cells[cell, C_DEPTH]
    if status == ACCEPTED:
        for at in range(eos.shape[0]):
            pool[pool_top] = eos[at]
            pool_top += 1
    elif status != REJECTED:
        w[W_DETAIL] = after
        w[W_OUTCOME] = outcome
        return status
    row = w[W_ROWS]
    rows[row, R_DENSE] = locals_[local, L_DENSE]
    rows[row, R_IDS] = locals_[local, L_IDS]
    rows[row, R_IDS_END] = locals_[local, L_IDS_END]
    rows[row, R_MORE] = w[W_POOL_START]
    rows[row, R_MORE_END] = pool_top
    w[W_ROWS] = row + 1
    w[W_POOL] = pool_top
    w[W_RESUME] = 0
    w[W_FOUND] = row
    touched = cells[bottom, C_DEPTH] - lowest
    if touched == 0:
        states[start, S_ROW] = row
        return OK
    chain = np.int64(start)
    cell = bottom
    for step in range(touched):
        key = (chain << 32) | (np.int64(cells[cell, C_RETURN]) & 0xFFFFFFFF)
        if step == touched - 1:
            memo_put(memo, key, row)
            w[W_MEMO] += 1
        else:
            value = memo_get(memo, key)
            if value < 0:
                value = CHAIN_FLAG + w[W_CHAIN]
                w[W_CHAIN] += 1
                memo_put(memo, key, value)
                w[W_MEMO] += 1
            chain = value - CHAIN_FLAG
            cell = cells[cell, C_NEXT]
    return OK
