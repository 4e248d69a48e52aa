"""States between the keys and values of an object whose declared properties come in their order, made without Python."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from constrained.kernels.handles import (
    T_ACTIONS,
    T_COUNTS,
    T_GAPS,
    T_MEMBERS,
    T_MEMO_USED,
    T_OBJECTS,
    T_ORIGINS,
    T_SPELLINGS,
    T_STATES,
    int32_rows,
    int64_items,
    uint8_items,
)
from constrained.kernels.jit import inlined, kernel
from constrained.kernels.machine import memo_put
from constrained.kernels.object_names import expand_names, names_at
from constrained.kernels.object_tables import (
    AFTER_COMMA,
    AFTER_KEY,
    AFTER_VALUE,
    AT_PLACE,
    B_COUNT,
    B_FIRST,
    B_FREE,
    B_GAP,
    B_MEMBERS,
    B_OTHERS,
    B_OUTCOME,
    B_STRING,
    BESIDE_STRING,
    CLOSE,
    CLOSE_COMMA,
    CLOSE_QUOTE,
    COLON,
    COMMA,
    FULL,
    G_COUNT,
    G_MAPS,
    G_MAY_END,
    G_MOVES,
    G_TO,
    IN_GAP,
    IN_NAMES,
    KEY_READ,
    MOST_GAPS,
    N_MEMBERS,
    N_OBJECTS,
    N_SPELLINGS,
    NO,
    NO_SYMBOL,
    O_FIRST,
    O_KIND,
    O_SECOND,
    P_AFTER_VALUE,
    P_ALIVE,
    P_LEFT,
    P_LENGTH,
    P_LITERAL,
    P_NEXT,
    P_OUTCOME,
    P_SORTED,
    P_VALUE,
    P_WORD,
    QUOTE,
    UNKNOWN,
    YES,
    new_actions,
    new_states,
)
from constrained.kernels.tables import (
    GOTO,
    KIND_SHIFT,
    OK,
    OUTCOME_BITS,
    POP_AFTER,
    POP_KEY,
    PUSH_AFTER,
    RETURN_SHIFT,
    S_ACTIONS,
    S_MAP,
    TABLES_FULL,
    UNKNOWN_MEMBER,
    UNKNOWN_POP,
    UNKNOWN_STATE,
    WAITS_BIT,
)
from constrained.kernels.walk_registers import W_DETAIL, W_OUTCOME

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt8 = NDArray[np.uint8]


@kernel
def add_object(
    handles: Int64, spellings: UInt8, lengths: Int64, outcomes: Int64, order: Int64, needed: Int64, about: Int64
) -> int:
    """Enter an object of n declared properties into the tables; its number, or FULL.

    Args:
        spellings: uint8, the names one after the other, each with its closing quote.
        lengths, outcomes, needed: int64[n], of each name its length, its outcome, and whether it is required.
        order: int64[n], the properties in the order of the bytes of their names.
        about: int64[2], the row of the whitespace, and the outcome that the object's frame is left with.
    """
    counts = int64_items(handles, T_COUNTS)
    objects, members, text = (
        int32_rows(handles, T_OBJECTS), int32_rows(handles, T_MEMBERS), uint8_items(handles, T_SPELLINGS),
    )  # fmt: skip
    origins = int32_rows(handles, T_ORIGINS)
    count = lengths.shape[0]
    holder, row, at = counts[N_OBJECTS], counts[N_MEMBERS], counts[N_SPELLINGS]
    if holder >= objects.shape[0] or row + count + 1 > members.shape[0] or at + spellings.shape[0] > text.shape[0]:
        return FULL
    first = new_states(handles, 4 * (count + 1))
    if first == FULL:
        return FULL
    for place in range(spellings.shape[0]):
        text[at + place] = spellings[place]
    following = count
    for index in range(count, -1, -1):
        member = row + index
        members[member, P_VALUE], members[member, P_LITERAL] = 0, 0
        members[member, P_ALIVE] = UNKNOWN
        for kind in range(3):
            members[member, P_AFTER_VALUE + kind] = 0
        if index < count and needed[index]:
            following = index
        members[member, P_NEXT] = following
        members[member, P_LEFT] = following < count
    for index in range(count):
        member = row + index
        members[member, P_WORD], members[member, P_LENGTH] = at, lengths[index]
        members[member, P_OUTCOME], members[member, P_SORTED] = outcomes[index], order[index]
        at += lengths[index]
    for offset in range(4 * (count + 1)):
        origins[first + offset, O_FIRST], origins[first + offset, O_SECOND] = holder, offset
        origins[first + offset, O_KIND] = AT_PLACE
    objects[holder, B_FIRST], objects[holder, B_COUNT], objects[holder, B_MEMBERS] = first, count, row
    objects[holder, B_GAP], objects[holder, B_OUTCOME] = about[0], about[1]
    objects[holder, B_STRING], objects[holder, B_OTHERS], objects[holder, B_FREE] = 0, UNKNOWN, NO
    counts[N_OBJECTS], counts[N_MEMBERS], counts[N_SPELLINGS] = holder + 1, row + count + 1, at
    return holder  # type: ignore[no-any-return]


@inlined
def _keys_at(objects: Int32, members: Int32, holder: int, place: int) -> int:
    """Whether a key may come at `place`: YES, NO, or UNKNOWN."""
    row = objects[holder, B_MEMBERS]
    found = NO
    for index in range(place, min(members[row + place, P_NEXT] + 1, objects[holder, B_COUNT])):
        if members[row + index, P_ALIVE] == UNKNOWN:
            return UNKNOWN
        if members[row + index, P_ALIVE] == YES:
            found = YES
    if members[row + place, P_LEFT]:
        return found
    if objects[holder, B_OTHERS] == UNKNOWN:
        return UNKNOWN
    return YES if objects[holder, B_OTHERS] == YES else found


@inlined
def _gap_state(handles: Int64, holder: int, offset: int, part: int) -> int:
    """The state at a place of which the row `part` of the whitespace is left; or FULL."""
    objects, members, origins = (
        int32_rows(handles, T_OBJECTS), int32_rows(handles, T_MEMBERS), int32_rows(handles, T_ORIGINS),
    )  # fmt: skip
    if part == 0:
        return objects[holder, B_FIRST] + offset  # type: ignore[no-any-return]
    width = objects[holder, B_COUNT] + 1
    kind, place = offset // width, offset % width
    row = objects[holder, B_MEMBERS] + place
    first = members[row, P_AFTER_VALUE + kind]
    if first == 0:
        count = int32_rows(handles, T_GAPS)[objects[holder, B_GAP], G_COUNT]
        first = new_states(handles, count - 1)
        if first == FULL:
            return FULL
        for rest in range(1, count):
            state = first + rest - 1
            origins[state, O_FIRST], origins[state, O_SECOND] = holder, offset * MOST_GAPS + rest
            origins[state, O_KIND] = IN_GAP
        members[row, P_AFTER_VALUE + kind] = first
    return first + part - 1  # type: ignore[no-any-return]


@kernel
def expand_place(handles: Int64, state: int, holder: int, offset: int, part: int, w: Int64) -> int:
    """Give the state at a place, or in the whitespace there, its transitions; a status."""
    states, actions = int32_rows(handles, T_STATES), int64_items(handles, T_ACTIONS)
    objects, members, gaps = (
        int32_rows(handles, T_OBJECTS), int32_rows(handles, T_MEMBERS), int32_rows(handles, T_GAPS),
    )  # fmt: skip
    width = np.int64(objects[holder, B_COUNT]) + 1
    kind, place = offset // width, offset % width
    first, row = np.int64(objects[holder, B_FIRST]), np.int64(objects[holder, B_MEMBERS]) + place
    gap = np.int64(objects[holder, B_GAP]) + part
    may_end = gaps[gap, G_MAY_END] != 0
    string, more = np.int64(0), NO
    if may_end and kind == AFTER_KEY:
        if members[row, P_VALUE] == 0:
            w[W_DETAIL], w[W_OUTCOME] = holder, 2 * place + 1
            return UNKNOWN_MEMBER
    elif may_end:
        more = _keys_at(objects, members, holder, place)
        if more == UNKNOWN:
            w[W_DETAIL], w[W_OUTCOME] = holder, 2 * place
            return UNKNOWN_MEMBER
        if not members[row, P_LEFT] and objects[holder, B_OTHERS] == YES:
            string = np.int64(objects[holder, B_STRING])
        if string > 0 and states[string, S_ACTIONS] < 0:
            w[W_DETAIL] = string
            return UNKNOWN_STATE
    moves = np.int64(gaps[gap, G_MOVES])
    block = new_actions(handles, moves + 3)
    if block == FULL:
        return TABLES_FULL
    actions[block] = 0
    for number in range(moves):
        to = _gap_state(handles, holder, offset, gaps[gap, G_TO + number])
        if to == FULL:
            return TABLES_FULL
        actions[block + 1 + number] = (GOTO << KIND_SHIFT) | np.int64(to)
    symbols, at = NO_SYMBOL, block + 1 + moves
    if may_end and kind == AFTER_KEY:
        symbols = COLON
        then = first + place + 1
        actions[at] = (np.int64(PUSH_AFTER) << KIND_SHIFT) | (then << RETURN_SHIFT) | np.int64(members[row, P_VALUE])
    elif may_end:
        closes = kind == AFTER_VALUE and not members[row, P_LEFT]
        if closes:
            symbols = CLOSE
            actions[at] = (POP_AFTER << KIND_SHIFT) | np.int64(objects[holder, B_OUTCOME])
            at += 1
        if kind == AFTER_VALUE and place > 0:
            if more == YES:
                symbols = CLOSE_COMMA if closes else COMMA
                actions[at] = (GOTO << KIND_SHIFT) | (first + AFTER_COMMA * width + place)
        elif more == YES or kind == AFTER_COMMA:
            symbols = CLOSE_QUOTE if closes else QUOTE
            start = np.int64(names_at(handles, holder, place, string if string > 0 else -1))
            if start == FULL:
                return TABLES_FULL
            action = (GOTO << KIND_SHIFT) | start
            if string > 0:
                then = first + KEY_READ * width + place
                action = (
                    (np.int64(PUSH_AFTER) << KIND_SHIFT) | (np.int64(1) << WAITS_BIT) | (then << RETURN_SHIFT) | start
                )
            actions[at] = action
    states[state, S_MAP] = gaps[gap, G_MAPS + symbols]
    states[state, S_ACTIONS] = block
    return OK


@kernel
def make_piece(handles: Int64, memo: Int64, w: Int64, status: int) -> int:
    """Make what `status` says is missing, the state or the pop in w[W_DETAIL], w[W_OUTCOME], if it belongs to an object here.

    Only by the thread that holds the machine's lock.

    Returns:
        OK; UNKNOWN_STATE or UNKNOWN_POP: it is for Python to make what w[W_DETAIL], w[W_OUTCOME] say, which may be something
        else now; UNKNOWN_MEMBER: of the object w[W_DETAIL], what w[W_OUTCOME] says has to be looked at (2 i: which keys may
        come at place i; 2 i + 1: the value of property i); TABLES_FULL.
    """
    state, outcome = w[W_DETAIL], w[W_OUTCOME]
    origins, used = int32_rows(handles, T_ORIGINS), int64_items(handles, T_MEMO_USED)
    if status == UNKNOWN_POP:
        if origins[state, O_KIND] != AT_PLACE or 2 * (used[0] + 1) > memo.shape[0]:
            return UNKNOWN_POP
        objects, members = int32_rows(handles, T_OBJECTS), int32_rows(handles, T_MEMBERS)
        holder = np.int64(origins[state, O_FIRST])
        width, row = np.int64(objects[holder, B_COUNT]) + 1, objects[holder, B_MEMBERS]
        place = origins[state, O_SECOND] - KEY_READ * width
        for index in range(place, min(members[row + place, P_NEXT] + 1, width - 1)):
            if members[row + index, P_OUTCOME] == outcome:
                memo_put(
                    memo,
                    POP_KEY | (np.int64(state) << OUTCOME_BITS) | outcome,
                    objects[holder, B_FIRST] + AFTER_KEY * width + index,
                )
                used[0] += 1
                return OK
        return UNKNOWN_POP
    kind, first, second = origins[state, O_KIND], np.int64(origins[state, O_FIRST]), np.int64(origins[state, O_SECOND])
    if kind == AT_PLACE:
        return expand_place(handles, state, first, second, 0, w)
    if kind == IN_GAP:
        return expand_place(handles, state, first, second // MOST_GAPS, second % MOST_GAPS, w)
    if kind == IN_NAMES or kind == BESIDE_STRING:
        return expand_names(handles, state, w)
    return UNKNOWN_STATE
