"""Intersection and complement, normalised as the constructors of `grammars.regular.build` are."""

from __future__ import annotations

from grammars.regular import build
from grammars.regular.charset import ANY, from_ranges, invert_ranges, join_all, meet, minus
from grammars.regular.rx import (
    BOOLEAN,
    CHARS,
    COMPLEMENT,
    CONCAT,
    COUNTED,
    EPSILON,
    HEAD_ALL,
    INTERSECT,
    LITERAL,
    NONE,
    OUTLINED,
    REPEAT,
    TAIL_ALL,
    UNION,
    WORDS,
    Rx,
    intern,
    lookup,
)
from grammars.regular.words import count, listed, word_parts

_FILTERED_WORDS = 64


def intersect(*rs: Rx) -> Rx:
    """What is in all of the languages."""
    if len(rs) == 2:
        left, right = rs
        if left.kind == REPEAT and left.a is ANY and right.kind in _NOT_MERGED:
            return _of_lengths(right, left)
        if right.kind == REPEAT and right.a is ANY and left.kind in _NOT_MERGED:
            return _of_lengths(left, right)
    terms: set[Rx] = set()
    excluded: list[Rx] = []
    run: tuple[Rx, int, int | None] | None = None
    stack = list(rs)
    while stack:
        rx = stack.pop()
        kind = rx.kind
        if rx is NONE:
            return NONE
        if kind == INTERSECT:
            stack.extend(rx.a)
        elif kind == COMPLEMENT:
            excluded.append(rx.a)
        elif rx is build.ALL:
            pass
        elif kind == CHARS or (kind == REPEAT and rx.a.kind == CHARS):
            span = (rx, 1, 1) if kind == CHARS else (rx.a, rx.least, rx.most)
            run = span if run is None else _meet_runs(run, span)
        else:
            terms.add(rx)
    if run is not None:
        letters, least, most = run
        if most is not None and least > most:
            return NONE
        one = (EPSILON if least == 0 else NONE) if letters is NONE else build.repeat(letters, least, most)
        if one is NONE or (not terms and not excluded):
            return one
        if one is not build.ALL:
            terms.add(_relax_length(one, terms) if letters is ANY else one)
            terms.discard(build.ALL)
    if not terms:
        return complement(build.union(*excluded)) if excluded else build.ALL
    low = max(rx.low for rx in terms)
    if any(rx.high is not None and rx.high < low for rx in terms):
        return NONE
    if excluded:
        outside = build.union(*excluded)
        if outside is build.ALL or outside in terms:
            return NONE
        if outside.kind == UNION and any(child in terms for child in outside.a):
            return NONE
        if outside is not NONE:
            terms.add(complement(outside))
    if len(terms) == 1:
        (only,) = terms
        return only
    if EPSILON in terms:
        return EPSILON if all(rx.nullable for rx in terms) else NONE
    finite = _finite(terms)
    return finite if finite is not None else _intersect_node(terms)


_NOT_MERGED = frozenset({CONCAT, UNION})


def _of_lengths(rx: Rx, counter: Rx) -> Rx:
    """`intersect` of a sequence or a union and a condition on the length, which is what counted strings step through."""
    least, most = counter.least, counter.most
    if (most is not None and rx.low > most) or (rx.high is not None and rx.high < least):
        return NONE
    counter = _relax_length(counter, {rx})
    return rx if counter is build.ALL else _intersect_node({rx, counter})


def _meet_runs(x: tuple[Rx, int, int | None], y: tuple[Rx, int, int | None]) -> tuple[Rx, int, int | None]:
    most = x[2] if y[2] is None else y[2] if x[2] is None else min(x[2], y[2])
    return meet(x[0], y[0]), max(x[1], y[1]), most


def _relax_length(counter: Rx, others: set[Rx]) -> Rx:
    """A length condition less the bounds that the other operands keep anyway."""
    if counter is ANY:
        return counter
    least, most = counter.least, counter.most
    if any(rx.low >= least for rx in others):
        least = 0
    if most is not None and any(rx.high is not None and rx.high <= most for rx in others):
        most = None
    return build.repeat(ANY, least, most)


def _finite(terms: set[Rx]) -> Rx | None:
    """An intersection with a character set or a few words is worked out at once."""
    for rx in terms:
        if rx.kind == CHARS:
            from grammars.regular.derive import raw_moves

            result = rx
            for other in terms:
                if other is not rx:
                    inside = [chars for chars, target in raw_moves(other) if target.nullable]
                    result = meet(result, join_all(inside))
            return result
        if rx.kind == LITERAL or (rx.kind == WORDS and count(rx) <= _FILTERED_WORDS):
            from grammars.regular.derive import matches

            others = [other for other in terms if other is not rx]
            kept = [word for word in listed(rx) if all(matches(other, word) for other in others)]
            return build.union(*word_parts(kept))
    return None


def _intersect_node(terms: set[Rx]) -> Rx:
    children = tuple(sorted(terms, key=build.by_order))
    key = (INTERSECT, *[rx.serial for rx in children])
    found = lookup(key)
    if found is not None:
        return found
    nullable = all(rx.nullable for rx in children)
    low = max(rx.low for rx in children)
    bounds = [rx.high for rx in children if rx.high is not None]
    flags = HEAD_ALL | TAIL_ALL
    occurring = 0
    for rx in children:
        flags &= rx.flags
        occurring |= rx.flags & (OUTLINED | COUNTED)
    order = hash((INTERSECT, *[rx.order for rx in children]))
    return intern(key, nullable, order, low, min(bounds) if bounds else None, flags | BOOLEAN | occurring, children)


def complement(rx: Rx) -> Rx:
    """The texts that are not in the language."""
    kind = rx.kind
    if rx is NONE:
        return build.ALL
    if rx is build.ALL:
        return NONE
    if kind == COMPLEMENT:
        inner: Rx = rx.a
        return inner
    if rx is EPSILON:
        return build.repeat(ANY, 1, None)
    if kind == CHARS:
        return build.union(EPSILON, from_ranges(invert_ranges(rx.a)), build.repeat(ANY, 2, None))
    if kind == REPEAT and rx.a is ANY:
        below = build.repeat(ANY, 0, rx.least - 1) if rx.least else NONE
        return build.union(below, NONE if rx.most is None else build.repeat(ANY, rx.most + 1, None))
    key = (COMPLEMENT, rx.serial)
    found = lookup(key)
    if found is not None:
        return found
    order = hash((COMPLEMENT, rx.order))
    return intern(key, not rx.nullable, order, 1 if rx.nullable else 0, None, BOOLEAN | rx.flags & OUTLINED, rx)


def difference(left: Rx, right: Rx) -> Rx:
    """What is in `left` and not in `right`."""
    if left.kind == CHARS and right.kind == CHARS:
        return minus(left, right)
    return intersect(left, complement(right))
