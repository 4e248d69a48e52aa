"""Languages around and within one whose states are too many to be searched: what they say is true of it, too.

Where a machine has a state for every text (`Unfolding.outline`), a search for a word can take for ever.  With simple languages
in its place, a larger one that is empty and a smaller one that is not tell the same in a few states.
"""

from __future__ import annotations

from grammars.memory import remembered
from grammars.regular.booleans import complement, intersect
from grammars.regular.build import concat, repeat, union
from grammars.regular.rx import COMPLEMENT, CONCAT, INTERSECT, NONE, OUTLINED, REPEAT, UNFOLD, UNION, Rx


def has_outline(rx: Rx) -> bool:
    """Whether a machine with an outline occurs in the expression."""
    return rx.flags & OUTLINED != 0


@remembered(8192)
def around(rx: Rx) -> Rx:
    """A language with all words of `rx`; its counters do not count, so its states are few."""
    if rx.kind == UNFOLD:
        return rx if rx.a.outline is None else rx.a.outline[1]
    if rx.kind == REPEAT:
        return repeat(around(rx.a), min(rx.least, 1), None if rx.most is None or rx.most > 1 else rx.most)
    if rx.kind == COMPLEMENT:
        return complement(within(rx.a))
    return _with_parts(rx, [around(part) for part in _parts(rx)])


@remembered(8192)
def within(rx: Rx) -> Rx:
    """A language of which all words are words of `rx`."""
    if rx.kind == UNFOLD:
        return rx if rx.a.outline is None else rx.a.outline[0]
    if rx.kind == REPEAT:
        inside = within(rx.a)
        return rx if inside is rx.a else repeat(inside, rx.least, rx.most)
    if rx.kind == COMPLEMENT:
        outside = around(rx.a) if has_outline(rx.a) else rx.a
        return rx if outside is rx.a else complement(outside)
    return _with_parts(rx, [within(part) for part in _parts(rx)])


def _parts(rx: Rx) -> tuple[Rx, ...]:
    if rx.kind == CONCAT:
        chain = []
        while rx.kind == CONCAT:
            chain.append(rx.a)
            rx = rx.b
        return (*chain, rx)
    if rx.kind in (UNION, INTERSECT):
        parts: tuple[Rx, ...] = rx.a
        return parts
    return (rx.a,) if rx.kind in (REPEAT, COMPLEMENT) else ()


def _with_parts(rx: Rx, parts: list[Rx]) -> Rx:
    if all(new is old for new, old in zip(parts, _parts(rx), strict=True)):
        return rx
    if rx.kind == CONCAT:
        return NONE if NONE in parts else concat(*parts)
    return union(*parts) if rx.kind == UNION else intersect(*parts)
