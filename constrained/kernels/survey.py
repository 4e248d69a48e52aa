"""Survey of a configuration for a budget: how far from the end of a sentence each allowed token leaves it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from constrained.kernels.jit import kernel
from constrained.kernels.machine import dispatch
from constrained.kernels.tables import (
    C_NEXT,
    C_RETURN,
    OK,
    REJECTED,
    T_BYTE_DEPTH,
    T_END,
    T_TOKENS,
    UNKNOWN_COST,
)

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt8 = NDArray[np.uint8]

FAR = 1 << 28
"""A need that no budget meets; sums of needs are cut off here."""

V_STATE, V_CELL, V_TOP, V_NODE, V_LIMIT, V_MOST, V_FOUND, V_DETAIL, V_OUTCOME = range(9)
"""Registers of a survey, int64[9]: the configuration, the node to resume at (0 at first), the limit, the largest need met,
how many tokens are over the limit, what is missing."""


@kernel
def survey(
    states: Int32, maps: UInt8, actions: Int64, memo: Int64, cells: Int32, trie: Int32, token_ids: Int32,
    frames: Int32, costs: Int32, cell_costs: Int32, over: Int32, v: Int64,
) -> int:  # fmt: skip
    """Walk the trie from a configuration and hold the need of every token against v[V_LIMIT].

    The need is costs[state] (int32[states], bytes to the end of the frame, -1 unknown) plus cell_costs[cell]
    (int32[cells], what the frames below need).  Tokens over the limit are listed in `over`, int32[tokens, 3]: token,
    state, and cell (or -1 where the stack is not the matcher's own).  v[V_MOST] is the largest need.
    Resumable: UNKNOWN_COST names in v[V_DETAIL] the state (or -1 - wait state) whose cost is missing.
    """
    first_top = v[V_TOP]
    node = v[V_NODE]
    if node == 0:
        node = 1
        frames[0, 0] = v[V_STATE]
        frames[0, 1] = v[V_CELL]
        frames[0, 2] = first_top
        v[V_FOUND] = 0
        v[V_MOST] = 0
    found = v[V_FOUND]
    most = v[V_MOST]
    limit = v[V_LIMIT]
    count = trie.shape[0] - 1
    while node < count:
        entry = trie[node, T_BYTE_DEPTH]
        depth = entry >> 8
        top_before = frames[depth - 1, 2]
        status, state, cell, top, outcome = dispatch(
            states,
            maps,
            actions,
            memo,
            cells,
            frames[depth - 1, 0],
            frames[depth - 1, 1],
            top_before,
            entry & 255,
            -1,
            0,
        )
        if status == REJECTED:
            node = trie[node, T_END]
            continue
        if status != OK:
            v[V_DETAIL], v[V_OUTCOME], v[V_NODE], v[V_FOUND], v[V_MOST] = state, outcome, node, found, most
            return status
        for pushed in range(top_before, top):
            then = cells[pushed, C_RETURN]
            cost = costs[then if then >= 0 else -1 - then]
            if cost < 0:
                v[V_DETAIL], v[V_NODE], v[V_FOUND], v[V_MOST] = then, node, found, most
                return UNKNOWN_COST
            cell_costs[pushed] = min(FAR, cost + cell_costs[cells[pushed, C_NEXT]])
        first, last = trie[node, T_TOKENS], trie[node + 1, T_TOKENS]
        if first < last:
            if costs[state] < 0:
                v[V_DETAIL], v[V_NODE], v[V_FOUND], v[V_MOST] = state, node, found, most
                return UNKNOWN_COST
            need = costs[state] + cell_costs[cell]
            most = max(most, need)
            if need > limit:
                for at in range(first, last):
                    over[found, 0] = token_ids[at]
                    over[found, 1] = state
                    over[found, 2] = cell if cell < first_top else -1
                    found += 1
        frames[depth, 0] = state
        frames[depth, 1] = cell
        frames[depth, 2] = top
        node += 1
    v[V_NODE], v[V_FOUND], v[V_MOST] = 0, found, most
    return OK
