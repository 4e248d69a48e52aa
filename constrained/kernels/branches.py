"""The token trie with siblings side by side, and what bytes its subtrees are made of."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from constrained.kernels.jit import inlined, making_kernel
from constrained.kernels.tables import (
    CHARACTERS_SHIFT,
    GOTO,
    KIND_SHIFT,
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
    S_ACTIONS,
    S_BASE,
    S_MAP,
    S_SLACK,
    SPACELESS_WIDE,
    T_BYTE_DEPTH,
    T_END,
    T_HEIGHT,
    T_TOKENS,
    VALID_WIDE,
    WIDE_SPACES,
)

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt8 = NDArray[np.uint8]
UInt64 = NDArray[np.uint64]

B_LOW, B_HIGH = range(2)
"""Columns of what ASCII characters there are, uint64[nodes, 2]: a bit for each of 0-63 and 64-127."""
L_LOW, L_HIGH, L_KNOWN = range(3)
"""Columns of the bytes that a state comes back to itself on, uint64[states, 3]: ASCII characters, and flags."""
LOOP_COLUMNS = 3
ASCII_KNOWN, ALL_WIDE, IS_STRING, NOT_KEPT, READS_KEYS, COUNTED, MOST_WIDE, SAME_WIDE = 1, 2, 4, 8, 16, 32, 64, 128
"""Flags of L_KNOWN: the bits are there; every character outside ASCII leads back to the state; the state is one inside a
string, whose local row may have been kept by an earlier process; it has been asked for and is not;
the state is an open comma (`object_keys`); the bits are those of characters of which any may follow, in any order, but no more
than the number from MOST_SHIFT on, whatever states they lead to; MOST_WIDE: ALL_WIDE holds of all but some of WIDE_SPACES;
SAME_WIDE: every character outside ASCII leads to the state and to no other."""
MOST_SHIFT, ANY_NUMBER = 16, 0xFFFF

_CONTINUES = np.zeros((8, 256), dtype=np.int8)
"""UTF-8 as an automaton (RFC 3629): 0 between characters, 1 to 3 that many bytes left, 4 to 7 after E0, ED, F0, F4; -1 none."""
_CONTINUES[:] = -1
_CONTINUES[0, 0x00:0x80] = 0
_CONTINUES[0, 0xC2:0xE0] = 1
_CONTINUES[0, 0xE1:0xF0] = 2
_CONTINUES[0, 0xE0], _CONTINUES[0, 0xED] = 4, 5
_CONTINUES[0, 0xF1:0xF4] = 3
_CONTINUES[0, 0xF0], _CONTINUES[0, 0xF4] = 6, 7
_CONTINUES[1, 0x80:0xC0] = 0
_CONTINUES[2, 0x80:0xC0] = 1
_CONTINUES[3, 0x80:0xC0] = 2
_CONTINUES[4, 0xA0:0xC0] = 1
_CONTINUES[5, 0x80:0xA0] = 1
_CONTINUES[6, 0x90:0xC0] = 2
_CONTINUES[7, 0x80:0x90] = 2

_SPACES = np.array(
    sorted(
        int.from_bytes(chr(character).encode(), "big")
        for low, high in WIDE_SPACES
        for character in range(low, high + 1)
    ),
    dtype=np.int64,
)
"""WIDE_SPACES in UTF-8, the bytes of each as one number."""


@making_kernel
def branch(trie: Int32, nodes: Int32, bytes_: UInt8, below: UInt64, lengths: Int32) -> None:
    """Lay `trie` (int32[n + 1, 4]) out with siblings side by side.

    Args:
        nodes: int32[n, 8], `N_*` columns.
        bytes_: uint8[n], the bytes on the edges into them.
        below: uint64[n, 2], zeros; the ASCII characters below each node, `B_*` columns.
        lengths: int32[tokens], how many characters begin in each token, in the order of the trie.
    """
    count = trie.shape[0] - 1
    path = np.zeros(1 << 16, dtype=np.int32)
    parents = np.zeros(count, dtype=np.int32)
    kids = np.zeros(count, dtype=np.int32)
    characters = np.zeros(count, dtype=np.int32)
    tails = np.zeros(count, dtype=np.int64)  # the last three bytes on the way
    for node in range(1, count):
        depth = trie[node, T_BYTE_DEPTH] >> 8
        parents[node] = path[depth - 1]
        path[depth] = node
        kids[parents[node]] += 1
        last = trie[node, T_BYTE_DEPTH] & 255
        if depth > 1:
            tails[node] = ((tails[parents[node]] & 0xFFFF) << 8) | last
        else:
            tails[node] = last
        characters[node] = characters[parents[node]] + (trie[node, T_BYTE_DEPTH] & 0xC0 != 0x80)
        for at in range(trie[node, T_TOKENS], trie[node + 1, T_TOKENS]):
            lengths[at] = characters[node]
    place = np.zeros(count, dtype=np.int32)
    free = np.zeros(count, dtype=np.int32)
    at = 1
    for node in range(count):
        free[node] = at
        at += kids[node]
    for node in range(1, count):
        place[node] = free[parents[node]]
        free[parents[node]] += 1
    valid = np.full(count, 255, dtype=np.uint8)  # the automaton's states from which all that is below is valid
    wide = np.zeros(count, dtype=np.uint8)
    spaces = np.zeros(count, dtype=np.uint8)
    for node in range(count - 1, -1, -1):
        byte = trie[node, T_BYTE_DEPTH] & 255
        here = place[node]
        kind = NONE_WIDE
        if wide[node]:
            kind = OTHER_WIDE
            if valid[node] & 1:
                kind = VALID_WIDE if spaces[node] else SPACELESS_WIDE
        nodes[here, N_BYTE] = byte | (kind << 8) | (characters[node] << CHARACTERS_SHIFT)
        nodes[here, N_KIDS] = free[node] - kids[node]
        nodes[here, N_KIDS_END] = free[node]
        nodes[here, N_TOKENS] = trie[node, T_TOKENS]
        nodes[here, N_TOKENS_OWN] = trie[node + 1, T_TOKENS]
        nodes[here, N_TOKENS_ALL] = trie[trie[node, T_END], T_TOKENS] if node else trie[count, T_TOKENS]
        nodes[here, N_ORDER] = node
        nodes[here, N_SPAN] = ((trie[node, T_BYTE_DEPTH] >> 8) << 16) | trie[node, T_HEIGHT]
        bytes_[here] = byte
        if node == 0:
            break
        parent = parents[node]
        above = place[parent]
        below[above, B_LOW] |= below[here, B_LOW]
        below[above, B_HIGH] |= below[here, B_HIGH]
        if byte < 64:
            below[above, B_LOW] |= np.uint64(1) << np.uint64(byte)
        elif byte < 128:
            below[above, B_HIGH] |= np.uint64(1) << np.uint64(byte - 64)
        if byte >= 128 or wide[node]:
            wide[parent] = 1
        if spaces[node]:
            spaces[parent] = 1
        elif byte >= 128:
            for space in _SPACES:
                if tails[node] == space or (space < 0x10000 and tails[node] & 0xFFFF == space):
                    spaces[parent] = 1
        before = 0
        for state in range(8):
            after = _CONTINUES[state, byte]
            if after >= 0 and (valid[node] >> after) & 1:
                before |= 1 << state
        valid[parent] &= np.uint8(before)


@inlined
def note_loops(states: Int32, maps: UInt8, actions: Int64, loops: UInt64, state: int, horizon: int) -> None:
    """Find the ASCII characters on which `state`, which is expanded, comes back to itself or to what rests on it."""
    low = np.uint64(0)
    high = np.uint64(0)
    block = states[state, S_ACTIONS]
    at = states[state, S_MAP] * 256
    for byte in range(128):
        group = maps[at + byte]
        if group == 0:
            continue
        action = actions[block + group]
        if action >> KIND_SHIFT != GOTO:
            continue
        after = action & OPERAND_MASK
        while after != state and states[after, S_BASE] >= 0 and states[after, S_SLACK] >= horizon - 1:
            after = states[after, S_BASE]
        if after == state:
            if byte < 64:
                low |= np.uint64(1) << np.uint64(byte)
            else:
                high |= np.uint64(1) << np.uint64(byte - 64)
    loops[state, L_LOW] = low
    loops[state, L_HIGH] = high
    loops[state, L_KNOWN] |= np.uint64(ASCII_KNOWN)


@inlined
def keeps(
    states: Int32, maps: UInt8, actions: Int64, loops: UInt64, nodes: Int32, below: UInt64, state: int, node: int, horizon: int
) -> int:  # fmt: skip
    """How many characters of the texts below `node` the state `state` lets pass; -1 if that is not all that there is to say.

    ANY_NUMBER where every text leads from the state back to itself (a sufficient test), or is let through whatever follows it.
    """
    if states[state, S_ACTIONS] < 0:
        return -1
    if loops[state, L_KNOWN] & np.uint64(ASCII_KNOWN) == np.uint64(0):
        note_loops(states, maps, actions, loops, state, horizon)
    strange = (below[node, B_LOW] & ~loops[state, L_LOW]) | (below[node, B_HIGH] & ~loops[state, L_HIGH])
    if strange != np.uint64(0):
        return -1
    known = np.int64(loops[state, L_KNOWN])
    wide = (nodes[node, N_BYTE] >> 8) & 0xFF
    if wide == OTHER_WIDE or (wide == VALID_WIDE and known & ALL_WIDE == 0):
        return -1
    if wide == SPACELESS_WIDE and known & (ALL_WIDE | MOST_WIDE) == 0:
        return -1
    return known >> MOST_SHIFT if known & COUNTED else ANY_NUMBER  # type: ignore[return-value]


@inlined
def longest_allowed(nodes: Int32, node: int, most: int) -> int:
    """How many characters may begin in a token below `node` if `most` may below the node; ANY_NUMBER if all tokens pass."""
    if most >= nodes[node, N_SPAN] & 0xFFFF:
        return ANY_NUMBER
    return most + (nodes[node, N_BYTE] >> CHARACTERS_SHIFT)  # type: ignore[no-any-return]
