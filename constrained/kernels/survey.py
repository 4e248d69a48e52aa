"""Survey of a configuration for a budget: how far from the end of a sentence each allowed token leaves it.

Tokens are named by ranges of places in the trie's order, and where they lead by *kinds*: a state and the stack, as far as it is
not the matcher's own.  In a string thousands of tokens are one kind, and a subtree that leads nowhere else is not walked.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from constrained.kernels.branches import B_HIGH, B_LOW, L_KNOWN, SAME_WIDE
from constrained.kernels.jit import inlined, kernel
from constrained.kernels.machine import dispatch
from constrained.kernels.tables import (
    C_NEXT,
    C_RETURN,
    GOTO,
    KIND_SHIFT,
    N_BYTE,
    N_KIDS,
    N_KIDS_END,
    N_SPAN,
    N_TOKENS,
    N_TOKENS_ALL,
    N_TOKENS_OWN,
    NONE_WIDE,
    OK,
    OPERAND_MASK,
    OTHER_WIDE,
    REJECTED,
    S_ACTIONS,
    S_BASE,
    S_MAP,
    S_SLACK,
    UNKNOWN_COST,
)

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt8 = NDArray[np.uint8]
UInt32 = NDArray[np.uint32]
UInt64 = NDArray[np.uint64]

FAR = 1 << 28
"""A need that no budget meets; sums of needs are cut off here."""

(
    V_STATE, V_CELL, V_TOP, V_DEPTH, V_LIMIT, V_MOST, V_RANGES, V_KINDS, V_DETAIL, V_OUTCOME,
) = range(10)  # fmt: skip
REGISTERS = 10
"""Registers of a survey, int64[10]: the configuration, where to resume (0 at first), the limit, the largest
need met, how many ranges and kinds are over the limit, what is missing."""

F_STATE, F_CELL, F_TOP, F_KID, F_KIDS_END = range(5)
FRAME_COLUMNS = 5
R_FIRST, R_LAST, R_KIND = range(3)
RANGE_COLUMNS = 3
K_STATE, K_CELL, K_OWN, K_RETURNS = range(4)
MOST_OWN = 6
KIND_COLUMNS = K_RETURNS + MOST_OWN
"""A kind: its state, the cell of the matcher's own below, how many frames the token has put above that, and their return states
from the top down.  The cell is -1 where those are too many to note."""
_REST_OF_CHARACTER = 3
_LOOK_BACK = 32
"""Kinds before the last one that a new one is compared with; one that is noted twice is judged twice."""


@inlined
def _staying(states: Int32, maps: UInt8, actions: Int64, state: int) -> tuple[np.uint64, np.uint64]:
    """The ASCII characters that lead from `state` to itself, not to one that rests on it and may need more: two halves."""
    block = states[state, S_ACTIONS]
    at = states[state, S_MAP] * 256
    low = np.uint64(0)
    high = np.uint64(0)
    for byte in range(128):
        action = actions[block + maps[at + byte]]
        if maps[at + byte] != 0 and action >> KIND_SHIFT == GOTO and action & OPERAND_MASK == state:
            if byte < 64:
                low |= np.uint64(1) << np.uint64(byte)
            else:
                high |= np.uint64(1) << np.uint64(byte - 64)
    return low, high


@inlined
def _kind(cells: Int32, kinds: Int32, count: int, state: int, cell: int, first_top: int) -> int:
    """The number of the kind of a configuration: `count`, the next free one, if it is new."""
    own = 0
    while cell >= first_top and own < MOST_OWN:
        kinds[count, K_RETURNS + own] = cells[cell, C_RETURN]
        own += 1
        cell = cells[cell, C_NEXT]
    kinds[count, K_STATE] = state
    kinds[count, K_CELL] = cell if cell < first_top else -1
    kinds[count, K_OWN] = own
    for known in range(count - 1, max(-1, count - 1 - _LOOK_BACK), -1):
        same = True
        for column in range(K_RETURNS + own):
            if kinds[known, column] != kinds[count, column]:
                same = False
                break
        if same:
            return known
    return count


@kernel
def note_parted(nodes: Int32, bytes_: UInt8, left: UInt8, parted: UInt8) -> None:
    """Set `parted`, uint8[nodes], where a token below ends inside a character; `left`, uint8[nodes], is scratch."""
    count = nodes.shape[0]
    left[0] = 0
    for node in range(count):
        for kid in range(nodes[node, N_KIDS], nodes[node, N_KIDS_END]):
            byte = bytes_[kid]
            if byte < 0x80:
                left[kid] = 0
            elif byte < 0xC0:
                left[kid] = left[node] - 1 if left[node] > 0 else 0
            else:
                left[kid] = 1 if byte < 0xE0 else 2 if byte < 0xF0 else 3
    for node in range(count - 1, -1, -1):
        parted[node] = 0
        for kid in range(nodes[node, N_KIDS], nodes[node, N_KIDS_END]):
            if parted[kid] or (left[kid] > 0 and nodes[kid, N_TOKENS] < nodes[kid, N_TOKENS_OWN]):
                parted[node] = 1


@kernel
def survey(
    states: Int32, maps: UInt8, actions: Int64, memo: Int64, cells: Int32, loops: UInt64, nodes: Int32, bytes_: UInt8,
    below: UInt64, parted: UInt8, frames: Int32, costs: Int32, cell_costs: Int32, ranges: Int32, kinds: Int32, v: Int64,
) -> int:  # fmt: skip
    """Walk the trie from a configuration and hold the need of every token against v[V_LIMIT].

    The need is costs[state] (int32[states], bytes to the end of the frame, -1 unknown) plus cell_costs[cell]
    (int32[cells], what the frames below need).  Tokens over the limit are listed in `ranges`, int32[tokens + 1, 3]: places in
    the trie's order, and the number of an entry of `kinds`, int32[tokens + 1, 9].  v[V_MOST] is the largest need.

    A subtree of nothing but bytes on which the state stays as it is has one need.  So has it where the state rests on one of
    which that is true and which is left, at the least cost, before the difference can be seen.

    Resumable: UNKNOWN_COST names in v[V_DETAIL] the state (or -1 - wait state) whose cost is missing; v[V_DEPTH] is 0 before the
    beginning and after the end.
    """
    first_top = v[V_TOP]
    depth = v[V_DEPTH]
    if depth == 0:
        depth = np.int64(1)
        frames[1, F_STATE] = v[V_STATE]
        frames[1, F_CELL] = v[V_CELL]
        frames[1, F_TOP] = first_top
        frames[1, F_KID] = nodes[0, N_KIDS]
        frames[1, F_KIDS_END] = nodes[0, N_KIDS_END]
        v[V_RANGES] = v[V_KINDS] = v[V_MOST] = 0
    found, found_kinds, most = v[V_RANGES], v[V_KINDS], v[V_MOST]
    limit = v[V_LIMIT]
    staying, low, high = np.int64(-1), np.uint64(0), np.uint64(0)
    status = OK
    while depth > 0:
        node = frames[depth, F_KID]
        if node >= frames[depth, F_KIDS_END]:
            depth -= 1
            continue
        top_before = frames[depth, F_TOP]
        status, state, cell, top, outcome = dispatch(
            states,
            maps,
            actions,
            memo,
            cells,
            frames[depth, F_STATE],
            frames[depth, F_CELL],
            top_before,
            bytes_[node],
            -1,
            0,
        )
        if status == REJECTED:
            frames[depth, F_KID] = node + 1
            status = OK
            continue
        if status != OK:
            v[V_DETAIL], v[V_OUTCOME] = state, outcome
            break
        for pushed in range(top_before, top):
            then = cells[pushed, C_RETURN]
            cost = costs[then if then >= 0 else -1 - then]
            if cost < 0:
                v[V_DETAIL] = then
                status = UNKNOWN_COST
                break
            cell_costs[pushed] = min(FAR, cost + cell_costs[cells[pushed, C_NEXT]])
        if status != OK:
            break
        has_kids = nodes[node, N_KIDS] < nodes[node, N_KIDS_END]
        last = nodes[node, N_TOKENS_OWN]
        whole = False
        if has_kids:
            height = nodes[node, N_SPAN] & 0xFFFF
            like = np.int64(state)
            while states[like, S_BASE] >= 0 and states[like, S_SLACK] >= height:
                base = states[like, S_BASE]
                if costs[base] < 0:
                    v[V_DETAIL] = base
                    status = UNKNOWN_COST
                    break
                if states[like, S_SLACK] < height + costs[base]:
                    break
                like = np.int64(base)
            if status != OK:
                break
            if states[like, S_ACTIONS] >= 0:
                if like != staying:
                    staying = like
                    low, high = _staying(states, maps, actions, like)
                kind_of_wide = (nodes[node, N_BYTE] >> 8) & 0xFF
                if (below[node, B_LOW] & ~low) | (below[node, B_HIGH] & ~high) == np.uint64(0) and (
                    kind_of_wide == NONE_WIDE
                    or (kind_of_wide != OTHER_WIDE and loops[like, L_KNOWN] & np.uint64(SAME_WIDE) != np.uint64(0))
                ):
                    whole = True
                    if parted[node]:
                        if costs[state] < 0:
                            v[V_DETAIL] = state
                            status = UNKNOWN_COST
                            break
                        most_here = costs[state] + cell_costs[cell] + _REST_OF_CHARACTER
                        whole = most_here <= limit
                        if whole:
                            most = max(most, most_here)
                    if whole:
                        last = nodes[node, N_TOKENS_ALL]
        first = nodes[node, N_TOKENS]
        if first < last:
            if costs[state] < 0:
                v[V_DETAIL] = state
                status = UNKNOWN_COST
                break
            need = costs[state] + cell_costs[cell]
            most = max(most, need)
            if need > limit:
                kind = _kind(cells, kinds, found_kinds, state, cell, first_top)
                if kind == found_kinds:
                    found_kinds += 1
                if found and ranges[found - 1, R_LAST] == first and ranges[found - 1, R_KIND] == kind:
                    ranges[found - 1, R_LAST] = last
                else:
                    ranges[found, R_FIRST], ranges[found, R_LAST], ranges[found, R_KIND] = first, last, kind
                    found += 1
        frames[depth, F_KID] = node + 1
        if has_kids and not whole:
            depth += 1
            frames[depth, F_STATE] = state
            frames[depth, F_CELL] = cell
            frames[depth, F_TOP] = top
            frames[depth, F_KID] = nodes[node, N_KIDS]
            frames[depth, F_KIDS_END] = nodes[node, N_KIDS_END]
    v[V_DEPTH], v[V_RANGES], v[V_KINDS], v[V_MOST] = depth, found, found_kinds, most
    return status


@kernel
def note_allowed(row: UInt32, token_ids: Int32, ranges: Int32, but: int, allowed: UInt8) -> None:
    """Set `allowed`, uint8[kinds], for the kinds of `ranges` that a token of `row` other than `but` is of."""
    for number in range(ranges.shape[0]):
        kind = ranges[number, R_KIND]
        at = ranges[number, R_FIRST]
        while at < ranges[number, R_LAST] and not allowed[kind]:
            token = token_ids[at]
            if (row[token >> 5] >> np.uint32(token & 31)) & np.uint32(1) and token != but:
                allowed[kind] = 1
            at += 1


@kernel
def take_out(row: UInt32, token_ids: Int32, ranges: Int32, but: int, late: UInt8) -> None:
    """Take the tokens of the kinds that are `late`, uint8[kinds], out of `row`, except `but`."""
    for number in range(ranges.shape[0]):
        if late[ranges[number, R_KIND]]:
            for at in range(ranges[number, R_FIRST], ranges[number, R_LAST]):
                token = token_ids[at]
                if token != but:
                    row[token >> 5] &= ~(np.uint32(1) << np.uint32(token & 31))
