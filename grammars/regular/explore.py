"""Questions that need a walk over the derivatives: emptiness, shortest words, enumeration."""

from __future__ import annotations

import heapq

from grammars.effort import bounded
from grammars.errors import LimitExceeded
from grammars.regular.booleans import difference
from grammars.regular.charset import ANY, sample
from grammars.regular.derive import moves, raw_moves
from grammars.regular.endless import is_endless, less_length
from grammars.regular.lengths import length_gap
from grammars.regular.outlines import around, has_outline, within
from grammars.regular.rx import (
    BOOLEAN,
    COMPLEMENT,
    CONCAT,
    EXACT,
    INTERSECT,
    LITERAL,
    NONE,
    REPEAT,
    UNFOLD,
    UNION,
    WORDS,
    Rx,
)
from grammars.regular.words import listed

STATE_LIMIT = 10_000
"""States that one question may visit before it gives up with LimitExceeded."""

STEP_LIMIT = 100_000
"""Moves that have to be worked out for one question, those of all operands counted: about a second."""


def is_empty(rx: Rx) -> bool:
    """Whether the language has no word at all.

    Constant time without intersections and complements; with them, a search for a shortest word that is remembered
    for every state on the way.

    Raises:
        LimitExceeded: if the search visits more than `STATE_LIMIT` states.
    """
    known = _known_empty(rx)
    if known is None:
        known = _by_outline(rx) if has_outline(rx) else None
        if known is None:
            if rx._endless is None and _is_long(rx):
                return False
            _search(rx)
            known = rx._empty
            assert known is not None
        rx._empty = known
    return known


def _by_outline(rx: Rx) -> bool | None:
    """Whether the language is empty, where its outlines tell."""
    if is_empty(around(rx)):
        return True
    try:
        return None if is_empty(within(rx)) else False
    except LimitExceeded:
        return None


def _is_long(rx: Rx) -> bool:
    """Whether a language asks for long words, and there are words of any length without that."""
    shorter = less_length(rx)
    if shorter is None:
        return False
    with bounded(STEP_LIMIT, refusal="a regular expression takes too many steps to be told from nothing"):
        rx._endless = is_endless(shorter)
    if rx._endless:
        rx._empty = False
    return rx._endless


def _known_empty(rx: Rx) -> bool | None:
    if rx._empty is not None:
        return rx._empty
    if rx is NONE:
        return True
    if rx.nullable or not rx.flags & BOOLEAN:
        rx._empty = False
        return False
    empty: bool | None = None
    kind = rx.kind
    if kind == CONCAT:
        head, tail = _known_empty(rx.a), _known_empty(rx.b)
        empty = True if head or tail else False if head is False and tail is False else None
    elif kind == UNION:
        known = [_known_empty(child) for child in rx.a]
        empty = False if False in known else True if all(known) else None
    elif kind == REPEAT:
        empty = _known_empty(rx.a)
    elif kind == COMPLEMENT:
        # The complement of a finite language always has words.
        empty = False if rx.a.high is not None else None
    elif kind == INTERSECT and len(rx.a) == 2:
        empty = _known_by_length(rx.a[0], rx.a[1])
    if empty is not None:
        rx._empty = empty
    return empty


def _known_by_length(left: Rx, right: Rx) -> bool | None:
    span = _common_lengths(left, right)
    return None if span is None else span[1] is not None and span[0] > span[1]


def _common_lengths(left: Rx, right: Rx) -> tuple[int, int | None] | None:
    """The lengths in a condition on the length alone and a language that has all lengths between its bounds."""
    if not (left.kind == REPEAT and left.a is ANY):
        left, right = right, left
    if not (left.kind == REPEAT and left.a is ANY):
        return None
    if not right.flags & EXACT or length_gap(right) > 1:
        return None
    highs = [high for high in (left.high, right.high) if high is not None]
    return max(left.low, right.low), min(highs, default=None)


def _search(start: Rx) -> str | None:
    """A shortest word by A* with the lower bounds of the nodes, or `None`; marks what it learnt about emptiness."""
    with bounded(STEP_LIMIT, refusal="a regular expression takes too many steps to be told from nothing"):
        return _shortest_path(start)


def _shortest_path(start: Rx) -> str | None:
    parents: dict[Rx, tuple[Rx, Rx] | None] = {start: None}
    depths: dict[Rx, int] = {start: 0}
    heap: list[tuple[int, int, int, Rx]] = [(0, 0, 0, start)]
    number = 0
    done: set[Rx] = set()
    outlined = has_outline(start)
    while heap:
        _, minus_depth, _, node = heapq.heappop(heap)
        if depths[node] < -minus_depth:
            continue
        done.add(node)
        if node.nullable:
            return _mark_path(node, parents)
        depth = depths[node] + 1
        if len(done) > STATE_LIMIT:
            raise LimitExceeded(f"a regular expression needs more than {STATE_LIMIT} states to be told from nothing")
        for chars, target in raw_moves(node):
            if target._empty or (target in depths and depths[target] <= depth):
                continue
            if outlined and has_outline(target) and is_empty(around(target)):
                target._empty = True
                continue
            depths[target] = depth
            parents[target] = (node, chars)
            number += 1
            heapq.heappush(heap, (depth + _least(target), -depth, number, target))
    for node in done:
        node._empty = True
    return None


