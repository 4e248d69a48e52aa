"""Completion of a local row with what the frames below allow."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from constrained.kernels.branches import ANY_NUMBER, keeps, longest_allowed
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
    I_CELL,
    I_LOCAL,
    JOINED_AFTER,
    KIND_SHIFT,
    L_DENSE,
    L_EXITS,
    L_EXITS_END,
    L_IDS,
    L_IDS_END,
    L_JOINED,
    L_JOINED_END,
    L_PREPARED,
    L_WALKED,
    N_KIDS,
    N_KIDS_END,
    N_SPAN,
    N_TOKENS,
    N_TOKENS_ALL,
    N_TOKENS_OWN,
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
    R_NUMBER,
    R_OPEN,
    REJECTED,
    S_ACTIONS,
    S_MAP,
    S_ROW,
    S_SLACK,
    UNKNOWN_POP,
)
from constrained.kernels.walk_registers import (
    F_CELL,
    F_KID,
    F_KIDS_END,
    F_OPEN,
    F_STATE,
    F_TOP,
    W_CELL,
    W_CHAIN,
    W_DENSE,
    W_DEPTH,
    W_DETAIL,
    W_EXIT,
    W_FIRST,
    W_FLOOR,
    W_FOUND,
    W_HORIZON,
    W_ITEM,
    W_ITEM_WALKED,
    W_ITEMS,
    W_LOWEST,
    W_MEMO,
    W_OPEN,
    W_OUTCOME,
    W_POOL,
    W_POOL_START,
    W_RESUME,
    W_ROWS,
    W_SPARE,
    W_STATE,
    W_UNFILED,
    W_WALKED,
    enter,
    listed,
    relaxed,
)

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt8 = NDArray[np.uint8]
UInt32 = NDArray[np.uint32]
UInt64 = NDArray[np.uint64]

_MOST_COUNTED = 1 << 30
"""Nodes that L_WALKED counts to."""
_BETWEEN = -1
"""W_DEPTH between two exits."""


@inlined
def file_row(states: Int32, memo: Int64, cells: Int32, w: Int64) -> None:
    """Memoise row w[W_FOUND] under w[W_STATE] and the return states of those cells that made a difference to it."""
    start, cell = w[W_STATE], w[W_CELL]
    row = w[W_FOUND]
    touched = cells[cell, C_DEPTH] - w[W_LOWEST]
    if touched == 0:
        states[start, S_ROW] = row
        return
    chain = np.int64(start)
    step = 0
    while True:
        key = (chain << 32) | (np.int64(cells[cell, C_RETURN]) & 0xFFFFFFFF)
        value = memo_get(memo, key)
        step += 1
        if value < 0 and step >= touched:
            memo_put(memo, key, row)
            w[W_MEMO] += 1
            return
        # A row that was made in another way (`kernels.leaving`) may have looked deeper: then this one is filed as deep.
        if value < 0:
            value = CHAIN_FLAG + w[W_CHAIN]
            w[W_CHAIN] += 1
            memo_put(memo, key, value)
            w[W_MEMO] += 1
        chain = value - CHAIN_FLAG
        cell = np.int64(cells[cell, C_NEXT])


@kernel
def compose(
    states: Int32, maps: UInt8, actions: Int64, memo: Int64, cells: Int32, loops: UInt64, trie: Int32, trie_bytes: UInt8,
    trie_below: UInt64, trie_tokens: Int32, trie_lengths: Int32, joined: Int32, joined_bytes: UInt8, joined_below: UInt64,
    joined_tokens: Int32, joined_lengths: Int32, eos: Int32, pool: Int32, dense: UInt32, locals_: Int32, rows: Int32,
    exits: Int32, frames: Int32, items: Int64, w: Int64,
) -> int:  # fmt: skip
    """Complete the local rows of `items` with what the stack below allows after each exit; memoise it as the row of w[W_STATE].

    The row is filed under the state and the return states of just those cells that the walk popped.  End tokens are in
    the row iff the text may end here.  Joined exits lead into tries of their own.  Resumable like `walk_alone`.  On OK,
    w[W_FOUND] is the row's number; it is not memoised yet where w[W_UNFILED] is 1 or tokens were set apart (W_OPEN).
    """
    start, first_top = w[W_STATE], w[W_SPARE]
    resumes = w[W_RESUME] == 1
    if not resumes:
        w[W_RESUME] = 1
        w[W_ITEM], w[W_ITEM_WALKED] = 0, 0
        w[W_DEPTH] = _BETWEEN
        w[W_POOL_START] = w[W_POOL]
    pool_top = w[W_POOL]
    lowest = w[W_LOWEST]
    depth = w[W_DEPTH]
    floor = w[W_FLOOR]
    horizon = w[W_HORIZON]
    while w[W_ITEM] < w[W_ITEMS]:
        local, bottom = items[w[W_ITEM], I_LOCAL], items[w[W_ITEM], I_CELL]
        number, end_of_exits = np.int64(locals_[local, L_EXITS]), np.int64(locals_[local, L_EXITS_END])
        nodes, bytes_, below, token_ids, lengths = trie, trie_bytes, trie_below, trie_tokens, trie_lengths
        if locals_[local, L_PREPARED] > 0:
            number, end_of_exits = np.int64(locals_[local, L_JOINED]), np.int64(locals_[local, L_JOINED_END])
            nodes, bytes_, below, token_ids, lengths = joined, joined_bytes, joined_below, joined_tokens, joined_lengths
        if resumes:
            number, resumes = w[W_EXIT], False
        walked = 0
        while number < end_of_exits:
            leaving = exits[number, E_STATE]
            if depth == _BETWEEN:
                node = exits[number, E_NODE]
                floor = nodes[node, N_SPAN] >> 16
                if leaving < 0:
                    # take the return state, go on below the node
                    outcome = exits[number, E_OUTCOME] & (OPEN_BIT - 1)
                    then = np.int64(cells[bottom, C_RETURN])
                    rest = cells[bottom, C_NEXT]
                    if cells[rest, C_DEPTH] < lowest:
                        lowest = cells[rest, C_DEPTH]
                    if then < 0:
                        target = memo_get(memo, POP_KEY | ((-1 - then) << OUTCOME_BITS) | outcome)
                        if target < 0:
                            w[W_DETAIL] = -1 - then
                            w[W_OUTCOME] = outcome
                            w[W_EXIT], w[W_POOL], w[W_LOWEST], w[W_DEPTH] = number, pool_top, lowest, _BETWEEN
                            w[W_WALKED] += walked
                            w[W_ITEM_WALKED] += walked
                            return UNKNOWN_POP
                        then = target
                    open_ahead = exits[number, E_OUTCOME] // OPEN_BIT
                    if leaving == JOINED_AFTER and states[then, S_SLACK] == OPEN_AHEAD:
                        open_ahead = 1
                    enter(frames, nodes, floor, node, then, rest, first_top, open_ahead)
                elif exits[number, E_OUTCOME] == 1:
                    # the state wants to leave before the node's own byte
                    floor -= 1
                    enter(
                        frames, nodes, floor, node, leaving, bottom, first_top, states[leaving, S_SLACK] == OPEN_AHEAD
                    )
                    frames[floor, F_KID] = node
                    frames[floor, F_KIDS_END] = node + 1
                else:
                    enter(
                        frames, nodes, floor, node, leaving, bottom, first_top, states[leaving, S_SLACK] == OPEN_AHEAD
                    )
                depth = floor
            only_pops = leaving >= 0 and exits[number, E_OUTCOME] == 0
            while depth >= floor:
                state = frames[depth, F_STATE]
                cell = frames[depth, F_CELL]
                top = frames[depth, F_TOP]
                kid = frames[depth, F_KID]
                kids_end = frames[depth, F_KIDS_END]
                expanded = states[state, S_ACTIONS] >= 0
                map_at = states[state, S_MAP] * 256
                pops = only_pops and depth == floor
                descended = False
                while kid < kids_end:
                    symbol = bytes_[kid]
                    if expanded:
                        group = maps[map_at + symbol]
                        if group == 0 or (
                            pops and actions[states[state, S_ACTIONS] + group] >> KIND_SHIFT != POP_BEFORE
                        ):
                            kid += 1
                            continue
                    walked += 1
                    status, after, cell_after, top_after, outcome = dispatch(
                        states, maps, actions, memo, cells, state, cell, top, symbol, -1, 0
                    )
                    if cells[cell_after, C_DEPTH] < lowest:
                        lowest = cells[cell_after, C_DEPTH]
                    for pushed in range(top, top_after):  # a step may pop frames and then push others over them
                        if cells[pushed, C_DEPTH] <= lowest:
                            lowest = cells[pushed, C_DEPTH] - 1
                    if status == REJECTED:
                        kid += 1
                        continue
                    if status != OK:
                        w[W_DETAIL] = after
                        w[W_OUTCOME] = outcome
                        frames[depth, F_KID] = kid
                        w[W_EXIT], w[W_POOL], w[W_LOWEST], w[W_DEPTH], w[W_FLOOR] = (
                            number,
                            pool_top,
                            lowest,
                            depth,
                            floor,
                        )
                        w[W_WALKED] += walked
                        w[W_ITEM_WALKED] += walked
                        return status
                    node = kid
                    kid += 1
                    open_ahead = frames[depth, F_OPEN]
                    if states[after, S_SLACK] == OPEN_AHEAD:
                        open_ahead = 1
                    tokens = nodes[node, N_TOKENS]
                    if nodes[node, N_KIDS] == nodes[node, N_KIDS_END]:
                        pool_top = listed(
                            token_ids,
                            lengths,
                            pool,
                            w,
                            pool_top,
                            tokens,
                            nodes[node, N_TOKENS_OWN],
                            ANY_NUMBER,
                            open_ahead,
                        )
                        continue
                    after = relaxed(states, after, nodes[node, N_SPAN] & 0xFFFF)
                    most = keeps(states, maps, actions, loops, nodes, below, after, node, horizon)
                    if most >= 0:
                        longest = longest_allowed(nodes, node, most)
                        pool_top = listed(
                            token_ids,
                            lengths,
                            pool,
                            w,
                            pool_top,
                            tokens,
                            nodes[node, N_TOKENS_ALL],
                            longest,
                            open_ahead,
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
                if not descended:
                    depth -= 1
            depth = _BETWEEN
            number += 1
        locals_[local, L_WALKED] = min(np.int64(locals_[local, L_WALKED]) + w[W_ITEM_WALKED] + walked, _MOST_COUNTED)
        w[W_WALKED] += walked
        w[W_ITEM] += 1
        w[W_ITEM_WALKED] = 0
    w[W_POOL], w[W_LOWEST], w[W_DEPTH] = pool_top, lowest, _BETWEEN
    status, after, cell, top, outcome = dispatch(
        states, maps, actions, memo, cells, start, w[W_CELL], first_top, 256, -1, 0
    )
    if cells[cell, C_DEPTH] < lowest:
        w[W_LOWEST] = cells[cell, C_DEPTH]
    if status == ACCEPTED:
        for at in range(eos.shape[0]):
            pool[pool_top] = eos[at]
            pool_top += 1
    elif status != REJECTED:
        w[W_DETAIL] = after
        w[W_OUTCOME] = outcome
        return status
    at = w[W_ROWS] - w[W_FIRST]
    local = items[0, I_LOCAL]
    base, first, last = locals_[local, L_DENSE], locals_[local, L_IDS], locals_[local, L_IDS_END]
    if w[W_ITEMS] > 1 or pool_top - w[W_POOL_START] > dense.shape[1]:
        # a row of its own takes less than the list, and several local rows have no other place
        made = w[W_DENSE]
        w[W_DENSE] = made + 1
        for word in range(dense.shape[1]):
            dense[made, word] = 0
        for item in range(w[W_ITEMS]):
            local = items[item, I_LOCAL]
            base = locals_[local, L_DENSE]
            if base >= 0:
                for word in range(dense.shape[1]):
                    dense[made, word] |= dense[base, word]
            for place in range(locals_[local, L_IDS], locals_[local, L_IDS_END]):
                token = pool[place]
                dense[made, token >> 5] ^= np.uint32(1) << np.uint32(token & 31)
        for place in range(w[W_POOL_START], pool_top):
            token = pool[place]
            dense[made, token >> 5] ^= np.uint32(1) << np.uint32(token & 31)
        pool_top = w[W_POOL_START]
        base, first, last = made, pool_top, pool_top
    rows[at, R_DENSE] = base
    rows[at, R_IDS] = first
    rows[at, R_IDS_END] = last
    rows[at, R_MORE] = w[W_POOL_START]
    rows[at, R_MORE_END] = pool_top
    rows[at, R_OPEN] = 0
    rows[at, R_NUMBER] = w[W_ROWS]
    w[W_FOUND] = w[W_ROWS]
    w[W_ROWS] += 1
    w[W_POOL] = pool_top
    w[W_RESUME] = 0
    if w[W_UNFILED] == 0 and w[W_OPEN] == 0:
        file_row(states, memo, cells, w)
    return OK
