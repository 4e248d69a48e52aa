"""What bounded repeats look like from near: languages that agree on the next few code points.

A mask looks only as far ahead as its longest token.  Within that horizon a counter that cannot run out is no counter,
so states that differ only in such counters have the same mask.
"""

from __future__ import annotations

from grammars.regular.booleans import intersect
from grammars.regular.build import follow, repeat, union
from grammars.regular.charset import ANY
from grammars.regular.rx import BOOLEAN, CONCAT, COUNTED, EXACT, INTERSECT, NEAR, REPEAT, UNION, Rx

NO_COUNTERS = 1 << 30
"""The slack of a language without counters."""


def completion_bound(rx: Rx) -> int | None:
    """A bound on how many code points complete any prefix of a word to a word; `None` where none is known.

    Known for expressions without intersections and complements; memoised.
    """
    if rx.flags & BOOLEAN:
        return None
    if rx._completion is not None:
        return rx._completion
    stack = [rx]
    while stack:
        node = stack[-1]
        parts = _parts(node)
        waiting = [part for part in parts if part._completion is None]
        if waiting:
            stack.extend(waiting)
            continue
        stack.pop()
        bounds = [part._completion or 0 for part in parts]
        if node.kind == CONCAT:
            # The lower bound of a slice of a long word list need not be attained, its upper bound is one.
            rest = node.b.low if node.b.flags & EXACT else max(node.b.low, bounds[1])
            node._completion = max(bounds[0] + rest, bounds[1])
        elif node.kind == UNION:
            node._completion = max(bounds)
        elif node.kind == REPEAT:
            turn = node.a.low if node.a.flags & EXACT else max(node.a.low, bounds[0])
            node._completion = bounds[0] + max(node.least - 1, 0) * turn
        else:
            assert node.high is not None
            node._completion = node.high
    return rx._completion


def _parts(rx: Rx) -> tuple[Rx, ...]:
    if rx.kind == CONCAT:
        return (rx.a, rx.b)
    if rx.kind == UNION:
        children: tuple[Rx, ...] = rx.a
        return children
    return (rx.a,) if rx.kind == REPEAT else ()


def relax_counters(rx: Rx, horizon: int) -> Rx:
    """A language with the same words of at most `horizon` code points and the same prefixes of words of at most that
    length, with fewer counters.

    An upper bound that cannot be reached within the horizon is dropped, a lower bound beyond it is lowered to
    `horizon + 1`, and what comes after a part longer than the horizon is left out.  Inside an intersection or a
    complement, where far-off lengths decide what may come now, only length limits that never decide are dropped.
    """
    if horizon < 0:
        raise ValueError(f"a horizon of {horizon} code points")
    return _relax(rx, horizon)


def _relax(rx: Rx, horizon: int) -> Rx:
    if not rx.flags & COUNTED and horizon >= NEAR:
        return rx
    if rx._relaxed is not None and rx._horizon == horizon:
        return rx._relaxed
    kind = rx.kind
    result = rx
    if kind == REPEAT:
        most = None if rx.most is not None and rx.most * max(1, rx.a.low) >= horizon else rx.most
        body = _relax(rx.a, horizon)
        # Every turn takes at least one code point: a body that may match nothing is repeated from 0 times anyway.
        result = repeat(body, min(rx.least, horizon + 1), most)
    elif kind == CONCAT:
        chain: list[Rx] = []
        node = rx
        low = 0
        while node.kind == CONCAT and (low <= horizon or node.flags & BOOLEAN):
            chain.append(_relax(node.a, horizon))
            low += node.a.low
            node = node.b
        # An intersection in the rest may be empty, and then so is the whole.
        if low <= horizon or node.flags & BOOLEAN:
            chain.append(_relax(node, horizon))
        result = chain[-1]
        for part in reversed(chain[:-1]):
            result = follow(part, result)
    elif kind == UNION:
        result = union(*[_relax(child, horizon) for child in rx.a])
    elif kind == INTERSECT:
        split = _length_limit(rx)
        if split is not None:
            limit, rest = split
            bound = completion_bound(rest)
            if limit.most is not None and bound is not None and limit.most >= horizon + bound:
                result = _relax(rest, horizon)
    rx._relaxed, rx._horizon = result, horizon
    return result


def _length_limit(rx: Rx) -> tuple[Rx, Rx] | None:
    """An intersection as (ANY{0,n}, the rest), where it is one."""
    for child in rx.a:
        if child.kind == REPEAT and child.a is ANY and child.least == 0:
            others = [other for other in rx.a if other is not child]
            return child, others[0] if len(others) == 1 else intersect(*others)
    return None


def counter_slack(rx: Rx) -> tuple[Rx, int]:
    """The language without upper bounds of counters that may stop already, and for how long the two look alike.

    Returns:
        `(base, slack)`: every counter `r{0,n}` is `r*` in `base`; `rx` and `base` have the same words, and the same
        prefixes of words, of at most `slack` code points.  `.{0,20}` gives `(ALL, 20)`.  Without such counters the base
        is `rx` itself and the slack `NO_COUNTERS`.
    """
    if not rx.flags & COUNTED:
        return rx, NO_COUNTERS
    if rx._opened is None:
        rx._opened, rx._slack = _counter_slack(rx)
    return rx._opened, rx._slack


def _counter_slack(rx: Rx) -> tuple[Rx, int]:
    kind = rx.kind
    if kind == REPEAT:
        body, slack = counter_slack(rx.a)
        least, most = rx.least, rx.most
        if least == 0 and most is not None and most > 1:
            slack = min(slack, most * max(1, rx.a.low))
            most = None
        elif body is rx.a:
            return rx, slack
        return repeat(body, least, most), slack
    if kind == CONCAT:
        chain: list[Rx] = []
        slack = NO_COUNTERS
        low = 0
        node = rx
        while node.kind == CONCAT:
            part, own = counter_slack(node.a)
            chain.append(part)
            slack = min(slack, low + own)
            low += node.a.low
            node = node.b
        result, own = counter_slack(node)
        slack = min(slack, low + own)
        if slack >= NO_COUNTERS:
            return rx, NO_COUNTERS
        for part in reversed(chain):
            result = follow(part, result)
        return result, slack
    if kind == UNION:
        parts = [counter_slack(child) for child in rx.a]
        slack = min(own for _, own in parts)
        return (rx, slack) if slack >= NO_COUNTERS else (union(*[part for part, _ in parts]), slack)
    if kind == INTERSECT:
        split = _length_limit(rx)
        if split is not None and split[0].most is not None:
            bound = completion_bound(split[1])
            if bound is not None and split[0].most >= bound:
                base, own = counter_slack(split[1])
                return base, min(own, split[0].most - bound)
    return rx, NO_COUNTERS
