"""How far apart the lengths of a language's words are: decides most conditions on length without a search."""

from __future__ import annotations

from itertools import pairwise

from grammars.regular.rx import CONCAT, EXACT, REPEAT, UNION, WORDS, Rx
from grammars.regular.words import SMALL, count, listed

UNKNOWN = 1 << 40
"""The gap of a language about which nothing is known."""


def length_gap(rx: Rx) -> int:
    """A bound on the distance between neighbouring word lengths; at most 1 if every length from low to high occurs.

    Memoised; `UNKNOWN` for intersections, complements and large word lists.
    """
    stack = [rx]
    while stack:
        node = stack[-1]
        if node._gap is not None:
            stack.pop()
            continue
        parts = _parts(node)
        waiting = [part for part in parts if part._gap is None]
        if waiting:
            stack.extend(waiting)
            continue
        stack.pop()
        node._gap = _gap(node, parts) if node.flags & EXACT else UNKNOWN
    assert rx._gap is not None
    return rx._gap


def _parts(rx: Rx) -> tuple[Rx, ...]:
    if not rx.flags & EXACT:
        return ()
    if rx.kind == CONCAT:
        return (rx.a, rx.b)
    if rx.kind == UNION:
        children: tuple[Rx, ...] = rx.a
        return children
    return (rx.a,) if rx.kind == REPEAT else ()


def _gap(rx: Rx, parts: tuple[Rx, ...]) -> int:
    gaps = [part._gap or 0 for part in parts]
    if rx.kind == CONCAT:
        return _gap_of_sum(rx.a, gaps[0], rx.b, gaps[1])
    if rx.kind == UNION:
        spans = sorted(((part.low, part.high) for part in parts), key=lambda span: span[0])
        gap = max(gaps)
        reached: int | None = spans[0][1]
        for low, high in spans:
            if reached is None:
                break
            gap = max(gap, low - reached)
            reached = None if high is None else max(reached, high)
        return gap
    if rx.kind == REPEAT:
        body, least = rx.a, rx.least
        if least == rx.most:
            return gaps[0]
        # From `least` turns to one more; between later numbers of turns the distance only shrinks.
        if least == 0:
            between = body.low if body.high is None else max(body.low, 2 * body.low - body.high)
        else:
            between = 0 if body.high is None else (least + 1) * body.low - least * body.high
        return int(max(1, gaps[0], between))
    if rx.kind == WORDS:
        if count(rx) > SMALL:
            return UNKNOWN
        lengths = sorted({len(word) for word in listed(rx)})
        return max((later - one for one, later in pairwise(lengths)), default=0)
    return 0


def _gap_of_sum(left: Rx, left_gap: int, right: Rx, right_gap: int) -> int:
    """Of sums of one length from each: a run without gaps fills gaps of the other that are no longer than itself."""
    if left_gap > 1 and right_gap > 1:
        return max(left_gap, right_gap)
    runs, other_gap = (left, right_gap) if left_gap <= 1 else (right, left_gap)
    return 1 if runs.high is None else max(1, other_gap - (runs.high - runs.low))
