"""Code point ranges as UTF-8 byte transitions (RFC 3629), one state for each way a character can be half read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from constrained.automata.machine import Machine
from constrained.automata.transitions import Transitions
from constrained.kernels.tables import goto
from grammars.memory import remembered
from grammars.regular import Rx

Pieces = tuple[tuple[int, int, int], ...]
"""Sorted disjoint (low, high, state): the numbers from low to high lead to the state."""


Ranges = tuple[tuple[int, int], ...]
_LENGTHS = ((0x80, 0x800, 64, 0xC0), (0x800, 0x10000, 4096, 0xE0), (0x10000, 0x110000, 262144, 0xF0))
"""For 2, 3 and 4 bytes: first code point, end, code points under one first byte, and the least first byte."""


class Spelling(NamedTuple):
    """How the characters of a set start in UTF-8.

    Attributes:
        ascii: ranges of the characters of one byte.
        leads: (first byte from, to, code points under it, which of them), for longer characters.
    """

    ascii: Ranges
    leads: tuple[tuple[int, int, int, Ranges], ...]


@remembered(4096)
def spelling(characters: Rx) -> Spelling:
    """The first bytes of the characters in a set (a node of kind CHARS)."""
    ascii_ranges: list[tuple[int, int]] = []
    wide: list[tuple[int, int, int]] = []
    for low, high in characters.a:
        if low < 0x80:
            ascii_ranges.append((low, min(high, 0x7F)))
        if high >= 0x80:
            wide.append((max(low, 0x80), high, 0))
    leads = []
    for start, stop, size, lead in _LENGTHS:
        inside = [(max(low, start), min(high, stop - 1), 0) for low, high, _ in wide if low < stop and high >= start]
        for first, last, rest in blocks(inside, size):
            leads.append((lead + first, lead + last, size, tuple((low, high) for low, high, _ in rest)))
    return Spelling(tuple(ascii_ranges), tuple(leads))


def add_characters(machine: Machine, made: Transitions, moves: Iterable[tuple[Rx, int]]) -> None:
    """Give `made` the edges that read one character longer than a byte, of disjoint sets that lead to states."""
    wide = []
    for characters, state in moves:
        leads = spelling(characters).leads
        if leads:
            wide.append((leads, state))
            key = (expand_led, characters, state, 0)
            led = machine.known(key)
            if led is None:
                led = machine.new_run(key, len(leads))
            for first, last, _, _ in leads:
                made.on(first, last, goto(led))
                led += 1
    if len(wide) > 1:
        _share_leads(machine, made, wide)


def _share_leads(
    machine: Machine, made: Transitions, wide: list[tuple[tuple[tuple[int, int, int, Ranges], ...], int]]
) -> None:
    """Edges for first bytes that characters of several sets begin with."""
    taken: dict[int, list[tuple[int, Ranges, int]]] = {}
    for leads, state in wide:
        for first, last, size, rest in leads:
            for lead in range(first, last + 1):
                taken.setdefault(lead, []).append((size, rest, state))
    for lead, shares in taken.items():
        if len(shares) > 1:
            pieces = sorted((low, high, state) for _, rest, state in shares for low, high in rest)
            made.on(lead, lead, goto(machine.state((expand_continuation, shares[0][0], tuple(pieces)))))


def expand_led(machine: Machine, characters: Rx, state: int, number: int) -> Transitions:
    """After the first byte of a character: one of those in `leads[number]` of the set, which lead to `state`."""
    _, _, size, rest = spelling(characters).leads[number]
    return expand_rest(machine, size, rest, state)


def expand_rest(machine: Machine, size: int, ranges: Ranges, state: int) -> Transitions:
    """A character of which bytes are read already; those in `ranges`, of `size` still possible, lead to `state`."""
    made = Transitions()
    for first, last, rest in _split(size, ranges):
        then = machine.state((expand_rest, size // 64, rest, state)) if rest else state
        made.on(0x80 + first, 0x80 + last, goto(then))
    return made


@remembered(4096)
def _split(size: int, ranges: Ranges) -> tuple[tuple[int, int, Ranges], ...]:
    if size == 64:
        return tuple((low, high, ()) for low, high in ranges)
    found = blocks([(low, high, 0) for low, high in ranges], size // 64)
    return tuple((first, last, tuple((low, high) for low, high, _ in rest)) for first, last, rest in found)


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
    for start, stop, size, lead in _LENGTHS:
        inside = [
            (max(low, start), min(high, stop - 1), state) for low, high, state in wide if low < stop and high >= start
        ]
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
    """Cut numbers into blocks of `size`: (first block, last block, what is inside each, counted from the block's start).

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
