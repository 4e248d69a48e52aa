"""Finite sets of texts: single literals, and word lists of any size as slices of one sorted list.

A slice (first, end, depth) stands for the words `list[first:end]` less their first `depth` characters, which are the
same in all of them; so a derivative is a smaller slice and costs what the fan-out costs, without a trie being built.
"""

from __future__ import annotations

import itertools
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from grammars.regular.charset import from_ranges, normalise, single
from grammars.regular.rx import CHARS, EPSILON, EXACT, LITERAL, NONE, WORDS, Rx, intern, lookup

SMALL = 64
"""Word lists of at most this many words are keyed by their contents, so that equal ones are one node."""

_lists = itertools.count(1)


def literal(text: str) -> Rx:
    """The language of one text; no language at all if it has a lone surrogate, which is no scalar value."""
    if len(text) > 1:
        key = (LITERAL, text)
        found = lookup(key)
        if found is not None:
            return found
        if not has_scalars_only(text):
            return NONE
        order = hash((LITERAL, int.from_bytes(text.encode(), "little")))
        return intern(key, False, order, len(text), len(text), EXACT, text)
    if not text:
        return EPSILON
    return single(ord(text)) if has_scalars_only(text) else NONE


def has_scalars_only(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)


def as_text(rx: Rx) -> str | None:
    """The only word of a literal or a single character, else `None`."""
    if rx.kind == LITERAL:
        text: str = rx.a
        return text
    if rx.kind == CHARS and len(rx.a) == 1 and rx.a[0][0] == rx.a[0][1]:
        return chr(rx.a[0][0])
    return None


def word_parts(words: Iterable[str]) -> list[Rx]:
    """Nodes whose union is the language of the words: EPSILON, one CHARS and one LITERAL or WORDS, as needed.

    Very large lists stay whole.
    """
    distinct = sorted(set(words))
    if not all(map(has_scalars_only, distinct)):
        distinct = [word for word in distinct if has_scalars_only(word)]
    return [_large(tuple(distinct))] if len(distinct) > SMALL else _parts(distinct)


def _parts(distinct: list[str]) -> list[Rx]:
    """`word_parts` of a few sorted distinct words of scalar values."""
    parts: list[Rx] = []
    if distinct and not distinct[0]:
        parts.append(EPSILON)
    one = [ord(word) for word in distinct if len(word) == 1]
    if one:
        parts.append(from_ranges(normalise([(code, code) for code in one])) if len(one) > 1 else single(one[0]))
    longer = tuple(distinct) if not parts else tuple([word for word in distinct if len(word) > 1])
    if len(longer) == 1:
        parts.append(literal(longer[0]))
    elif longer:
        parts.append(_small(longer))
    return parts


def _small(words: tuple[str, ...]) -> Rx:
    key = (WORDS, words)
    found = lookup(key)
    if found is not None:
        return found
    order = hash((WORDS, zlib.crc32("\0".join(words).encode()), len(words)))
    low, high = min(map(len, words)), max(map(len, words))
    return intern(key, False, order, low, high, EXACT, words, (0, len(words), 0))


def _large(words: tuple[str, ...]) -> Rx:
    key = (WORDS, words)
    found = lookup(key)
    if found is not None:
        return found
    order = hash((WORDS, zlib.crc32("\0".join(words).encode()), len(words)))
    low, high = min(map(len, words)), max(map(len, words))
    serial = next(_lists)
    return intern(key, not words[0], order, low, high, EXACT, words, (0, len(words), 0), least=serial)


def listed(rx: Rx) -> list[str]:
    """The words of a LITERAL or WORDS node, sorted."""
    if rx.kind == LITERAL:
        return [rx.a]
    first, end, depth = rx.b
    return [word[depth:] for word in rx.a[first:end]]


def count(rx: Rx) -> int:
    """How many words a LITERAL or WORDS node has."""
    if rx.kind == LITERAL:
        return 1
    first, end, _ = rx.b
    return int(end - first)


def is_listed(rx: Rx, word: str) -> bool:
    """Whether `word` is one of a WORDS node."""
    first, end, depth = rx.b
    whole = rx.a[first][:depth] + word
    at = bisect_left(rx.a, whole, first, end)
    return at < end and bool(rx.a[at] == whole)


def branches(rx: Rx) -> list[tuple[int, list[Rx]]]:
    """The first characters of the words of a WORDS node with the parts of what may follow each (see `word_parts`)."""
    words: tuple[str, ...] = rx.a
    first, end, depth = rx.b
    if len(words[first]) == depth:
        first += 1
    out: list[tuple[int, list[Rx]]] = []
    while first < end:
        char = words[first][depth]
        if words[end - 1][depth] == char:
            stop = end
        else:
            stop = bisect_right(words, char, first, end, key=lambda word: word[depth])
        if stop - first == 1:
            parts = [literal(words[first][depth + 1 :])]
        elif stop - first <= SMALL:
            parts = _parts([word[depth + 1 :] for word in words[first:stop]])
        else:
            parts = [_slice(rx, first, stop, depth + 1)]
        out.append((ord(char), parts))
        first = stop
    return out


def _slice(rx: Rx, first: int, end: int, depth: int) -> Rx:
    """A large slice of a large list; its length bounds are inherited and need not be exact."""
    words: tuple[str, ...] = rx.a
    key = (WORDS, rx.least, first, end, depth)
    found = lookup(key)
    if found is not None:
        return found
    nullable = len(words[first]) == depth
    assert rx.high is not None
    low = 0 if nullable else max(rx.low - 1, 1)
    order = hash((WORDS, rx.order, first, end, depth))
    return intern(key, nullable, order, low, rx.high - 1, 0, words, (first, end, depth), least=rx.least)
