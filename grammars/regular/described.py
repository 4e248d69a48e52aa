"""Languages taken apart and put together again, so that they can be written down."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grammars.regular.booleans import complement, intersect
from grammars.regular.build import concat, literals, repeat, union
from grammars.regular.charset import from_ranges
from grammars.regular.rx import (
    CHARS,
    COMPLEMENT,
    CONCAT,
    EPSILON,
    EPSILON_KIND,
    INTERSECT,
    LITERAL,
    NONE,
    NONE_KIND,
    REPEAT,
    UNFOLD,
    UNION,
    WORDS,
    Rx,
)
from grammars.regular.unfold import unfold
from grammars.regular.words import listed, literal


def described(rx: Rx) -> tuple[Any, ...]:
    """The kind of a node and its parts: texts, ranges, numbers, nodes and states."""
    kind = rx.kind
    if kind in (CHARS, LITERAL, UNFOLD, COMPLEMENT):
        return kind, rx.a
    if kind == WORDS:
        return kind, tuple(listed(rx))
    if kind == CONCAT:
        return kind, rx.a, rx.b
    if kind in (UNION, INTERSECT):
        return (kind, *rx.a)
    return (kind, rx.a, rx.least, rx.most) if kind == REPEAT else (kind,)


def rebuilt(kind: int, *parts: Any) -> Rx:
    """The language of a description."""
    return _REBUILT[kind](*parts)


_REBUILT: dict[int, Callable[..., Rx]] = {
    NONE_KIND: lambda: NONE,
    EPSILON_KIND: lambda: EPSILON,
    CHARS: from_ranges,
    LITERAL: literal,
    WORDS: literals,
    CONCAT: concat,
    UNION: union,
    INTERSECT: intersect,
    COMPLEMENT: complement,
    REPEAT: repeat,
    UNFOLD: unfold,
}
