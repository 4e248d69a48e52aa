"""The strings of a language that take the fewest bytes as JSON."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator

from grammars import regular
from grammars.effort import spend
from grammars.errors import LimitExceeded
from grammars.regular import NONE, Rx

MAX_STATES = 20_000

# Code points that stand for themselves in one byte; then classes by bytes, each with its ranges.
_PLAIN = ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x7F))
_CLASSES = (
    (1, _PLAIN),
    (2, ((0x08, 0x0A), (0x0C, 0x0D), (0x22, 0x22), (0x5C, 0x5C), (0x80, 0x7FF))),
    (3, ((0x800, 0xD7FF), (0xE000, 0xFFFF))),
    (4, ((0x10000, 0x10FFFF),)),
    (6, ((0x00, 0x07), (0x0B, 0x0B), (0x0E, 0x1F))),
)
_PLAIN_TEXT = regular.repeat(regular.chars(_PLAIN), 0, None)


def quoted(text: str) -> str:
    """The shortest JSON string for a text: escapes where they are needed and nowhere else."""
    return json.dumps(text, ensure_ascii=False)


def cheapest_string(rx: Rx) -> str:
    """A word of a non-empty language whose JSON string has the fewest bytes."""
    if rx.nullable:
        return ""
    length = regular.shortest_length(rx)
    plain = regular.shortest(_meet(rx))
    if plain is not None and len(plain) == length:
        return plain  # a byte for a code point: nothing is shorter
    return _dijkstra(rx)


def _meet(rx: Rx) -> Rx:
    first = regular.shortest(rx)
    if first is not None and all(_price(ord(char)) == 1 for char in first):
        return regular.literal(first)
    both = regular.intersect(rx, _PLAIN_TEXT)
    return NONE if regular.is_empty(both) else both


def cheapest_strings(rx: Rx, most: int) -> Iterator[str]:
    """Different words, cheap ones first; at most `most`."""
    while most > 0 and not regular.is_empty(rx):
        word = cheapest_string(rx)
        yield word
        most -= 1
        rx = regular.difference(rx, regular.literal(word))


def _price(point: int) -> int:
    return next(price for price, ranges in _CLASSES if any(low <= point <= high for low, high in ranges))


def _cheapest_point(low: int, high: int) -> tuple[int, int]:
    """Bytes and code point of the cheapest one in a range."""
    for price, ranges in _CLASSES:
        for first, last in ranges:
            if first <= high and low <= last:
                return price, max(first, low)
    raise AssertionError("every scalar value is in a class")


def _dijkstra(rx: Rx) -> str:
    best = {rx: 0}
    came: dict[Rx, tuple[Rx, int]] = {}
    heap = [(0, 0, rx)]
    serial = 0
    while heap:
        cost, _, state = heapq.heappop(heap)
        if cost > best[state]:
            continue
        if state.nullable:
            points: list[int] = []
            while state is not rx:  # the start is cheapest itself: nothing ever leads back to it
                state, point = came[state]
                points.append(point)
            return "".join(map(chr, reversed(points)))
        spend()
        for low, high, target in regular.derivatives(state):
            price, point = _cheapest_point(low, high)
            total = cost + price
            if total < best.get(target, total + 1):
                best[target] = total
                came[target] = (state, point)
                serial += 1
                heapq.heappush(heap, (total, serial, target))
        if len(best) > MAX_STATES:
            raise LimitExceeded(f"more than {MAX_STATES} states on the way to the shortest string")
    raise AssertionError("an empty language has no cheapest word")
