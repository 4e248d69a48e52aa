"""Code point ranges as UTF-8 byte transitions (RFC 3629), one state for each way a character can be half read."""

from __future__ import annotations

from collections.abc import Iterable

from constrained.automata.machine import Machine
from constrained.automata.transitions import Transitions
from constrained.kernels.tables import goto

Pieces = tuple[tuple[int, int, int], ...]
"""Sorted disjoint (low, high, state): the numbers from low to high lead to the state."""


def add_code_points(machine: Machine, made: Transitions, pieces: Iterable[tuple[int, int, int]]) -> None:
    """Give `made` the edges that read one character of `pieces`, as UTF-8."""
    wide: list[tuple[int, int, int]] = []
    for low, high, state in pieces:
        if low < 0x80:
            made.on(low, min(high, 0x7F), goto(state))
        if high >= 0x80:
            wide.append((max(low, 0x80), high, state))
    if not wide:
        return
    for start, stop, size, lead in ((0x80, 0x800, 64, 0xC0), (0x800, 0x10000, 4096, 0xE0), (0x10000, 0x110000, 262144, 0xF0)):
        inside = [(max(low, start), min(high, stop - 1), state) for low, high, state in wide if low < stop and high >= start]
        for first, last, rest in blocks(inside, size):
            made.on(lead + first, lead + last, goto(machine.state((expand_continuation, size, rest))))


def expand_continuation(machine: Machine, size: int, pieces: Pieces) -> Transitions:
    """A character of which bytes are read already; `size` code points are still possible, numbered from 0."""
    made = Transitions()
    if size == 64:
        for low, high, state in pieces:
            made.on(0x80 + low, 0x80 + high, goto(state))
        return made
    for first, last, rest in blocks(pieces, size // 64):
        made.on(0x80 + first, 0x80 + last, goto(machine.state((expand_continuation, size // 64, rest))))
    return made


def blocks(pieces: Iterable[tuple[int, int, int]], size: int) -> list[tuple[int, int, Pieces]]:
    """Cut numbers into blocks of `size`: (first block, last block, what is inside each, numbered from the block's start).

    Neighbouring blocks with the same inside come as one.
    """
    inside: dict[int, list[tuple[int, int, int]]] = {}
    runs: list[tuple[int, int, Pieces]] = []
    for low, high, state in pieces:
        first, last = low // size, high // size
        if first == last:
            inside.setdefault(first, []).append((low % size, high % size, state))
            continue
        if low % size:
            inside.setdefault(first, []).append((low % size, size - 1, state))
            first += 1
        if (high + 1) % size:
            inside.setdefault(last, []).append((0, high % size, state))
            last -= 1
        if first <= last:
            runs.append((first, last, ((0, size - 1, state),)))
    runs += [(block, block, tuple(rest)) for block, rest in inside.items()]
    runs.sort()
    merged: list[tuple[int, int, Pieces]] = []
    for first, last, rest in runs:
        if merged and merged[-1][2] == rest and merged[-1][1] + 1 == first:
            merged[-1] = (merged[-1][0], last, rest)
        else:
            merged.append((first, last, rest))
    return merged
