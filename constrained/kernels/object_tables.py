"""Tables of objects whose declared properties come in their order, and the making of what their states need.

Objects    int32[n, 8]   one row an object, `B_*` columns
Members    int32[n, 12]  n + 1 rows for an object of n declared properties, `P_*` columns: of each property, and of each place
                         before a property (the last one is behind all of them)
Spellings  uint8[n]      the names, as they stand in the text after the opening quote
Gaps       int32[n, 13]  one row for each part of whitespace that may still come, `G_*` columns
Origins    int32[n, 3]   of each state that is made here what it is: a kind, `AT_PLACE` and so on, and two numbers
Records    int32[n, 6]   what the states inside names are about, `R_*` columns
Interned   int64[2^k, 2] hash table: a hash (0: empty slot) and a state or the number of a class map; what is found is compared

States of an object with n declared properties, 4(n + 1) of them, in blocks of n + 1: after the value before property i
(or after the brace, for 0), after the comma before it, after the key i, and the wait state of a key that may be one of
those from i on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from constrained.kernels.handles import (
    T_ACTIONS,
    T_COUNTS,
    T_INTERNED,
    T_MAPS,
    T_RECORDS,
    T_STATES,
    int32_rows,
    int64_items,
    int64_rows,
    uint8_items,
)
from constrained.kernels.jit import inlined, kernel
from constrained.kernels.tables import S_ACTIONS, S_BASE, S_LOCAL, S_MAP, S_ROW, S_SLACK, UNEXPANDED

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt8 = NDArray[np.uint8]

N_STATES, N_ACTIONS, N_MAPS, N_OBJECTS, N_MEMBERS, N_SPELLINGS, N_RECORDS, N_INTERNED = range(8)
COUNTS = 8
"""How much of the tables of a machine is used, int64[8]."""

B_FIRST, B_COUNT, B_MEMBERS, B_GAP, B_OUTCOME, B_STRING, B_OTHERS, B_FREE = range(8)
OBJECT_COLUMNS = 8
"""The first of the object's states, how many properties are declared, the first of its rows of members, the row of its
whitespace, what its frame is left with; the state after the quote of an undeclared key (0: there is none); whether
undeclared keys may come after all required ones (`UNKNOWN`: not looked at yet), and whether any text may be one."""

(
    P_WORD, P_LENGTH, P_OUTCOME, P_NEXT, P_LEFT, P_VALUE, P_ALIVE, P_SORTED, P_LITERAL, P_AFTER_VALUE, P_AFTER_COMMA, P_AFTER_KEY,
) = range(12)  # fmt: skip
MEMBER_COLUMNS = 12
"""Where the name is spelled, how long it is with its closing quote, the outcome of a key frame that read it; of a place: the
next required property, whether there is one; the state before the property's value (0: not made yet), whether it can have
one (`UNKNOWN`: not looked at yet); the property whose name is at this place in the order of their bytes; the states that
spell the name where nothing else may come; the states inside whitespace (0: none yet) after a value, a comma, a key."""
UNKNOWN, NO, YES = range(3)

G_COUNT, G_MOVES, G_MAY_END, G_TO = range(4)
MOST_MOVES = 3
G_MAPS = G_TO + MOST_MOVES
SYMBOLS = (b"", b":", b'"', b"}", b",", b"},", b'}"')
NO_SYMBOL, COLON, QUOTE, CLOSE, COMMA, CLOSE_COMMA, CLOSE_QUOTE = range(7)
GAP_COLUMNS = G_MAPS + len(SYMBOLS)
"""In the first row how many rows this whitespace has; of each row how many kinds of bytes may come, whether none need come, the
rows that follow, and the class maps of those kinds with each set of symbols after them."""

O_KIND, O_FIRST, O_SECOND = range(3)
ORIGIN_COLUMNS = 3
NOT_HERE, AT_PLACE, IN_GAP, IN_NAMES, BESIDE_STRING, IN_NAME, NAME_BESIDE = range(7)
"""Kinds of states: made elsewhere; at a place of an object (object, offset); in whitespace at such a place (object, offset of
the place times `MOST_GAPS` + row of the whitespace); in one of several names (record); in one of several names, or a string
beside them (record); in one name (record, offset); in one name or a string beside it (record, offset)."""
MOST_GAPS = 64

R_OBJECT, R_LOW, R_HIGH, R_DEPTH, R_PLACE, R_INSIDE = range(6)
RECORD_COLUMNS = 6
"""The names between two places in the order of bytes, as far as they may come at a place of the object (and, beside a string in
which any text may be a key, the others, which may not); how many bytes of them have been read; the state of the string
beside them (-1: there is none)."""

AFTER_VALUE, AFTER_COMMA, AFTER_KEY, KEY_READ = range(4)
"""The four blocks of states of an object."""

FULL = -1
"""What is made instead of a state, actions or a map where its table is full."""


@kernel
def new_states(handles: Int64, count: int) -> int:
    """The first of `count` consecutive new states, or FULL."""
    counts, states = int64_items(handles, T_COUNTS), int32_rows(handles, T_STATES)
    first = counts[N_STATES]
    if first + count > states.shape[0]:
        return FULL
    for state in range(first, first + count):
        states[state, S_ACTIONS] = UNEXPANDED
        states[state, S_MAP] = 0
        states[state, S_ROW] = -1
        states[state, S_LOCAL] = -1
        states[state, S_BASE] = -1
        states[state, S_SLACK] = 0
    counts[N_STATES] = first + count
    return first  # type: ignore[no-any-return]


@kernel
def new_actions(handles: Int64, count: int) -> int:
    """The first of `count` consecutive actions, or FULL."""
    counts, actions = int64_items(handles, T_COUNTS), int64_items(handles, T_ACTIONS)
    first = counts[N_ACTIONS]
    if first + count > actions.shape[0]:
        return FULL
    counts[N_ACTIONS] = first + count
    return first  # type: ignore[no-any-return]


@kernel
def new_record(handles: Int64, holder: int, low: int, high: int, depth: int, place: int, inside: int) -> int:
    """A record, or FULL."""
    counts, records = int64_items(handles, T_COUNTS), int32_rows(handles, T_RECORDS)
    record = counts[N_RECORDS]
    if record >= records.shape[0]:
        return FULL
    records[record, R_OBJECT] = holder
    records[record, R_LOW] = low
    records[record, R_HIGH] = high
    records[record, R_DEPTH] = depth
    records[record, R_PLACE] = place
    records[record, R_INSIDE] = inside
    counts[N_RECORDS] = record + 1
    return record  # type: ignore[no-any-return]


@inlined
def mixed(value: int, more: int) -> int:
    """A hash of 31 bits taken further."""
    return (np.int64(value) * 1_103_515_245 + np.int64(more) + 12_345) % 2_147_483_647  # type: ignore[return-value]


@inlined
def slot_of(interned: Int64, value: int) -> int:
    """Where to begin to look for a hash."""
    return (value * 0x45D9F3B >> 8) & (interned.shape[0] - 1)


@kernel
def intern(handles: Int64, value: int, found: int) -> None:
    """File `found` under a hash; a table that is half full is emptied first, since what it has can be made again."""
    counts, interned = int64_items(handles, T_COUNTS), int64_rows(handles, T_INTERNED)
    if 2 * counts[N_INTERNED] >= interned.shape[0]:
        for slot in range(interned.shape[0]):
            interned[slot, 0] = 0
        counts[N_INTERNED] = 0
    slot = slot_of(interned, value)
    while interned[slot, 0] != 0:
        slot = (slot + 1) & (interned.shape[0] - 1)
    interned[slot, 1] = found
    interned[slot, 0] = value + 1
    counts[N_INTERNED] += 1


@kernel
def map_like(handles: Int64, source: int, value: int) -> int:
    """The number of a class map that is like the one at maps[source:source + 256]; one of its own if `value`, a hash that equal
    ones share, finds none.  Or FULL.
    """
    counts, interned = int64_items(handles, T_COUNTS), int64_rows(handles, T_INTERNED)
    maps = uint8_items(handles, T_MAPS)
    slot = slot_of(interned, value)
    while interned[slot, 0] != 0:
        if interned[slot, 0] == value + 1:
            number = interned[slot, 1]
            same = True
            for byte in range(256):
                same = same and maps[number * 256 + byte] == maps[source + byte]
            if same:
                return number  # type: ignore[no-any-return]
        slot = (slot + 1) & (interned.shape[0] - 1)
    number = counts[N_MAPS]
    if (number + 2) * 256 > maps.shape[0]:  # the last one is for drafts
        return FULL
    for byte in range(256):
        maps[number * 256 + byte] = maps[source + byte]
    counts[N_MAPS] = number + 1
    intern(handles, value, number)
    return number  # type: ignore[no-any-return]
