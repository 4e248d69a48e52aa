"""The exits of a local row joined: what tokens go on with behind the frame, as a trie of its own.

Where a name can end, thousands of tokens end it, and most of them go on alike: with `(`, with `, `, with a space and a
word.  The frames below see only how they go on.  So the nodes at which a frame can be left with one outcome are put
together as if they were one node, and their subtrees are merged, byte by byte: the frames below are then walked once for
each text that follows, not once for each token.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from constrained.kernels.jit import kernel
from constrained.kernels.tables import (
    BEFORE_STATE,
    CHARACTERS_SHIFT,
    E_NODE,
    E_OUTCOME,
    E_STATE,
    JOINED_AFTER,
    JOINED_BEFORE,
    KIND_SHIFT,
    L_EXITS,
    L_EXITS_END,
    L_JOINED,
    L_JOINED_END,
    L_LARGE,
    L_LARGE_END,
    L_PREPARED,
    N_BYTE,
    N_KIDS,
    N_KIDS_END,
    N_ORDER,
    N_SPAN,
    N_TOKENS,
    N_TOKENS_ALL,
    N_TOKENS_OWN,
    NONE_WIDE,
    OPERAND_MASK,
    OTHER_WIDE,
    POP_BEFORE,
    S_ACTIONS,
    S_MAP,
    VALID_WIDE,
)
from constrained.kernels.walk_registers import F_KID, F_KIDS_END, F_NODE, F_TOP, W_EXITS, W_JOINED, W_JOINED_TOKENS

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt8 = NDArray[np.uint8]
UInt64 = NDArray[np.uint64]

_MOST_GROUPS = 64
"""Outcomes that the exits of one local row are joined by; a row with more of them keeps its exits as they are."""


@kernel
def _group_of(exits: Int32, first: int, count: int, last: int, kind: int, outcome: int) -> int:
    """The group of an outcome among `count` of them, `last` being the likeliest; a new one where there is none, or -1."""
    if count and exits[first + last, E_STATE] == kind and exits[first + last, E_OUTCOME] == outcome:
        return last
    for group in range(count):
        if exits[first + group, E_STATE] == kind and exits[first + group, E_OUTCOME] == outcome:
            return group
    if count == _MOST_GROUPS:
        return -1
    exits[first + count, E_STATE] = kind
    exits[first + count, E_OUTCOME] = outcome
    return count


@kernel
def is_large(exits: Int32, large: int, large_end: int, node: int, state: int, outcome: int) -> bool:
    """Whether an exit is one of exits[large:large_end]."""
    for number in range(large, large_end):
        if exits[number, E_NODE] == node and exits[number, E_OUTCOME] == outcome and exits[number, E_STATE] == state:
            return True
    return False


@kernel
def grouped(
    states: Int32, maps: UInt8, actions: Int64, nodes: Int32, bytes_: UInt8, exits: Int32, scratch: Int32, w: Int64, first: int,
    end: int, large: int, large_end: int,
) -> int:  # fmt: skip
    """Sort what exits[first:end] lead to into groups by outcome; how many groups, or -1 if they are not to be joined.

    What belongs to exits[large:large_end] is left out.

    scratch[:n] are then the nodes whose bytes come next behind the frame, scratch[nodes:nodes + n] their groups, and
    scratch[4 * nodes] is n; the groups are at the top of `exits`, their nodes not made yet.
    """
    size = nodes.shape[0]
    top = w[W_EXITS]
    count = found = last = 0
    for number in range(first, end):
        node, state, outcome = exits[number, E_NODE], exits[number, E_STATE], exits[number, E_OUTCOME]
        if state < 0:
            if is_large(exits, large, large_end, node, -1, outcome):
                continue
            last = _group_of(exits, top, count, last, JOINED_AFTER, outcome)
            if last < 0:
                return -1
            count = max(count, last + 1)
            for kid in range(nodes[node, N_KIDS], nodes[node, N_KIDS_END]):
                scratch[found], scratch[size + found] = kid, last
                found += 1
            continue
        map_at, block = states[state, S_MAP] * 256, states[state, S_ACTIONS]
        kid, kids_end = nodes[node, N_KIDS], nodes[node, N_KIDS_END]
        if outcome == 1:  # the node's own byte is the one that leaves
            kid, kids_end = node, node + 1
        while kid < kids_end:
            action = actions[block + maps[map_at + bytes_[kid]]]
            pops = maps[map_at + bytes_[kid]] != 0 and action >> KIND_SHIFT == POP_BEFORE
            apart = outcome == 0 and is_large(
                exits, large, large_end, node, BEFORE_STATE - state, action & OPERAND_MASK
            )
            if pops and not apart:
                last = _group_of(exits, top, count, last, JOINED_BEFORE, action & OPERAND_MASK)
                if last < 0:
                    return -1
                count = max(count, last + 1)
                scratch[found], scratch[size + found] = kid, last
                found += 1
            kid += 1
    scratch[4 * size] = found
    return count


@kernel
def _expanded(
    nodes: Int32, bytes_: UInt8, joined: Int32, joined_bytes: UInt8, scratch: Int32, w: Int64, first: int, end: int
) -> int:  # fmt: skip
    """Make a node for each byte of the trie nodes scratch[first:end], sorted into scratch[end:2 * end - first]; how many.

    Until it is visited, a node's N_TOKENS and N_TOKENS_ALL say where in `scratch` the trie nodes are that it joins.
    """
    counts = 4 * nodes.shape[0] + 1
    for byte in range(256):
        scratch[counts + byte] = 0
    for at in range(first, end):
        scratch[counts + np.int64(bytes_[scratch[at]])] += 1
    made = w[W_JOINED]
    place = end
    for byte in range(256):
        here = scratch[counts + byte]
        if here:
            joined_bytes[made] = byte
            joined[made, N_TOKENS], joined[made, N_TOKENS_ALL] = place, place + here
            scratch[counts + byte] = place
            place += here
            made += 1
    for at in range(first, end):
        byte = np.int64(bytes_[scratch[at]])
        scratch[scratch[counts + byte]] = scratch[at]
        scratch[counts + byte] += 1
    count = made - w[W_JOINED]
    w[W_JOINED] = made
    return count  # type: ignore[no-any-return]


@kernel
def merged(
    nodes: Int32, bytes_: UInt8, below: UInt64, token_ids: Int32, joined: Int32, joined_bytes: UInt8, joined_below: UInt64,
    joined_tokens: Int32, joined_lengths: Int32, scratch: Int32, frames: Int32, w: Int64, first: int, end: int,
) -> int:  # fmt: skip
    """Make a node whose children are the trie nodes scratch[first:end], with all that is below them, merged; its number.

    Depths and characters are counted from the new node on.  `scratch` from `end` on is used.
    """
    root = w[W_JOINED]
    w[W_JOINED] += 1
    count = _expanded(nodes, bytes_, joined, joined_bytes, scratch, w, first, end)
    joined_bytes[root] = 0
    joined_below[root, 0], joined_below[root, 1] = 0, 0
    joined[root, N_BYTE] = 0
    joined[root, N_KIDS], joined[root, N_KIDS_END] = root + 1, root + 1 + count
    joined[root, N_ORDER], joined[root, N_SPAN] = root, 0
    joined[root, N_TOKENS] = joined[root, N_TOKENS_OWN] = w[W_JOINED_TOKENS]
    depth = 0
    frames[0, F_NODE], frames[0, F_KID], frames[0, F_KIDS_END] = root, root + 1, root + 1 + count
    frames[0, F_TOP] = 2 * end - first
    while depth >= 0:
        kid = frames[depth, F_KID]
        if kid == frames[depth, F_KIDS_END]:
            joined[frames[depth, F_NODE], N_TOKENS_ALL] = w[W_JOINED_TOKENS]
            depth -= 1
            continue
        frames[depth, F_KID] += 1
        here, here_end = joined[kid, N_TOKENS], joined[kid, N_TOKENS_ALL]
        byte = np.int64(joined_bytes[kid])
        characters = joined[frames[depth, F_NODE], N_BYTE] >> CHARACTERS_SHIFT
        if byte & 0xC0 != 0x80:
            characters += 1
        tokens = w[W_JOINED_TOKENS]
        joined[kid, N_TOKENS] = tokens
        low = high = np.uint64(0)
        height, wide = 0, NONE_WIDE
        bottom = top = frames[depth, F_TOP]
        for at in range(here, here_end):
            node = scratch[at]
            low |= below[node, 0]
            high |= below[node, 1]
            height = max(height, nodes[node, N_SPAN] & 0xFFFF)
            kind = (nodes[node, N_BYTE] >> 8) & 0xFF
            if wide == NONE_WIDE or kind == OTHER_WIDE or (kind == VALID_WIDE and wide != OTHER_WIDE):
                wide = kind
            for token in range(nodes[node, N_TOKENS], nodes[node, N_TOKENS_OWN]):
                joined_tokens[tokens] = token_ids[token]
                joined_lengths[tokens] = characters
                tokens += 1
            for below_it in range(nodes[node, N_KIDS], nodes[node, N_KIDS_END]):
                scratch[top] = below_it
                top += 1
        w[W_JOINED_TOKENS] = tokens
        joined_below[kid, 0], joined_below[kid, 1] = low, high
        joined[kid, N_BYTE] = byte | (wide << 8) | (characters << CHARACTERS_SHIFT)
        joined[kid, N_TOKENS_OWN] = joined[kid, N_TOKENS_ALL] = tokens
        joined[kid, N_ORDER] = kid
        joined[kid, N_SPAN] = ((depth + 1) << 16) | height
        joined[kid, N_KIDS] = joined[kid, N_KIDS_END] = w[W_JOINED]
        if top > bottom:
            joined[kid, N_KIDS_END] += _expanded(nodes, bytes_, joined, joined_bytes, scratch, w, bottom, top)
            depth += 1
            frames[depth, F_NODE] = kid
            frames[depth, F_KID], frames[depth, F_KIDS_END] = joined[kid, N_KIDS], joined[kid, N_KIDS_END]
            frames[depth, F_TOP] = 2 * top - bottom
    return root  # type: ignore[no-any-return]


@kernel
def join_exits(
    states: Int32, maps: UInt8, actions: Int64, nodes: Int32, bytes_: UInt8, below: UInt64, token_ids: Int32, locals_: Int32,
    exits: Int32, joined: Int32, joined_bytes: UInt8, joined_below: UInt64, joined_tokens: Int32, joined_lengths: Int32,
    scratch: Int32, frames: Int32, w: Int64, local: int,
) -> None:  # fmt: skip
    """Give a local row joined exits, L_JOINED to L_JOINED_END, if they can be joined and fit into the tables.

    Its large exits are left out.

    Args:
        joined, joined_bytes, joined_below, joined_tokens, joined_lengths: the merged tries, laid out like the trie itself.
        scratch: int32[4 * nodes + 257].
        frames: one for each byte of the longest token, and one more.
    """
    size = nodes.shape[0]
    if w[W_JOINED] + size + _MOST_GROUPS > joined.shape[0]:
        return
    if w[W_JOINED_TOKENS] + token_ids.shape[0] > joined_tokens.shape[0]:
        return
    count = grouped(
        states, maps, actions, nodes, bytes_, exits, scratch, w, locals_[local, L_EXITS], locals_[local, L_EXITS_END],
        locals_[local, L_LARGE], locals_[local, L_LARGE_END],
    )  # fmt: skip
    if count < 0:
        return
    found = scratch[4 * size]
    top = w[W_EXITS]
    for group in range(count):
        end = 2 * size
        for at in range(found):
            if scratch[size + at] == group:
                scratch[end] = scratch[at]
                end += 1
        exits[top + group, E_NODE] = merged(
            nodes, bytes_, below, token_ids, joined, joined_bytes, joined_below, joined_tokens, joined_lengths, scratch, frames,
            w, 2 * size, end,
        )  # fmt: skip
    w[W_EXITS] = top + count
    locals_[local, L_JOINED], locals_[local, L_JOINED_END] = top, top + count
    locals_[local, L_PREPARED] = 1
