"""Where a frame is left before many tokens: what may come then is kept for the state that it is left to.

Behind a name, a keyword or a space, the frame is left before the next byte, whatever that is, and thousands of tokens begin
there.  The state in the frame below is often the same one (before an expression, say) on another stack.  So the walk from
it over the subtree of such an exit is a local row, too, made once for each pair of an exit and a state.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from constrained.kernels.jit import inlined
from constrained.kernels.machine import memo_get
from constrained.kernels.tables import (
    BEFORE_STATE,
    C_DEPTH,
    C_NEXT,
    C_RETURN,
    CELLS_FULL,
    E_NODE,
    E_OUTCOME,
    E_STATE,
    I_CELL,
    I_LOCAL,
    ITEMS,
    KIND_SHIFT,
    L_LARGE,
    L_LARGE_END,
    L_OPEN,
    L_PREPARED,
    L_WALKED,
    N_KIDS,
    N_KIDS_END,
    N_TOKENS,
    N_TOKENS_ALL,
    NEED_LOCAL,
    OK,
    OPEN_AHEAD,
    OPEN_BIT,
    OPEN_HERE,
    OPERAND_MASK,
    OUTCOME_BITS,
    PASSING,
    POP_BEFORE,
    POP_KEY,
    PUSH,
    RETURN_SHIFT,
    S_ACTIONS,
    S_LOCAL,
    S_MAP,
    S_SLACK,
    UNKNOWN_POP,
    UNKNOWN_STATE,
    WAITS_BIT,
    WITHIN_KEY,
    WITHIN_SHIFT,
)
from constrained.kernels.walk_registers import (
    W_CELL,
    W_DETAIL,
    W_EXITS,
    W_ITEMS,
    W_LARGE,
    W_LEAST_WALK,
    W_LOWEST,
    W_OUTCOME,
    W_ROOT,
    W_SPARE,
    W_TOP,
    W_WITHIN,
)

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt8 = NDArray[np.uint8]

_MOST_LARGE = 64
"""Large exits of one local row."""
_MOST_OUTCOMES = 8
"""Outcomes of one exit that are told apart; those with fewer tokens are joined with others."""


@inlined
def find_large(
    states: Int32, maps: UInt8, actions: Int64, nodes: Int32, bytes_: UInt8, exits: Int32, w: Int64, first: int, end: int
) -> int:  # fmt: skip
    """Write the large ones of exits[first:end] to the top of `exits`, one for each outcome; how many, or -1: some are open."""
    top = w[W_EXITS]
    count = 0
    for number in range(first, end):
        node, state, outcome = exits[number, E_NODE], np.int64(exits[number, E_STATE]), exits[number, E_OUTCOME]
        if outcome >= OPEN_BIT or (state >= 0 and states[state, S_SLACK] == OPEN_AHEAD):
            return -1
        if nodes[node, N_TOKENS_ALL] - nodes[node, N_TOKENS] < w[W_LARGE] or (state >= 0 and outcome == 1):
            continue
        if count + _MOST_OUTCOMES > _MOST_LARGE:
            break
        if state < 0:
            exits[top + count, E_NODE], exits[top + count, E_STATE], exits[top + count, E_OUTCOME] = node, -1, outcome
            count += 1
            continue
        here = count
        for kid in range(nodes[node, N_KIDS], nodes[node, N_KIDS_END]):
            leaves = leaving_with(states, maps, actions, state, bytes_[kid])
            known = leaves < 0
            for other in range(here, count):
                known = known or exits[top + other, E_OUTCOME] == leaves
            if known or count - here == _MOST_OUTCOMES:
                continue
            tokens = 0
            for other in range(kid, nodes[node, N_KIDS_END]):
                if leaving_with(states, maps, actions, state, bytes_[other]) == leaves:
                    tokens += nodes[other, N_TOKENS_ALL] - nodes[other, N_TOKENS]
            if tokens >= w[W_LARGE]:
                exits[top + count, E_NODE], exits[top + count, E_STATE] = node, BEFORE_STATE - state
                exits[top + count, E_OUTCOME] = leaves
                count += 1
    return count


@inlined
def leaving_with(states: Int32, maps: UInt8, actions: Int64, state: int, byte: int) -> int:
    """The outcome with which `state`, which is expanded, is left before a byte; -1 if it is not."""
    group = maps[states[state, S_MAP] * 256 + byte]
    action = actions[states[state, S_ACTIONS] + group]
    return action & OPERAND_MASK if group and action >> KIND_SHIFT == POP_BEFORE else np.int64(-1)  # type: ignore[return-value]


@inlined
def left_to(
    states: Int32, actions: Int64, memo: Int64, cells: Int32, w: Int64, cell: int, outcome: int
) -> tuple[int, int, int]:
    """Leave the frame on top of `cell` and go on to the first state that is not PASSING: (status, state, cell).

    Cells are taken from w[W_SPARE] on; w[W_LOWEST] is kept at the depth of the lowest cell that made a difference.  A status
    other than OK is as of `dispatch`, with w[W_DETAIL] and w[W_OUTCOME].
    """
    state = np.int64(-1)
    while state < 0 or states[state, S_SLACK] == PASSING:
        if state >= 0:
            block = states[state, S_ACTIONS]
            if block < 0:
                w[W_DETAIL], w[W_OUTCOME] = state, 0
                return UNKNOWN_STATE, 0, 0
            action = actions[block]
            if action >> KIND_SHIFT == PUSH:
                top = w[W_SPARE]
                if top >= cells.shape[0]:
                    return CELLS_FULL, 0, 0
                then = (action >> RETURN_SHIFT) & OPERAND_MASK
                cells[top, C_RETURN] = -1 - then if (action >> WAITS_BIT) & 1 else then
                cells[top, C_NEXT] = cell
                cells[top, C_DEPTH] = cells[cell, C_DEPTH] + 1
                cell = top
                w[W_SPARE] = top + 1
                state = action & OPERAND_MASK
                continue
            outcome = action & OPERAND_MASK
        then = np.int64(cells[cell, C_RETURN])
        if then < 0:
            target = memo_get(memo, POP_KEY | ((-1 - then) << OUTCOME_BITS) | outcome)
            if target < 0:
                w[W_DETAIL], w[W_OUTCOME] = -1 - then, outcome
                return UNKNOWN_POP, 0, 0
            then = target
        state = then
        cell = np.int64(cells[cell, C_NEXT])
        w[W_LOWEST] = min(w[W_LOWEST], np.int64(cells[cell, C_DEPTH]))
    return OK, state, cell  # type: ignore[return-value]


@inlined
def find_items(
    states: Int32, actions: Int64, memo: Int64, cells: Int32, locals_: Int32, exits: Int32, items: Int64, w: Int64
) -> int:  # fmt: skip
    """List the local rows that make up the row of w[W_ROOT] and the stack, each with the cell below it; a status.

    On OK there are w[W_ITEMS] of them, cells are free from w[W_SPARE] on, and w[W_LOWEST] says which cells made a difference; -1:
    local row w[W_DETAIL] is to be prepared first, as its walks were long; 0: it turned out that one cannot be.
    NEED_LOCAL: the local row of state w[W_DETAIL] for the large exit w[W_WITHIN] is to be made first.
    """
    w[W_SPARE] = w[W_TOP]
    w[W_LOWEST] = cells[w[W_CELL], C_DEPTH]
    items[0, I_LOCAL], items[0, I_CELL] = states[w[W_ROOT], S_LOCAL], w[W_CELL]
    w[W_ITEMS] = 1
    item = 0
    while item < w[W_ITEMS]:
        local, bottom = items[item, I_LOCAL], items[item, I_CELL]
        item += 1
        if locals_[local, L_PREPARED] == 0 and locals_[local, L_WALKED] >= w[W_LEAST_WALK]:
            w[W_DETAIL], w[W_ITEMS] = local, -1
            return OK
        if locals_[local, L_PREPARED] <= 0:
            continue
        for number in range(locals_[local, L_LARGE], locals_[local, L_LARGE_END]):
            status, state, cell = left_to(states, actions, memo, cells, w, bottom, exits[number, E_OUTCOME])
            if status != OK:
                return status
            if state == 0:
                continue
            found = np.int64(-1)
            if not OPEN_HERE <= states[state, S_SLACK] < 0:
                found = memo_get(memo, WITHIN_KEY | (state << WITHIN_SHIFT) | number)
                if found < 0:
                    w[W_DETAIL], w[W_WITHIN] = state, number
                    return NEED_LOCAL
            if found < 0 or locals_[found, L_OPEN] or w[W_ITEMS] == ITEMS:
                # tokens that the text has to tell are looked for in the old way, and so is what is nested too often
                locals_[local, L_PREPARED] = -1
                w[W_ITEMS] = 0
                return OK
            items[w[W_ITEMS], I_LOCAL], items[w[W_ITEMS], I_CELL] = found, cell
            w[W_ITEMS] += 1
    return OK
