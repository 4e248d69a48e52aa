"""Constructors of the algebra.  They normalise, so that languages reached on different ways meet in one node.

Normal form: unions and intersections are flat, without duplicates, and ordered; a union has at most one character set,
its literals are gathered into one word list, operands with the same tail share it, and overlapping repeats of the same
operand are one repeat; a sequence merges neighbouring literals and neighbouring repeats of the same operand; whatever
is plainly everything is ALL and whatever is plainly empty is NONE.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

from grammars.regular import booleans  # each needs the other: a union of complements is a complement
from grammars.regular.charset import ANY, join_all
from grammars.regular.repeat_bounds import merge_spans, nested_bounds
from grammars.regular.rx import (
    BOOLEAN,
    CHARS,
    COMPLEMENT,
    CONCAT,
    COUNTED,
    EPSILON,
    EXACT,
    HEAD_ALL,
    LITERAL,
    NEAR,
    NONE,
    OUTLINED,
    REPEAT,
    TAIL_ALL,
    UNION,
    WORDS,
    Rx,
    _table,
    intern,
    lookup,
)
from grammars.regular.words import SMALL, as_text, count, listed, literal, word_parts

by_order = attrgetter("order", "serial")
"""How operands are sorted."""


def literals(words: Iterable[str]) -> Rx:
    """The language of the given texts; 100,000 of them cost a sort, and derivatives what the fan-out costs.

    Texts with lone surrogates are left out: they are no sequences of scalar values.
    """
    return union(*word_parts(words))


def repeat(rx: Rx, least: int = 0, most: int | None = None) -> Rx:
    """`rx` from `least` to `most` times in a row; `most=None` means without end.

    Bounded repeats are counters: neither making one nor a step of its derivatives depends on the bounds.
    """
    if least < 0 or (most is not None and most < least):
        raise ValueError(f"a repeat of {least} to {most} times")
    if most == 0 or rx is EPSILON:
        return EPSILON
    if rx is NONE:
        return NONE if least else EPSILON
    if rx.nullable:
        least = 0
        rx = without_empty(rx)
        if rx.nullable and most is None:
            rx = _loop_body(rx)
    if rx.kind == REPEAT:
        merged = nested_bounds(rx.least, rx.most, least, most)
        if merged is not None:
            rx = rx.a
            least, most = merged
    if most is None and least == 0 and rx.kind == UNION:
        body = _loop_body(rx)
        if body is not rx:
            return repeat(body, 0, None)
    if least == 1 and most == 1:
        return rx
    return _repeat_node(rx, least, most)


def _repeat_node(rx: Rx, least: int, most: int | None) -> Rx:
    key = (REPEAT, rx.serial, least, most)
    found = lookup(key)
    if found is not None:
        return found
    high = None if most is None or rx.high is None else most * rx.high
    flags = rx.flags & (BOOLEAN | EXACT | OUTLINED | COUNTED)
    if least > NEAR or (most is not None and (most > 1 > least or most * max(1, rx.low) >= NEAR)):
        flags |= COUNTED
    if least > 0:
        flags |= rx.flags & (HEAD_ALL | TAIL_ALL)
    if rx is ANY and most is None:
        flags |= HEAD_ALL | TAIL_ALL
    nullable = least == 0 or rx.nullable
    order = hash((REPEAT, rx.order, least, -7 if most is None else most))
    return intern(key, nullable, order, least * rx.low, high, flags, rx, least=least, most=most)


def without_empty(rx: Rx) -> Rx:
    """A language equal to `rx` but for the empty word, where that is cheap to say, else `rx` itself."""
    if rx.kind == REPEAT and rx.least == 0 and not rx.a.nullable:
        return repeat(rx.a, 1, rx.most)
    if rx.kind == UNION:
        return union(*[without_empty(child) for child in rx.a])
    if rx.kind == WORDS and rx.nullable and count(rx) <= SMALL:
        return union(*word_parts(listed(rx)[1:]))
    return rx


def _loop_body(rx: Rx) -> Rx:
    """A body with the same star: (x+|y)* = (x|y)*, (x{0,5}y{0,3}) stays."""
    if rx.kind != UNION:
        return rx
    parts = [child.a if child.kind == REPEAT and child.least <= 1 else child for child in rx.a]
    return union(*parts) if any(part is not child for part, child in zip(parts, rx.a, strict=True)) else rx


ALL = repeat(ANY, 0, None)


def concat(*rs: Rx) -> Rx:
    """The languages one after the other."""
    items: list[Rx] = []
    for rx in rs:
        if rx.kind == CONCAT:
            stack = [rx]
            while stack:
                node = stack.pop()
                if node.kind == CONCAT:
                    stack.append(node.b)
                    stack.append(node.a)
                else:
                    items.append(node)
        else:
            items.append(rx)
    if not items:
        return EPSILON
    result = items[-1]
    for index in range(len(items) - 2, -1, -1):
        result = follow(items[index], result)
    return result


def follow(head: Rx, tail: Rx) -> Rx:
    """`concat` of two, in constant time: a head that is itself a sequence stays a unit (its derivatives are shared)."""
    if head is EPSILON:
        return tail
    if tail is EPSILON:
        return head
    if head is NONE or tail is NONE:
        return NONE
    if head.nullable and tail.flags & HEAD_ALL:
        return tail
    if tail.nullable and head.flags & TAIL_ALL:
        return head
    if head.flags & TAIL_ALL or tail.flags & HEAD_ALL:
        fewer = _beside_all(head, tail)
        if fewer != (head, tail):
            return follow(*fewer)
    key = (CONCAT, head.serial, tail.serial)
    entry = _table.get(key)
    if entry is not None:
        found = entry()
        if found is not None:
            return found
    if head.kind != CONCAT:
        if tail.kind == CONCAT:
            first, rest = tail.a, tail.b
        else:
            first, rest = tail, EPSILON
        merged = _merge_neighbours(head, first)
        if merged is not None:
            return follow(merged, rest)
    high = None if head.high is None or tail.high is None else head.high + tail.high
    flags = (
        (head.flags | tail.flags) & (BOOLEAN | OUTLINED | COUNTED)
        | head.flags & tail.flags & EXACT
        | head.flags & HEAD_ALL
        | tail.flags & TAIL_ALL
    )
    low = head.low + tail.low
    if low > NEAR:
        flags |= COUNTED
    order = hash((CONCAT, head.order, tail.order))
    return intern(key, head.nullable and tail.nullable, order, low, high, flags, head, tail)


def _beside_all(head: Rx, tail: Rx) -> tuple[Rx, Rx]:
    """Leave out what may be missing next to ANY*, which takes it in: ANY* x? y = ANY* y, x{2,5} ANY* = x{2} ANY*."""
    if head.flags & TAIL_ALL:
        while tail.kind == CONCAT and tail.a.nullable:
            tail = tail.b
        first = tail.a if tail.kind == CONCAT else tail
        if first.kind == REPEAT and first.least != first.most:
            fewest = repeat(first.a, first.least, first.least)
            tail = follow(fewest, tail.b) if tail.kind == CONCAT else fewest
    if tail.flags & HEAD_ALL and head.kind == REPEAT and head.least != head.most:
        head = repeat(head.a, head.least, head.least)
    return head, tail


def _merge_neighbours(head: Rx, first: Rx) -> Rx | None:
    if head.kind in (CHARS, LITERAL) and first.kind in (CHARS, LITERAL):
        left = as_text(head)
        if left is not None:
            right = as_text(first)
            if right is not None:
                return literal(left + right)
    if head.kind == REPEAT:
        base, least, most = head.a, head.least, head.most
        if first.kind == REPEAT and first.a is base:
            bound = None if most is None or first.most is None else most + first.most
            return repeat(base, least + first.least, bound)
        if first is base:
            return repeat(base, least + 1, None if most is None else most + 1)
        return None
    if first.kind == REPEAT:
        if first.a is head:
            return repeat(head, first.least + 1, None if first.most is None else first.most + 1)
        return None
    return repeat(head, 2, 2) if head is first else None


def union(*rs: Rx) -> Rx:
    """What is in any of the languages."""
    if len(rs) == 1:
        return rs[0]
    if len(rs) == 2:
        left, right = rs
        if left is right or right is NONE:
            return left
        if left is NONE:
            return right
        if left is ALL or right is ALL:
            return ALL
        if left.kind == CONCAT == right.kind and not _are_joined(left, right):
            return _pair_node(left, right)
    terms: set[Rx] = set()
    sets: list[Rx] = []
    texts: list[Rx] = []
    empty = False
    stack = list(rs)
    while stack:
        rx = stack.pop()
        kind = rx.kind
        if kind == UNION:
            stack.extend(rx.a)
        elif kind == CHARS:
            sets.append(rx)
        elif kind == LITERAL or (kind == WORDS and count(rx) <= SMALL):
            texts.append(rx)
        elif rx is EPSILON:
            empty = True
        elif kind == REPEAT and rx.least == 0 and rx.most == 1 and not rx.a.nullable:
            empty = True
            stack.append(rx.a)
        elif rx is ALL:
            return ALL
        elif rx is not NONE:
            terms.add(rx)
    if len(terms) > 1:
        _share_tails(terms)
        if ALL in terms:
            return ALL
    if len(texts) > 1:
        distinct = set(texts)
        if len(distinct) == 1:
            terms.update(distinct)
        else:
            for part in word_parts([word for node in distinct for word in listed(node)]):
                if part.kind == CHARS:
                    sets.append(part)
                else:
                    terms.add(part)
    elif texts:
        terms.add(texts[0])
    if sets:
        terms.add(sets[0] if len(sets) == 1 else join_all(sets))
    if len(terms) > 1 or empty:
        empty = _merge_repeats(terms, empty)
    if ALL in terms:
        return ALL
    if not terms:
        return EPSILON if empty else NONE
    if len(terms) == 1:
        (only,) = terms
    else:
        only = _union_node(terms)
    if empty and not only.nullable:
        return repeat(only, 0, 1)
    return only


def _are_joined(left: Rx, right: Rx) -> bool:
    """Whether the union of two different sequences may be more than a union of the two."""
    tail, other = left.b, right.b
    repeats = tail.kind == REPEAT == other.kind and left.a is right.a
    return tail is other or tail is right or other is left or repeats


def _pair_node(left: Rx, right: Rx) -> Rx:
    if right.order < left.order or (right.order == left.order and right.serial < left.serial):
        left, right = right, left
    key = (UNION, left.serial, right.serial)
    found = lookup(key)
    if found is not None:
        return found
    flags = left.flags & right.flags & (HEAD_ALL | TAIL_ALL | EXACT)
    flags |= (left.flags | right.flags) & (BOOLEAN | OUTLINED | COUNTED)
    high = None if left.high is None or right.high is None else max(left.high, right.high)
    order = hash((UNION, left.order, right.order))
    nullable = left.nullable or right.nullable
    return intern(key, nullable, order, min(left.low, right.low), high, flags, (left, right))


def _share_tails(terms: set[Rx]) -> None:
    """Right factoring: a·t | b·t | t becomes (a|b|ε)·t."""
    tails: dict[Rx, list[Rx]] = {}
    for rx in terms:
        if rx.kind == CONCAT:
            tails.setdefault(rx.b, []).append(rx)
    for tail, users in tails.items():
        if len(users) < 2 and tail not in terms:
            continue
        users = [user for user in users if user in terms]
        heads = [user.a for user in users]
        if tail in terms:
            heads.append(EPSILON)
            users.append(tail)
        if len(users) < 2:
            continue
        terms.difference_update(users)
        merged = follow(union(*heads), tail)
        if merged.kind == UNION:
            terms.update(merged.a)
        else:
            terms.add(merged)


def _merge_repeats(terms: set[Rx], empty: bool) -> bool:
    """Merge overlapping repeats of one operand, alone or behind one head, and drop what is plainly within another.

    Returns whether the empty word is still to be added.
    """
    groups: dict[tuple[int, int], list[Rx]] | None = None
    wide: Rx | None = None
    for rx in terms:
        if rx.kind == REPEAT:
            if rx.a is ANY:
                wide = rx
            groups = {} if groups is None else groups
            groups.setdefault((0, rx.a.serial), []).append(rx)
        elif rx.kind == CONCAT and rx.b.kind == REPEAT:
            groups = {} if groups is None else groups
            groups.setdefault((rx.a.serial, rx.b.a.serial), []).append(rx)
    if groups is None:
        return empty
    for (head_serial, _), users in groups.items():
        head = EPSILON if head_serial == 0 else users[0].a
        repeats = users if head is EPSILON else [user.b for user in users]
        base: Rx = repeats[0].a
        spans: list[tuple[int, int | None]] = [(one.least, one.most) for one in repeats]
        alone = head is EPSILON and base in terms
        if alone:
            spans.append((1, 1))
        zero = head is EPSILON and empty
        if zero:
            spans.append((0, 0))
        if len(spans) < 2:
            continue
        merged = merge_spans(spans)
        if len(merged) == len(spans):
            continue
        terms.difference_update(users)
        if alone:
            terms.discard(base)
        for least, most in merged:
            if most == 0:
                continue
            one = follow(head, repeat(base, least, most))
            if zero and least == 0:
                empty = False
            if one.kind == UNION:
                terms.update(one.a)
            else:
                terms.add(one)
            if base is ANY and head is EPSILON:
                wide = one
    if wide is not None and wide in terms and len(terms) > 1:
        absorbed = [
            rx
            for rx in terms
            if rx is not wide
            and rx.low >= wide.low
            and (wide.high is None or (rx.high is not None and rx.high <= wide.high))
        ]
        terms.difference_update(absorbed)
    return empty


def _union_node(terms: set[Rx]) -> Rx:
    complements = [rx for rx in terms if rx.kind == COMPLEMENT]
    if complements:
        inside = booleans.intersect(*[rx.a for rx in complements])
        if any(rx.a in terms for rx in complements):
            return ALL
        if len(complements) > 1:
            terms.difference_update(complements)
            return union(booleans.complement(inside), *terms)
    children = tuple(sorted(terms, key=by_order))
    key = (UNION, *[rx.serial for rx in children])
    found = lookup(key)
    if found is not None:
        return found
    low = min(rx.low for rx in children)
    high: int | None = 0
    flags = HEAD_ALL | TAIL_ALL | EXACT
    occurring = 0
    nullable = False
    for rx in children:
        flags &= rx.flags
        occurring |= rx.flags & (BOOLEAN | OUTLINED | COUNTED)
        nullable = nullable or rx.nullable
        high = None if high is None or rx.high is None else max(high, rx.high)
    order = hash((UNION, *[rx.order for rx in children]))
    return intern(key, nullable, order, low, high, flags | occurring, children)
