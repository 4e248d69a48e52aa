"""Names for regular languages that are the same in every process: digests of their normal forms."""

from __future__ import annotations

from hashlib import blake2b

from grammars.regular.rx import (
    CHARS,
    COMPLEMENT,
    CONCAT,
    EPSILON_KIND,
    INTERSECT,
    LITERAL,
    NONE_KIND,
    REPEAT,
    UNFOLD,
    UNION,
    WORDS,
    Rx,
)

_MOST_NODES = 4_000
_MOST_WORDS = 4_000
_SIZE = 16


def language_digest(language: Rx) -> bytes | None:
    """A digest of the normal form, equal for equal nodes in all processes of one version of `grammars.regular`.

    None where there is none: a part of the language is a machine without a description (`Unfolding`), or the language is
    larger than a row of it is worth (thousands of nodes or words).
    """
    found = language._digest
    if found is not None:
        return found
    pending = [language]
    looked_at = 0
    while pending:
        rx = pending[-1]
        if rx._digest is not None:
            pending.pop()
            continue
        children = _children(rx)
        if children is None:
            return None
        missing = [child for child in children if child._digest is None]
        if missing:
            looked_at += len(missing)
            if looked_at > _MOST_NODES:
                return None
            pending += missing
            continue
        pending.pop()
        parts = [child._digest or b"" for child in children]
        if rx.kind in (UNION, INTERSECT):
            parts.sort()
        own = repr((rx.kind, _content(rx), rx.least, rx.most)).encode()
        rx._digest = blake2b(own + b"".join(parts), digest_size=_SIZE).digest()
    return language._digest


def _children(rx: Rx) -> tuple[Rx, ...] | None:
    """The nodes that `rx` is made of; None for a node that cannot be described."""
    if rx.kind == CONCAT:
        return rx.a, rx.b
    if rx.kind in (UNION, INTERSECT):
        return tuple(rx.a)
    if rx.kind in (REPEAT, COMPLEMENT):
        return (rx.a,)
    if rx.kind == WORDS:
        first, end, _ = rx.b
        return () if end - first <= _MOST_WORDS else None
    if rx.kind == UNFOLD:
        return None if rx.a.description is None else ()
    return () if rx.kind in (NONE_KIND, EPSILON_KIND, CHARS, LITERAL) else None


def _content(rx: Rx) -> object:
    """What a node holds besides other nodes, as a value with a stable `repr`."""
    if rx.kind in (CHARS, LITERAL):
        return rx.a
    if rx.kind == UNFOLD:
        return rx.a.description
    if rx.kind == WORDS:
        first, end, depth = rx.b
        return [word[depth:] for word in rx.a[first:end]]
    return None
