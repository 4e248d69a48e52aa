"""Open commas of objects, settled without Python: which state follows is looked up by the set of keys that have come.

Undeclared keys are forgotten until the next comma, where they are read from the text of the object (`OPEN_HERE`).  The
state that follows depends on the open state and on the set of keys; both together are hashed to 93 bits, by sums over the
keys of a polynomial hash each (Carter and Wegman 1979) made nonlinear.  The multipliers are drawn at random for each
machine, so that nobody can look for sets that collide.

The table is direct-mapped: int64[size + 2, 2], key and value, 0 where there is none.  A value holds the third hash beside the
state, so that a reader that meets a writer takes neither entry for the other; the two rows at the end hold the multipliers.
"""

from __future__ import annotations

import secrets

import numpy as np
from numpy.typing import NDArray

from constrained.kernels.jit import Bytes, inlined, kernel

Int64 = NDArray[np.int64]

PRIME = (1 << 31) - 1
SIZE = 1 << 14
ABSENT = -1
QUOTE, BACKSLASH, COMMA, OPEN_BRACKET, CLOSE_BRACKET, OPEN_BRACE, CLOSE_BRACE = b'"\\,[]{}'

K_BRACE, K_END, K_FIRST, K_SECOND, K_THIRD = range(11, 16)
"""Registers of a matcher, after those of `constrained.kernels.machine`, about the object read last: where in the text its
brace is (-1: none was read), the end of what has been read, and the hashes of its keys."""


def settled_table() -> Int64:
    """An empty table with multipliers of its own."""
    table: Int64 = np.zeros((SIZE + 2, 2), dtype=np.int64)
    table[SIZE:] = np.array([256 + secrets.randbelow(PRIME - 256) for _ in range(4)]).reshape(2, 2)
    return table


@inlined
def _mixed(value: int, multiplier: int) -> int:
    return (value * value % PRIME + multiplier) * value % PRIME  # type: ignore[no-any-return]


@inlined
def _past_string(text: Bytes, at: int, end: int) -> int:
    """The place after the string that begins at `at`."""
    at += 1
    while at < end and text[at] != QUOTE:
        at += 2 if text[at] == BACKSLASH else 1
    return at + 1


@inlined
def read_keys(text: Bytes, brace: int, end: int, table: Int64, k: Int64) -> None:
    """Bring `k` (int64[16], `K_*`) up to date with the object from text[brace] on; text[end - 1] is a comma of its own."""
    if k[K_BRACE] != brace or k[K_END] > end:
        k[K_BRACE], k[K_END] = brace, brace + 1
        k[K_FIRST] = k[K_SECOND] = k[K_THIRD] = 0
    at = k[K_END]
    while at < end:
        if text[at] != QUOTE:
            at += 1
            continue
        after = _past_string(text, at, end)
        first, second, third = np.int64(1), np.int64(1), np.int64(1)
        for place in range(at + 1, min(after, end)):
            byte = np.int64(text[place])
            first = (first * table[SIZE, 0] + byte) % PRIME
            second = (second * table[SIZE, 1] + byte) % PRIME
            third = (third * table[SIZE + 1, 0] + byte) % PRIME
        k[K_FIRST] = (k[K_FIRST] + _mixed(first, table[SIZE + 1, 1])) % PRIME
        k[K_SECOND] = (k[K_SECOND] + _mixed(second, table[SIZE + 1, 1])) % PRIME
        k[K_THIRD] = (k[K_THIRD] + _mixed(third, table[SIZE + 1, 1])) % PRIME
        at = after
        depth = 0
        while at < end:
            byte = np.int64(text[at])
            if byte == QUOTE:
                at = _past_string(text, at, end)
                continue
            at += 1
            if byte == COMMA and depth == 0:
                break
            if byte == OPEN_BRACKET or byte == OPEN_BRACE:
                depth += 1
            elif byte == CLOSE_BRACKET or byte == CLOSE_BRACE:
                depth -= 1
    k[K_END] = end


@inlined
def _place(table: Int64, state: int, k: Int64) -> tuple[int, int, int]:
    """Slot, key and the upper half of the value of an open state after the keys in `k`."""
    first = (k[K_FIRST] + _mixed(np.int64(state), table[SIZE, 0])) % PRIME
    second = (k[K_SECOND] + _mixed(np.int64(state), table[SIZE, 1])) % PRIME
    third = (k[K_THIRD] + _mixed(np.int64(state), table[SIZE + 1, 0])) % PRIME
    return first & (SIZE - 1), ((first << 31) | second) + 1, third << 32


@inlined
def brace_from(text: Bytes, mark: int, end: int) -> int:
    """Where the object begins of which the frame began at `mark`."""
    while mark < end and text[mark] != OPEN_BRACE:
        mark += 1
    return mark


@inlined
def settled_state(text: Bytes, mark: int, end: int, table: Int64, k: Int64, state: int) -> int:
    """The state that the open comma `state` stands for in text[mark:end], whose frame began at `mark`; ABSENT if not known."""
    read_keys(text, brace_from(text, mark, end), end, table, k)
    slot, key, check = _place(table, state, k)
    if table[slot, 0] != key:
        return ABSENT
    value = table[slot, 1]
    return (value & 0xFFFFFFFF) - 1 if value >> 32 == check >> 32 else ABSENT  # type: ignore[no-any-return]


@kernel
def keep_settled(text: Bytes, table: Int64, k: Int64, state: int, target: int) -> None:
    """Note that the open comma `state` stands for `target` (0: none) after `text`, from before its object up to the comma.

    Only one thread at a time; `k` is int64[16] and gets the keys.
    """
    k[K_BRACE] = -1
    end = text.shape[0]
    read_keys(text, brace_from(text, 0, end), end, table, k)
    slot, key, check = _place(table, state, k)
    table[slot, 0] = 0
    table[slot, 1] = check | (target + 1)
    table[slot, 0] = key
