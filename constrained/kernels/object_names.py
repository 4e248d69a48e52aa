"""States inside the names of an object: among several names, in one, alone or beside a string that reads undeclared keys."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from constrained.kernels.handles import (
    T_ACTIONS,
    T_COUNTS,
    T_INTERNED,
    T_MAPS,
    T_MEMBERS,
    T_OBJECTS,
    T_ORIGINS,
    T_RECORDS,
    T_SPELLINGS,
    T_STATES,
    int32_rows,
    int64_items,
    int64_rows,
    uint8_items,
)
from constrained.kernels.jit import inlined, kernel
from constrained.kernels.object_tables import (
    AFTER_KEY,
    B_COUNT,
    B_FIRST,
    B_FREE,
    B_MEMBERS,
    BESIDE_STRING,
    FULL,
    IN_NAME,
    IN_NAMES,
    N_STATES,
    NAME_BESIDE,
    O_FIRST,
    O_KIND,
    O_SECOND,
    P_ALIVE,
    P_LENGTH,
    P_LITERAL,
    P_NEXT,
    P_OUTCOME,
    P_SORTED,
    P_WORD,
    R_DEPTH,
    R_HIGH,
    R_INSIDE,
    R_LOW,
    R_OBJECT,
    R_PLACE,
    YES,
    intern,
    map_like,
    mixed,
    new_actions,
    new_record,
    new_states,
    slot_of,
)
from constrained.kernels.tables import (
    GOTO,
    KIND_SHIFT,
    OK,
    OPERAND_MASK,
    POP_AFTER,
    S_ACTIONS,
    S_BASE,
    S_MAP,
    TABLES_FULL,
    UNKNOWN_STATE,
)
from constrained.kernels.walk_registers import W_DETAIL

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt8 = NDArray[np.uint8]

OUT, OFFERED, BARRED = range(3)
"""Of a name in a record: it is not among those that are told apart, it may come, it may not come."""


@inlined
def part_of(members: Int32, row: int, free: int, place: int, inside: int, at: int) -> tuple[int, int]:
    """(property, OUT, OFFERED or BARRED) of the name at `at` in the order of bytes, where keys come at `place`.

    Args:
        row: the first of the object's rows of members.
        free: B_FREE of the object.
        inside: the string state beside the names, or -1.
    """
    index = members[row + at, P_SORTED]
    if place <= index <= members[row + place, P_NEXT] and members[row + index, P_ALIVE] == YES:
        return index, OFFERED
    return index, BARRED if inside >= 0 and free == YES else OUT


@inlined
def after_byte(states: Int32, maps: UInt8, actions: Int64, inside: int, byte: int) -> int:
    """The state after `byte` in the string state `inside`, which is expanded; 0 if there is none."""
    if inside <= 0:
        return 0
    group = maps[states[inside, S_MAP] * 256 + byte]
    action = actions[states[inside, S_ACTIONS] + group] if group else np.int64(0)
    return action & OPERAND_MASK if action >> KIND_SHIFT == GOTO else 0  # type: ignore[return-value]


@inlined
def string_map(states: Int32, maps: UInt8, inside: int, draft: int) -> int:
    """Draft a class map like that of the string state `inside` at maps[draft]; how many actions that state has."""
    start = states[max(inside, 0), S_MAP] * 256
    most = np.uint8(0)
    for byte in range(256):
        group = maps[start + byte] if inside > 0 else np.uint8(0)
        maps[draft + byte] = group
        most = max(most, group)
    return np.int64(most) + 1  # type: ignore[return-value]


@kernel
def literal_of(handles: Int64, holder: int, index: int) -> int:
    """The first of the states that spell the name of property `index` and lead to its colon, or FULL."""
    states, actions, members = (
        int32_rows(handles, T_STATES),
        int64_items(handles, T_ACTIONS),
        int32_rows(handles, T_MEMBERS),
    )
    objects, origins, spellings = (
        int32_rows(handles, T_OBJECTS), int32_rows(handles, T_ORIGINS), uint8_items(handles, T_SPELLINGS),
    )  # fmt: skip
    row = objects[holder, B_MEMBERS] + index
    if members[row, P_LITERAL] > 0:
        return members[row, P_LITERAL]  # type: ignore[no-any-return]
    length, word = np.int64(members[row, P_LENGTH]), np.int64(members[row, P_WORD])
    first, block = new_states(handles, length), new_actions(handles, 2 * length)
    record = new_record(handles, holder, index, index, 0, 0, -1)
    if first == FULL or block == FULL or record == FULL:
        return FULL
    then = objects[holder, B_FIRST] + AFTER_KEY * (objects[holder, B_COUNT] + 1) + index
    for at in range(length):
        state = first + at
        origins[state, O_FIRST], origins[state, O_SECOND], origins[state, O_KIND] = record, at, IN_NAME
        actions[block + 2 * at] = 0
        actions[block + 2 * at + 1] = (GOTO << KIND_SHIFT) | np.int64(state + 1 if at + 1 < length else then)
        states[state, S_MAP] = spellings[word + at]  # the first 256 class maps have one byte each
        states[state, S_ACTIONS] = block + 2 * at
    members[row, P_LITERAL] = first
    return first


@kernel
def known_names(
    handles: Int64, value: int, kind: int, holder: int, low: int, high: int, depth: int, place: int, inside: int
) -> int:
    """The state of this `kind` that is about the same rests of names, told apart from the same string, with the same ones
    barred, and filed under the hash `value`; 0 if there is none.
    """
    interned, origins, records = (
        int64_rows(handles, T_INTERNED), int32_rows(handles, T_ORIGINS), int32_rows(handles, T_RECORDS),
    )  # fmt: skip
    objects, members = int32_rows(handles, T_OBJECTS), int32_rows(handles, T_MEMBERS)
    used = int64_items(handles, T_COUNTS)[N_STATES]
    row, free = objects[holder, B_MEMBERS], objects[holder, B_FREE]
    slot = slot_of(interned, value)
    while interned[slot, 0] != 0:
        state = interned[slot, 1]
        if interned[slot, 0] == value + 1 and state < used and origins[state, O_KIND] == kind:
            record = origins[state, O_FIRST]
            other, other_place = records[record, R_OBJECT], records[record, R_PLACE]
            other_row, other_free = objects[other, B_MEMBERS], objects[other, B_FREE]
            there, end = np.int64(records[record, R_LOW]), np.int64(records[record, R_HIGH])
            at = np.int64(low)
            same = records[record, R_DEPTH] == depth and records[record, R_INSIDE] == inside
            same = same and (inside >= 0 or other == holder)
            while same:
                index, part, index_there, part_there = np.int64(0), OUT, np.int64(0), OUT
                while at < high and part == OUT:
                    index, part = part_of(members, row, free, place, inside, at)
                    at += 1
                while there < end and part_there == OUT:
                    index_there, part_there = part_of(members, other_row, other_free, other_place, inside, there)
                    there += 1
                if part == OUT and part_there == OUT:
                    return state  # type: ignore[no-any-return]
                same = (
                    part == part_there
                    and members[row + index, P_OUTCOME] == members[other_row + index_there, P_OUTCOME]
                )
        slot = (slot + 1) & (interned.shape[0] - 1)
    return 0


@kernel
def run_beside(handles: Int64, holder: int, at: int, depth: int, place: int, inside: int) -> int:
    """States for the rest of the one name at `at` beside the string state `inside`, if that comes back to itself on all bytes
    but the closing quote; the first of them, 0 if it does not, or FULL.
    """
    states, actions, maps = int32_rows(handles, T_STATES), int64_items(handles, T_ACTIONS), uint8_items(handles, T_MAPS)
    objects, members, origins = (
        int32_rows(handles, T_OBJECTS), int32_rows(handles, T_MEMBERS), int32_rows(handles, T_ORIGINS),
    )  # fmt: skip
    spellings = uint8_items(handles, T_SPELLINGS)
    row = objects[holder, B_MEMBERS]
    index, part = part_of(members, row, objects[holder, B_FREE], place, inside, at)
    word, length = members[row + index, P_WORD] + depth, np.int64(members[row + index, P_LENGTH]) - depth
    for step in range(length - 1):
        if after_byte(states, maps, actions, inside, spellings[word + step]) != inside:
            return 0
    draft = maps.shape[0] - 256
    width = string_map(states, maps, inside, draft)
    first, block = new_states(handles, length), new_actions(handles, length * (width + 1))
    record = new_record(handles, holder, at, at + 1, depth, place, inside)
    if first == FULL or block == FULL or record == FULL:
        return FULL
    source, base = np.int64(states[inside, S_ACTIONS]), np.int64(states[inside, S_BASE])
    for step in range(length):
        state, start, byte = first + step, block + step * (width + 1), np.int64(spellings[word + step])
        barred = step == length - 1 and part == BARRED
        before = maps[draft + byte]
        maps[draft + byte] = np.uint8(0) if barred else np.uint8(width)
        number = map_like(handles, draft, mixed(mixed(states[inside, S_MAP], byte), 1 if barred else 0))
        maps[draft + byte] = before
        if number == FULL:
            return FULL
        for group in range(width):
            actions[start + group] = actions[source + group]
        if step < length - 1:
            actions[start + width] = (GOTO << KIND_SHIFT) | np.int64(state + 1)
        else:
            actions[start + width] = (POP_AFTER << KIND_SHIFT) | np.int64(members[row + index, P_OUTCOME])
        origins[state, O_FIRST], origins[state, O_SECOND], origins[state, O_KIND] = record, step, NAME_BESIDE
        states[state, S_BASE] = base if base >= 0 else inside
        states[state, S_MAP] = number
        states[state, S_ACTIONS] = start
    return first


@kernel
def among(
    handles: Int64, holder: int, low: int, high: int, depth: int, place: int, inside: int, count: int, value: int
) -> int:
    """The state in those of the names from `low` to `high` that are told apart at `place`, `count` of them, of which `depth`
    bytes have been read; or FULL.

    Args:
        inside: the string state beside them, expanded; 0: nothing but they may come, in a frame of their own; -1: no frame.
        value: a hash of the names.
    """
    if count == 0:
        return max(inside, 0)
    kind = BESIDE_STRING if inside >= 0 else IN_NAMES
    if count == 1:
        objects, members = int32_rows(handles, T_OBJECTS), int32_rows(handles, T_MEMBERS)
        at, part, index = np.int64(low), OUT, np.int64(0)
        while part == OUT:
            index, part = part_of(members, objects[holder, B_MEMBERS], objects[holder, B_FREE], place, inside, at)
            at += 1
        low, high = at - 1, at
        if inside < 0:
            first = literal_of(handles, holder, index)
            return first + depth if first != FULL else FULL
        if inside > 0:
            kind = NAME_BESIDE
    value = mixed(mixed(mixed(value, kind), depth), max(inside, 0))
    state = known_names(handles, value, kind, holder, low, high, depth, place, inside)
    if state == 0 and kind == NAME_BESIDE:
        state = run_beside(handles, holder, low, depth, place, inside)
        if state == 0:
            kind = BESIDE_STRING
            value = mixed(value, kind)
            state = known_names(handles, value, kind, holder, low, high, depth, place, inside)
        elif state != FULL:
            intern(handles, value, state)
    if state == 0:
        state = new_states(handles, 1)
        record = new_record(handles, holder, low, high, depth, place, inside)
        if state == FULL or record == FULL:
            return FULL
        origins, states = int32_rows(handles, T_ORIGINS), int32_rows(handles, T_STATES)
        origins[state, O_FIRST], origins[state, O_SECOND], origins[state, O_KIND] = record, 0, kind
        if inside > 0:
            states[state, S_BASE] = states[inside, S_BASE] if states[inside, S_BASE] >= 0 else inside
        intern(handles, value, state)
    return state  # type: ignore[no-any-return]


@kernel
def names_at(handles: Int64, holder: int, place: int, inside: int) -> int:
    """The state before a key at `place`: one of the names, or, if `inside` is not -1, whatever that string state reads; or FULL."""
    objects, members = int32_rows(handles, T_OBJECTS), int32_rows(handles, T_MEMBERS)
    row, free, count = objects[holder, B_MEMBERS], objects[holder, B_FREE], np.int64(objects[holder, B_COUNT])
    found, value = 0, np.int64(0)
    for at in range(count):
        index, part = part_of(members, row, free, place, inside, at)
        if part != OUT:
            found += 1
            value = mixed(value, 2 * members[row + index, P_OUTCOME] + part)
    return among(handles, holder, 0, count, 0, place, inside, found, value)  # type: ignore[no-any-return]


@kernel
def expand_names(handles: Int64, state: int, w: Int64) -> int:
    """Give `state`, which stands in several names or in one beside a string that changes, its transitions; a status."""
    states, actions, maps = int32_rows(handles, T_STATES), int64_items(handles, T_ACTIONS), uint8_items(handles, T_MAPS)
    objects, members, records = (
        int32_rows(handles, T_OBJECTS), int32_rows(handles, T_MEMBERS), int32_rows(handles, T_RECORDS),
    )  # fmt: skip
    spellings = uint8_items(handles, T_SPELLINGS)
    record = int32_rows(handles, T_ORIGINS)[state, O_FIRST]
    holder, depth, place = (
        np.int64(records[record, R_OBJECT]), np.int64(records[record, R_DEPTH]), np.int64(records[record, R_PLACE]),
    )  # fmt: skip
    low, high, inside = (
        np.int64(records[record, R_LOW]), np.int64(records[record, R_HIGH]), np.int64(records[record, R_INSIDE]),
    )  # fmt: skip
    row, free = np.int64(objects[holder, B_MEMBERS]), objects[holder, B_FREE]
    if inside > 0 and states[inside, S_ACTIONS] < 0:
        w[W_DETAIL] = inside
        return UNKNOWN_STATE
    # how many names go on with each byte, and what is missing before anything is made
    ways, last = np.int64(0), -1
    for at in range(low, high):
        index, part = part_of(members, row, free, place, inside, at)
        if part == OUT:
            continue
        byte = np.int64(spellings[members[row + index, P_WORD] + depth])
        if byte != last:
            ways += 1
            last = byte
            then = after_byte(states, maps, actions, inside, byte)
            if then > 0 and states[then, S_ACTIONS] < 0 and members[row + index, P_LENGTH] > depth + 1:
                w[W_DETAIL] = then
                return UNKNOWN_STATE
    draft = maps.shape[0] - 256
    width = string_map(states, maps, inside, draft)
    block = new_actions(handles, width + ways)
    if block == FULL:
        return TABLES_FULL
    source = np.int64(states[inside, S_ACTIONS]) if inside > 0 else np.int64(0)
    for group in range(width):
        actions[block + group] = actions[source + group] if inside > 0 else 0
    value, way, at = mixed(7, states[inside, S_MAP] if inside > 0 else 0), width, low
    while at < high:
        index, part = part_of(members, row, free, place, inside, at)
        if part == OUT:
            at += 1
            continue
        byte = np.int64(spellings[members[row + index, P_WORD] + depth])
        ends = members[row + index, P_LENGTH] == depth + 1
        first, one, its_part, found, names = at, index, part, np.int64(0), np.int64(0)
        while at < high:  # all that go on with the same byte
            index, part = part_of(members, row, free, place, inside, at)
            if part != OUT:
                if spellings[members[row + index, P_WORD] + depth] != byte:
                    break
                found += 1
                names = mixed(names, 2 * members[row + index, P_OUTCOME] + part)
            at += 1
        action = np.int64(0)
        if not ends:
            then = after_byte(states, maps, actions, inside, byte) if inside >= 0 else -1
            after = among(handles, holder, first, at, depth + 1, place, then, found, names)
            if after == FULL:
                return TABLES_FULL
            action = (GOTO << KIND_SHIFT) | np.int64(after)
        elif inside < 0:
            after = objects[holder, B_FIRST] + AFTER_KEY * (objects[holder, B_COUNT] + 1) + one
            action = (GOTO << KIND_SHIFT) | np.int64(after)
        elif its_part == OFFERED:
            action = (POP_AFTER << KIND_SHIFT) | np.int64(members[row + one, P_OUTCOME])
        actions[block + way] = action
        value = mixed(value, 2 * byte + (action == 0))
        way += 1
    # what was made for the states after it has used the draft, so this one's map is drafted last
    string_map(states, maps, inside, draft)
    way, last = width, -1
    for at in range(low, high):
        index, part = part_of(members, row, free, place, inside, at)
        byte = np.int64(spellings[members[row + index, P_WORD] + depth])
        if part != OUT and byte != last:
            maps[draft + byte] = np.uint8(0) if actions[block + way] == 0 else np.uint8(way)
            way += 1
            last = byte
    number = map_like(handles, draft, value)
    if number == FULL:
        return TABLES_FULL
    states[state, S_MAP] = number
    states[state, S_ACTIONS] = block
    return OK
