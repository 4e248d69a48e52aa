"""Walks of the token trie from one state: the part of a row that its frame decides, and where the frame can be left."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from constrained.kernels.branches import ANY_NUMBER, keeps, longest_allowed
from constrained.kernels.jit import inlined, kernel
from constrained.kernels.leaving import leaving_with
from constrained.kernels.machine import dispatch
from constrained.kernels.tables import (
    BEFORE_STATE,
    E_NODE,
    E_OUTCOME,
    E_STATE,
    EXIT,
    L_DENSE,
    L_EXITS,
    L_EXITS_END,
    L_IDS,
    L_IDS_END,
    L_JOINED,
    L_JOINED_END,
    L_LARGE,
    L_LARGE_END,
    L_OPEN,
    L_PREPARED,
    L_WALKED,
    N_KIDS,
    N_KIDS_END,
    N_ORDER,
    N_SPAN,
    N_TOKENS,
    N_TOKENS_ALL,
    N_TOKENS_OWN,
    OK,
    OPEN_AHEAD,
    OPEN_BIT,
    REJECTED,
    S_ACTIONS,
    S_BASE,
    S_LOCAL,
    S_MAP,
    S_SLACK,
)
from constrained.kernels.walk_registers import (
    F_BASE,
    F_CELL,
    F_EXIT,
    F_KID,
    F_KIDS_END,
    F_NODE,
    F_OPEN,
    F_STATE,
    F_TOP,
    W_DENSE,
    W_DEPTH,
    W_DETAIL,
    W_EXITS,
    W_EXITS_START,
    W_HORIZON,
    W_LIMIT_DENSE,
    W_LOCALS,
    W_LOCK_EXIT,
    W_OPEN,
    W_OUTCOME,
    W_POOL,
    W_POOL_START,
    W_RESUME,
    W_STATE,
    W_WALKED,
    W_WITHIN,
    enter,
    listed,
    relaxed,
)

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt8 = NDArray[np.uint8]
UInt32 = NDArray[np.uint32]
UInt64 = NDArray[np.uint64]


@inlined
def _exit(exits: Int32, top: int, node: int, state: int, outcome: int) -> int:
    """Note an exit; the new top."""
    exits[top, E_NODE] = node
    exits[top, E_STATE] = state
    exits[top, E_OUTCOME] = outcome
    return top + 1


@inlined
def _file(states: Int32, locals_: Int32, w: Int64, dense: int, ids_end: int, exits_end: int) -> None:
    """Make the entry of `locals_` for the state that was walked."""
    local = w[W_LOCALS]
    begin_local(locals_, local)
    locals_[local, L_DENSE] = dense
    locals_[local, L_IDS] = w[W_POOL_START]
    locals_[local, L_IDS_END] = ids_end
    locals_[local, L_EXITS] = w[W_EXITS_START]
    locals_[local, L_EXITS_END] = exits_end
    locals_[local, L_OPEN] = w[W_OPEN] > 0
    w[W_LOCALS] = local + 1
    w[W_POOL] = ids_end
    w[W_EXITS] = exits_end
    w[W_RESUME] = 0
    if w[W_WITHIN] < 0:
        states[w[W_STATE], S_LOCAL] = local


@inlined
def begin_local(locals_: Int32, local: int) -> None:
    """A local row whose exits have not been walked yet."""
    locals_[local, L_WALKED] = locals_[local, L_PREPARED] = 0
    locals_[local, L_JOINED] = locals_[local, L_JOINED_END] = locals_[local, L_LARGE] = locals_[local, L_LARGE_END] = 0


@kernel
def walk_alone(
    states: Int32, maps: UInt8, actions: Int64, memo: Int64, cells: Int32, loops: UInt64, nodes: Int32, bytes_: UInt8,
    below: UInt64, token_ids: Int32, lengths: Int32, pool: Int32, dense: UInt32, locals_: Int32, exits: Int32,
    frames: Int32, w: Int64,
) -> int:  # fmt: skip
    """Walk the trie from w[W_STATE] as the only frame.

    Tokens that stay inside the frame, or end exactly where it ends, are noted; nodes at which the frame can be left become
    exits.  A subtree of nothing but bytes on which the state stays as it is is noted whole, one of nothing but characters that
    are only counted by their number.  Where w[W_WITHIN] is a large exit, the walk is of its subtree only, and the new entry is not
    the state's own.

    Resumable: on UNKNOWN_* the missing piece is named in w[W_DETAIL], w[W_OUTCOME]; call again once it is there.
    On OK the state's S_LOCAL names the new entry of `locals_`.
    """
    first, before, outcome_before = 0, np.int64(-1), np.int64(-1)
    if w[W_WITHIN] >= 0:
        first = exits[w[W_WITHIN], E_NODE]
        before, outcome_before = (
            np.int64(BEFORE_STATE - exits[w[W_WITHIN], E_STATE]),
            np.int64(exits[w[W_WITHIN], E_OUTCOME]),
        )
    floor = nodes[first, N_SPAN] >> 16
    if w[W_RESUME] == 0:
        w[W_RESUME] = 1
        w[W_DEPTH] = floor
        w[W_POOL_START] = w[W_POOL]
        w[W_EXITS_START] = w[W_EXITS]
        enter(frames, nodes, floor, first, w[W_STATE], 0, 1, 0)
    pool_top = w[W_POOL]
    exit_top = w[W_EXITS]
    horizon = w[W_HORIZON]
    depth = w[W_DEPTH]
    walked = 0
    while depth >= floor:
        state = frames[depth, F_STATE]
        cell = frames[depth, F_CELL]
        top = frames[depth, F_TOP]
        open_here = frames[depth, F_OPEN]
        only_some = before >= 0 and depth == floor
        kid = frames[depth, F_KID]
        kids_end = frames[depth, F_KIDS_END]
        expanded = states[state, S_ACTIONS] >= 0
        map_at = states[state, S_MAP] * 256
        descended = False
        while kid < kids_end:
            symbol = bytes_[kid]
            if expanded and maps[map_at + symbol] == 0:
                kid += 1
                continue
            if only_some and leaving_with(states, maps, actions, before, symbol) != outcome_before:
                kid += 1
                continue
            walked += 1
            status, after, cell_after, top_after, outcome = dispatch(
                states, maps, actions, memo, cells, state, cell, top, symbol, 0, 0
            )
            if status == REJECTED:
                kid += 1
                continue
            node = kid
            if status == OK:
                kid += 1
                open_ahead = open_here
                if states[after, S_SLACK] == OPEN_AHEAD:
                    open_ahead = 1
                tokens = nodes[node, N_TOKENS]
                if nodes[node, N_KIDS] == nodes[node, N_KIDS_END]:
                    pool_top = listed(
                        token_ids, lengths, pool, w, pool_top, tokens, nodes[node, N_TOKENS_OWN], ANY_NUMBER, open_ahead
                    )
                    continue
                if cell_after == 0:
                    after = relaxed(states, after, nodes[node, N_SPAN] & 0xFFFF)
                most = keeps(states, maps, actions, loops, nodes, below, after, node, horizon)
                if most >= 0:
                    longest = longest_allowed(nodes, node, most)
                    pool_top = listed(
                        token_ids, lengths, pool, w, pool_top, tokens, nodes[node, N_TOKENS_ALL], longest, open_ahead
                    )
                    continue
                pool_top = listed(
                    token_ids, lengths, pool, w, pool_top, tokens, nodes[node, N_TOKENS_OWN], ANY_NUMBER, open_ahead
                )
                frames[depth, F_KID] = kid
                depth += 1
                enter(frames, nodes, depth, node, after, cell_after, top_after, open_ahead)
                descended = True
                break
            if status == EXIT:
                kid += 1
                if after < 0:
                    pool_top = listed(
                        token_ids, lengths, pool, w, pool_top, nodes[node, N_TOKENS], nodes[node, N_TOKENS_OWN], ANY_NUMBER,
                        open_here,
                    )  # fmt: skip
                    if nodes[node, N_KIDS] < nodes[node, N_KIDS_END]:
                        exit_top = _exit(exits, exit_top, node, -1, outcome | (open_here * OPEN_BIT))
                elif cell == 0 and after == state and not only_some:
                    if frames[depth, F_EXIT] == 0:
                        frames[depth, F_EXIT] = 1
                        exit_top = _exit(exits, exit_top, frames[depth, F_NODE], state, 0)
                else:
                    exit_top = _exit(exits, exit_top, node, after, 1)
                continue
            w[W_DETAIL] = after
            w[W_OUTCOME] = outcome
            frames[depth, F_KID] = kid
            w[W_DEPTH], w[W_POOL], w[W_EXITS] = depth, pool_top, exit_top
            w[W_WALKED] += walked
            return status
        if not descended:
            depth -= 1
    w[W_WALKED] += walked
    start = w[W_POOL_START]
    number = -1
    if pool_top - start > w[W_LIMIT_DENSE]:
        number = w[W_DENSE]
        w[W_DENSE] = number + 1
        for word in range(dense.shape[1]):
            dense[number, word] = 0
        for at in range(start, pool_top):
            token = pool[at]
            dense[number, token >> 5] |= np.uint32(1) << np.uint32(token & 31)
        pool_top = start
    _file(states, locals_, w, number, pool_top, exit_top)
    return OK


@inlined
def _flip(
    dense: UInt32, row: int, token_ids: Int32, pool: Int32, pool_top: int, first: int, last: int, in_row: bool
) -> int:
    """List those of token_ids[first:last] of which `dense[row]` does not say whether they are in the row; the new top."""
    for at in range(first, last):
        token = token_ids[at]
        if in_row != (((dense[row, token >> 5] >> np.uint32(token & 31)) & np.uint32(1)) != 0):
            pool[pool_top] = token
            pool_top += 1
    return pool_top


@inlined
def _flip_longer(
    dense: UInt32, row: int, token_ids: Int32, lengths: Int32, pool: Int32, pool_top: int, first: int, last: int, longest: int
) -> int:  # fmt: skip
    """`_flip` where those with at most `longest` characters are in the row."""
    for at in range(first, last):
        token = token_ids[at]
        if (lengths[at] <= longest) != (((dense[row, token >> 5] >> np.uint32(token & 31)) & np.uint32(1)) != 0):
            pool[pool_top] = token
            pool_top += 1
    return pool_top


@kernel
def walk_beside(
    states: Int32, maps: UInt8, actions: Int64, memo: Int64, cells: Int32, loops: UInt64, nodes: Int32, bytes_: UInt8,
    below: UInt64, token_ids: Int32, lengths: Int32, pool: Int32, dense: UInt32, locals_: Int32, exits: Int32,
    frames: Int32, w: Int64,
) -> int:  # fmt: skip
    """`walk_alone` for a state whose base has a dense local row.

    A second walk from the base runs in step, subtrees in which both agree are skipped, and the row is stored as the base's
    with the differing tokens flipped.  The base has no tokens that are set apart: those are no part of its row, and would be
    passed over with the subtrees.
    """
    start = w[W_STATE]
    base = states[start, S_BASE]
    base_local = states[base, S_LOCAL]
    if w[W_RESUME] == 0:
        if locals_[base_local, L_IDS] < locals_[base_local, L_IDS_END]:
            # the base rests on another itself: it gets a row of its own, since subtrees are compared with one row only
            number = w[W_DENSE]
            w[W_DENSE] = number + 1
            for word in range(dense.shape[1]):
                dense[number, word] = dense[locals_[base_local, L_DENSE], word]
            for at in range(locals_[base_local, L_IDS], locals_[base_local, L_IDS_END]):
                token = pool[at]
                dense[number, token >> 5] ^= np.uint32(1) << np.uint32(token & 31)
            locals_[base_local, L_DENSE] = number
            locals_[base_local, L_IDS_END] = locals_[base_local, L_IDS]
        w[W_RESUME] = 1
        w[W_DEPTH] = 0
        w[W_POOL_START] = w[W_POOL]
        w[W_EXITS_START] = w[W_EXITS]
        w[W_LOCK_EXIT] = locals_[base_local, L_EXITS]
        enter(frames, nodes, 0, 0, start, 0, 1, 0)
        frames[0, F_BASE] = base
    base_dense = locals_[base_local, L_DENSE]
    lock_end = locals_[base_local, L_EXITS_END]
    lock_exit = w[W_LOCK_EXIT]
    pool_top = w[W_POOL]
    exit_top = w[W_EXITS]
    horizon = w[W_HORIZON]
    depth = w[W_DEPTH]
    walked = 0
    while depth >= 0:
        state = frames[depth, F_STATE]
        cell = frames[depth, F_CELL]
        top = frames[depth, F_TOP]
        beside = frames[depth, F_BASE]
        kid = frames[depth, F_KID]
        kids_end = frames[depth, F_KIDS_END]
        map_at = states[state, S_MAP] * 256
        beside_at = states[max(beside, 0), S_MAP] * 256
        alike = beside >= 0 and states[state, S_ACTIONS] >= 0 and states[beside, S_ACTIONS] >= 0
        descended = False
        while kid < kids_end:
            symbol = bytes_[kid]
            if alike and maps[map_at + symbol] == 0 and maps[beside_at + symbol] == 0:
                kid += 1
                continue
            walked += 1
            node = kid
            inner_node = nodes[node, N_KIDS] < nodes[node, N_KIDS_END]
            beside_status = REJECTED
            beside_after = -1
            if beside >= 0:
                beside_status, beside_after, beside_cell, _, outcome = dispatch(
                    states, maps, actions, memo, cells, beside, 0, top, symbol, 0, 0
                )
                if beside_status == OK and beside_cell != 0:
                    beside_status = -1  # the second walk only follows the frame itself
                elif beside_status > REJECTED and beside_status != EXIT:
                    w[W_DETAIL] = beside_after
                    w[W_OUTCOME] = outcome
                    frames[depth, F_KID] = kid
                    w[W_DEPTH], w[W_POOL], w[W_EXITS], w[W_LOCK_EXIT] = depth, pool_top, exit_top, lock_exit
                    w[W_WALKED] += walked
                    return beside_status
            status, after, cell_after, top_after, outcome = dispatch(
                states, maps, actions, memo, cells, state, cell, top, symbol, 0, 0
            )
            if status != OK and status != EXIT and status != REJECTED:
                w[W_DETAIL] = after
                w[W_OUTCOME] = outcome
                frames[depth, F_KID] = kid
                w[W_DEPTH], w[W_POOL], w[W_EXITS], w[W_LOCK_EXIT] = depth, pool_top, exit_top, lock_exit
                w[W_WALKED] += walked
                return status
            kid += 1
            open_ahead = frames[depth, F_OPEN]
            if status == OK and states[after, S_SLACK] == OPEN_AHEAD:
                open_ahead = 1
            descend = status == OK and inner_node
            if descend and cell_after == 0:
                after = relaxed(states, after, nodes[node, N_SPAN] & 0xFFFF)
            if beside >= 0:
                while lock_exit < lock_end and nodes[exits[lock_exit, E_NODE], N_ORDER] < nodes[node, N_ORDER]:
                    lock_exit += 1
                if status == REJECTED and beside_status == REJECTED:
                    continue
                if (
                    status == OK
                    and beside_status == OK
                    and cell_after == 0
                    and after == relaxed(states, beside_after, nodes[node, N_SPAN] & 0xFFFF)
                ):
                    while (
                        lock_exit < lock_end and nodes[exits[lock_exit, E_NODE], N_TOKENS] < nodes[node, N_TOKENS_ALL]
                    ):
                        exit_top = _exit(
                            exits,
                            exit_top,
                            exits[lock_exit, E_NODE],
                            exits[lock_exit, E_STATE],
                            exits[lock_exit, E_OUTCOME],
                        )
                        lock_exit += 1
                    continue
            if status == EXIT:
                if after < 0:
                    if inner_node:
                        exit_top = _exit(exits, exit_top, node, -1, outcome | (frames[depth, F_OPEN] * OPEN_BIT))
                elif cell == 0 and after == state:
                    if frames[depth, F_EXIT] == 0:
                        frames[depth, F_EXIT] = 1
                        exit_top = _exit(exits, exit_top, frames[depth, F_NODE], state, 0)
                else:
                    exit_top = _exit(exits, exit_top, node, after, 1)
            allowed = status == OK or (status == EXIT and after < 0)
            in_row = allowed and not open_ahead
            tokens = nodes[node, N_TOKENS]
            inner = nodes[node, N_TOKENS_OWN]
            if not descend:
                if allowed and open_ahead:
                    listed(token_ids, lengths, pool, w, pool_top, tokens, inner, ANY_NUMBER, 1)
                pool_top = _flip(dense, base_dense, token_ids, pool, pool_top, tokens, inner, in_row)
                pool_top = _flip(dense, base_dense, token_ids, pool, pool_top, inner, nodes[node, N_TOKENS_ALL], False)
                continue
            most = keeps(states, maps, actions, loops, nodes, below, after, node, horizon)
            if most >= 0:
                longest = longest_allowed(nodes, node, most)
                last = nodes[node, N_TOKENS_ALL]
                if open_ahead:
                    listed(token_ids, lengths, pool, w, pool_top, tokens, last, longest, 1)
                    pool_top = _flip(dense, base_dense, token_ids, pool, pool_top, tokens, last, False)
                elif longest == ANY_NUMBER:
                    pool_top = _flip(dense, base_dense, token_ids, pool, pool_top, tokens, last, True)
                else:
                    pool_top = _flip_longer(
                        dense, base_dense, token_ids, lengths, pool, pool_top, tokens, last, longest
                    )
                continue
            if open_ahead:
                listed(token_ids, lengths, pool, w, pool_top, tokens, inner, ANY_NUMBER, 1)
            pool_top = _flip(dense, base_dense, token_ids, pool, pool_top, tokens, inner, in_row)
            frames[depth, F_KID] = kid
            depth += 1
            enter(frames, nodes, depth, node, after, cell_after, top_after, open_ahead)
            frames[depth, F_BASE] = beside_after if beside_status == OK else -1
            descended = True
            break
        if not descended:
            depth -= 1
    w[W_WALKED] += walked
    w[W_LOCK_EXIT] = lock_exit
    first_id = w[W_POOL_START]
    number = base_dense
    if pool_top - first_id > dense.shape[1]:
        number = w[W_DENSE]
        w[W_DENSE] = number + 1
        for word in range(dense.shape[1]):
            dense[number, word] = dense[base_dense, word]
        for at in range(first_id, pool_top):
            token = pool[at]
            dense[number, token >> 5] ^= np.uint32(1) << np.uint32(token & 31)
        pool_top = first_id
    _file(states, locals_, w, number, pool_top, exit_top)
    return OK