def _least(rx: Rx) -> int:
    """A lower bound on the length of words, the best that is known without a search."""
    if rx.nullable:
        return 0
    if rx.kind == UNFOLD:
        bound: int = rx.a.nearest[0]
        return max(rx.low, bound)
    if rx.kind == UNION:
        return min(map(_least, rx.a))
    return max(map(_least, rx.a)) if rx.kind == INTERSECT else rx.low


def at_hand(rx: Rx) -> str | None:
    """A shortest word of a language that knows one without a search (`Unfolding.nearest`); `None` of others."""
    if rx._shortest is None and not rx.nullable:
        if rx.kind == UNFOLD:
            rx._shortest = rx.a.nearest[1]
        elif rx.kind == UNION:
            words = [at_hand(part) for part in rx.a]
            if None not in words:
                rx._shortest = min([word for word in words if word is not None], key=len)
    return rx._shortest


def _mark_path(node: Rx, parents: dict[Rx, tuple[Rx, Rx] | None]) -> str:
    suffix = ""
    node._empty = False
    node._shortest = suffix
    step = parents[node]
    while step is not None:
        node, chars = step
        suffix = chr(sample(chars)) + suffix
        node._empty = False
        node._shortest = suffix
        step = parents[node]
    return suffix


def shortest(rx: Rx) -> str | None:
    """A shortest word, `None` if there is none.

    Raises:
        LimitExceeded: as `is_empty`.
    """
    if rx._shortest is None and rx._empty is not True and rx is not NONE:
        if rx.kind == LITERAL:
            rx._shortest = rx.a
        elif at_hand(rx) is None:
            _search(rx)
    return rx._shortest


def shortest_length(rx: Rx) -> int | None:
    """The length of a shortest word in code points, `None` if there is none."""
    if rx.flags & EXACT:
        return rx.low
    word = shortest(rx)
    return None if word is None else len(word)


def longest_length(rx: Rx) -> int | None:
    """The length of a longest word in code points; `None` where there is no bound (0 for the empty language).

    Raises:
        LimitExceeded: if an intersection or a complement takes too many states.
    """
    if rx.flags & EXACT or (not rx.flags & BOOLEAN and rx.high is None):
        return rx.high
    if is_empty(rx):
        return 0
    if rx.kind == INTERSECT and len(rx.a) == 2:
        span = _common_lengths(rx.a[0], rx.a[1])
        if span is not None:
            return span[1]
    # Longest path over the live states in the order in which a depth-first walk leaves them; a cycle has no longest.
    longest: dict[Rx, int] = {}
    on_path: set[Rx] = {rx}
    stack = [(rx, iter(moves(rx)))]
    while stack:
        node, remaining = stack[-1]
        for _, target in remaining:
            if target in on_path:
                return None
            if not target.flags & BOOLEAN and target.high is None:
                return None
            if target not in longest:
                on_path.add(target)
                if len(on_path) + len(longest) > STATE_LIMIT:
                    raise LimitExceeded(f"a longest word needs more than {STATE_LIMIT} states")
                stack.append((target, iter(moves(target))))
                break
        else:
            stack.pop()
            on_path.discard(node)
            longest[node] = max((1 + longest[target] for _, target in moves(node)), default=0)
    return longest[rx]


def words(rx: Rx, limit: int) -> list[str] | None:
    """All words, by length and then in code point order, if there are at most `limit`; else `None`."""
    if rx is NONE:
        return []
    if not rx.flags & BOOLEAN and rx.high is None:
        return None
    if rx.kind == LITERAL or rx.kind == WORDS:
        if rx.kind == WORDS and rx.b[1] - rx.b[0] > limit:
            return None
        return sorted(listed(rx), key=len)
    if is_empty(rx):
        return []
    out: list[str] = []
    level: list[tuple[str, Rx]] = [("", rx)]
    while level:
        following: list[tuple[str, Rx]] = []
        for prefix, node in level:
            if node.nullable:
                out.append(prefix)
        if len(out) > limit:
            return None
        for prefix, node in level:
            for chars, target in moves(node):
                if target.high is None and not target.flags & BOOLEAN:
                    return None
                for lo, hi in chars.a:
                    if len(following) + hi - lo >= limit:
                        return None
                    following.extend((prefix + chr(code), target) for code in range(lo, hi + 1))
        following.sort(key=lambda one: one[0])
        level = following
    return out if len(out) <= limit else None


def is_subset(left: Rx, right: Rx) -> bool:
    """Whether every word of `left` is in `right`.

    Raises:
        LimitExceeded: as `is_empty`.
    """
    return left is right or is_empty(difference(left, right))


def is_equal(left: Rx, right: Rx) -> bool:
    """Whether both have the same words (identity is sufficient, not necessary)."""
    return left is right or (is_subset(left, right) and is_subset(right, left))
