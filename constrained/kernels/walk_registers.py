"""What walks of the trie have in common: their registers, their frames, and a few steps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from constrained.kernels.branches import ANY_NUMBER
from constrained.kernels.jit import inlined
from constrained.kernels.tables import N_KIDS, N_KIDS_END, OPERAND_MASK, POP_KEY, S_BASE, S_SLACK

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

(
    W_STATE, W_CELL, W_TOP, W_RESUME, W_DEPTH, W_EXIT, W_POOL, W_EXITS, W_LOCALS, W_ROWS, W_DENSE, W_CHAIN, W_LOWEST,
    W_DETAIL, W_OUTCOME, W_POOL_START, W_EXITS_START, W_MEMO, W_WALKED, W_LOCK_EXIT, W_FLOOR, W_FOUND, W_LIMIT_DENSE,
    W_OPEN, W_HORIZON, W_FIRST, W_BUDGET, W_UNFILED, W_ROOT, W_STAGE, W_COST, W_KEEPS, W_MISSES, W_WALKS, W_JOINED,
    W_JOINED_TOKENS, W_WITHIN, W_ITEM, W_ITEMS, W_ITEM_WALKED, W_SPARE, W_LEAST_WALK,
    W_LARGE, W_MADE, W_STEP_STATES,
) = range(45)  # fmt: skip
REGISTERS = 45
"""Registers of a walk, int64[45]: the configuration, where to resume, the tops of the tables, what is missing, counters.

W_ROWS counts rows from the beginning of the store, the rows of the tables in use are numbered from W_FIRST on; W_BUDGET is
the bytes that those tables may take; W_UNFILED is 1 where `compose` is not to memoise the row that it makes.

For the making of a row (`row_making.make_row`): W_ROOT is its state, W_STAGE how far it has come, W_COST what the local walk
has cost so far, W_KEEPS the cost from which on the caller wants to keep a local row of a string (-1: never).  W_ITEMS local
rows make up the row; W_ITEM is the one being completed and W_ITEM_WALKED the nodes that this has come to; cells are free from
W_SPARE on; W_WITHIN is the large exit that a local row is made for, or -1.  After W_LEAST_WALK nodes in all the exits of a local
row are prepared, and those before W_LARGE tokens are large.  W_JOINED and W_JOINED_TOKENS are the tops of the tables of joined
exits.  W_MADE is how many states there were before, W_STEP_STATES how many more may be made without a look at the limits."""

CHAINS = 1 << 29
"""Chain nodes of the memo are numbered from here, states below; their keys stay below `POP_KEY`."""
assert CHAINS > OPERAND_MASK and CHAINS << 33 <= POP_KEY

F_STATE, F_CELL, F_TOP, F_EXIT, F_BASE, F_OPEN, F_NODE, F_KID, F_KIDS_END = range(9)
FRAME_COLUMNS = 9
"""Columns of the frames of a walk, int32[longest token + 2, 9], one for each depth of the trie: the configuration, whether
an exit was noted there, the state of the walk that runs beside it (-1: none, or not in step), whether the way there
depends on text (`OPEN_AHEAD`), the node, and which of its children comes next.  Tokens on ways that depend on text are not
in the row; they are counted in W_OPEN and listed from the end of the pool downwards."""


@inlined
def relaxed(states: Int32, state: int, height: int) -> int:
    """The state to go on with where at most `height` more bytes are looked at: bounds that cannot matter are dropped."""
    while states[state, S_BASE] >= 0 and states[state, S_SLACK] >= height:
        state = states[state, S_BASE]
    return state


@inlined
def enter(frames: Int32, nodes: Int32, depth: int, node: int, state: int, cell: int, top: int, open_ahead: int) -> None:
    """Be at `node`, whose children come next."""
    frames[depth, F_STATE] = state
    frames[depth, F_CELL] = cell
    frames[depth, F_TOP] = top
    frames[depth, F_EXIT] = 0
    frames[depth, F_OPEN] = open_ahead
    frames[depth, F_NODE] = node
    frames[depth, F_KID] = nodes[node, N_KIDS]
    frames[depth, F_KIDS_END] = nodes[node, N_KIDS_END]


@inlined
def listed(
    token_ids: Int32, lengths: Int32, pool: Int32, w: Int64, pool_top: int, first: int, last: int, longest: int,
    open_ahead: int,
) -> int:  # fmt: skip
    """List those of token_ids[first:last] that have at most `longest` characters in the pool, at its top or apart; the new top."""
    if open_ahead:
        for at in range(first, last):
            if lengths[at] <= longest:
                w[W_OPEN] += 1
                pool[pool.shape[0] - w[W_OPEN]] = token_ids[at]
        return pool_top
    if longest == ANY_NUMBER:
        for at in range(first, last):
            pool[pool_top] = token_ids[at]
            pool_top += 1
        return pool_top
    for at in range(first, last):
        if lengths[at] <= longest:
            pool[pool_top] = token_ids[at]
            pool_top += 1
    return pool_top
