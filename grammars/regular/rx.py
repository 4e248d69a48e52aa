"""The node of the algebra: an interned, immutable regular language over Unicode scalar values.

Nodes are hash-consed, so equality of normal forms is identity and memos live on the nodes.  The intern table holds its
nodes weakly and its keys hold only serial numbers, never nodes: a language that nobody uses any more goes away together
with its memoised derivatives, whatever cycles they form.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from typing import Any

MAX_CODE_POINT = 0x10FFFF
SCALARS: tuple[tuple[int, int], ...] = ((0, 0xD7FF), (0xE000, MAX_CODE_POINT))

# Kinds.  What `a` and `b` hold:
NONE_KIND = 0  # nothing
EPSILON_KIND = 1  # nothing
CHARS = 2  # a: sorted, disjoint, non-adjacent (lo, hi) pairs of scalar values
LITERAL = 3  # a: a text of at least two characters
WORDS = 4  # a: sorted distinct words, b: (first, end, depth): the words a[first:end] less `depth` characters each
CONCAT = 5  # a: head, b: tail
UNION = 6  # a: at least two nodes, none of them nullable only by EPSILON, sorted by `order`
REPEAT = 7  # a: what is repeated, least and most: how often
INTERSECT = 8  # a: at least two nodes, sorted by `order`
COMPLEMENT = 9  # a: what is complemented
UNFOLD = 10  # a: a state that knows its moves (grammars.regular.unfold)

# Flags.
BOOLEAN = 1  # an intersection or a complement occurs in it, so that emptiness is not plain to see
HEAD_ALL = 2  # L = ANY* L
TAIL_ALL = 4  # L = L ANY*
EXACT = 8  # `low` and `high` are the lengths of a shortest and a longest word, not only bounds
OUTLINED = 16  # a machine with an outline (`grammars.regular.outlines`) occurs in it
COUNTED = 32  # it may look different to `grammars.regular.counters` from NEAR: a counter or a long part occurs in it

NEAR = 16
"""Code points: what is not COUNTED is the same in any horizon of so many or more."""

Moves = tuple[tuple["Rx", "Rx"], ...]


class Rx:
    """A regular language; make one with the constructors of `grammars.regular`.

    Equality is identity: the constructors return the same object for the same normal form.

    Attributes:
        kind: one of the kinds of this module.
        nullable: whether the empty text is a word.
        order: a structural hash, the same in every process; it orders operands and is no proof of equality.
        low, high: bounds on the lengths of words in code points (`high` is `None` where they are unbounded).
        flags: bits of this module.
    """

    __slots__ = (
        "__weakref__",
        "_completion",
        "_derivatives",
        "_digest",
        "_empty",
        "_endless",
        "_gap",
        "_horizon",
        "_live",
        "_opened",
        "_raw",
        "_relaxed",
        "_shorter",
        "_shortest",
        "_slack",
        "a",
        "b",
        "flags",
        "high",
        "kind",
        "least",
        "low",
        "most",
        "nullable",
        "order",
        "serial",
    )

    kind: int
    nullable: bool
    order: int
    low: int
    high: int | None
    flags: int
    a: Any
    b: Any
    least: int
    most: int | None
    serial: int
    _raw: Moves | None
    _live: Moves | None
    _derivatives: tuple[tuple[int, int, Rx], ...] | None
    _digest: bytes | None
    _empty: bool | None
    _endless: bool | None
    _shorter: Rx | None
    _shortest: str | None
    _completion: int | None
    _relaxed: Rx | None
    _horizon: int
    _opened: Rx | None
    _slack: int
    _gap: int | None

    def __repr__(self) -> str:
        return f"Rx({render(self)})"

    def __copy__(self) -> Rx:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Rx:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("an Rx is bound to its process; pickle the grammar that it was made from")


class _Entry(weakref.ref[Rx]):
    """A table entry that knows its key, so that its death can remove it."""

    __slots__ = ("key",)
    key: tuple[Any, ...]


_NODE_BYTES, _PART_BYTES = 700, 60
"""Memory of a node with its derivatives, and of each item of its key beside it; measured."""


class _Total:
    """Items of all keys in the table."""

    parts = 0


_table: dict[tuple[Any, ...], _Entry] = {}
_lock = threading.RLock()
_serials = itertools.count(1)


def _forget(entry: weakref.ref[Rx]) -> None:
    assert isinstance(entry, _Entry)
    with _lock:
        if _table.get(entry.key) is entry:
            del _table[entry.key]
            _Total.parts -= len(entry.key)


def intern(
    key: tuple[Any, ...],
    nullable: bool,
    order: int,
    low: int,
    high: int | None,
    flags: int,
    a: Any = None,
    b: Any = None,
    least: int = 0,
    most: int | None = None,
) -> Rx:
    """The node with this key, made from the other arguments where there is none; `key[0]` is the kind.

    Keys must not refer to nodes (use their `serial`), or nodes with memoised derivatives would never be freed.
    """
    with _lock:
        entry = _table.get(key)
        if entry is not None:
            found = entry()
            if found is not None:
                return found
        node = Rx.__new__(Rx)
        node.kind = key[0]
        node.nullable = nullable
        node.order = order
        node.low = low
        node.high = high
        node.flags = flags
        node.a = a
        node.b = b
        node.least = least
        node.most = most
        node.serial = next(_serials)
        node._raw = node._live = node._derivatives = None
        node._empty = node._endless = node._shorter = node._shortest = node._completion = None
        node._gap = node._opened = node._relaxed = node._digest = None
        entry = _Entry(node, _forget)
        entry.key = key
        if key not in _table:
            _Total.parts += len(key)
        _table[key] = entry
        return node


def lookup(key: tuple[Any, ...]) -> Rx | None:
    """The living node with this key, without the cost of computing what a new one would need."""
    entry = _table.get(key)
    return None if entry is None else entry()


def table_size() -> int:
    """How many languages are alive."""
    return len(_table)


def table_bytes() -> int:
    """The memory that they take, about."""
    return len(_table) * _NODE_BYTES + _Total.parts * _PART_BYTES


NONE = intern((NONE_KIND,), False, 0, 0, 0, 0)
EPSILON = intern((EPSILON_KIND,), True, 1, 0, 0, EXACT)


def _render_char(code: int) -> str:
    text = chr(code)
    return text if text.isprintable() and text not in "[]-\\^|()*?{}&~" else f"\\u{{{code:x}}}"


def render(rx: Rx, depth: int = 6) -> str:
    """A readable form, cut off (`…`) below `depth` levels and after a few operands."""
    if depth == 0:
        return "…"
    kind = rx.kind
    if kind == NONE_KIND:
        return "∅"
    if kind == EPSILON_KIND:
        return "ε"
    if kind == CHARS:
        if rx.a == SCALARS:
            return "."
        if len(rx.a) == 1 and rx.a[0][0] == rx.a[0][1]:
            return _render_char(rx.a[0][0])
        parts = [_render_char(lo) + ("" if lo == hi else "-" + _render_char(hi)) for lo, hi in rx.a[:8]]
        return "[" + "".join(parts) + ("…" if len(rx.a) > 8 else "") + "]"
    if kind == LITERAL:
        return "".join(_render_char(ord(c)) for c in rx.a[:40]) + ("…" if len(rx.a) > 40 else "")
    if kind == WORDS:
        first, end, cut = rx.b
        shown = "|".join(word[cut:] for word in rx.a[first : min(end, first + 6)])
        return f"({shown}{'|…' if end - first > 6 else ''})"
    if kind == CONCAT:
        parts = []
        node = rx
        while node.kind == CONCAT and len(parts) < 8:
            head = render(node.a, depth - 1)
            parts.append(f"({head})" if node.a.kind == CONCAT else head)
            node = node.b
        parts.append("…" if node.kind == CONCAT else render(node, depth - 1))
        return "".join(parts)
    if kind in (UNION, INTERSECT):
        sign = "|" if kind == UNION else "&"
        shown = sign.join(render(child, depth - 1) for child in rx.a[:6])
        return f"({shown}{sign + '…' if len(rx.a) > 6 else ''})"
    if kind == COMPLEMENT:
        return f"~({render(rx.a, depth - 1)})"
    if kind == UNFOLD:
        return f"<{type(rx.a).__name__}>"
    inner = render(rx.a, depth - 1)
    if rx.a.kind not in (CHARS, UNION, WORDS, INTERSECT):
        inner = f"({inner})"
    if rx.most is None:
        return inner + ("*" if rx.least == 0 else "+" if rx.least == 1 else f"{{{rx.least},}}")
    if rx.least == 0 and rx.most == 1:
        return inner + "?"
    return inner + (f"{{{rx.least}}}" if rx.least == rx.most else f"{{{rx.least},{rx.most}}}")
