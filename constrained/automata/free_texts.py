"""Texts that a string state lets pass whatever they say: walks take them by the number of their characters.

Two kinds of languages have such texts: where a number of characters of a set comes first (`[a-z]{2,8}-x`), texts of the set
are only counted; where something has to be found further on (`.*x`), any text may come before it.
"""

from __future__ import annotations

from typing import NamedTuple

from constrained.automata.character_classes import bare_ascii, wide_flags
from grammars.memory import remembered
from grammars.regular import EPSILON, Rx, moves
from grammars.regular.charset import ANY
from grammars.regular.rx import BOOLEAN, CHARS, COMPLEMENT, CONCAT, HEAD_ALL, INTERSECT, REPEAT, TAIL_ALL, UNION

Languages = tuple[Rx, ...]


class FreeTexts(NamedTuple):
    """Texts of certain characters, of which any may come next, up to a number of them, and no longer one.

    Attributes:
        ascii_bits: the ASCII characters that stand for themselves in a string, as bits.
        wide: whether the others are among them, see `character_classes.wide_flags`.
        most: the number; None if there is no bound.
    """

    ascii_bits: int
    wide: int
    most: int | None


def free_texts(languages: Languages) -> FreeTexts | None:
    """The free texts of a state that reads `languages`, none of them empty unless it is NONE, side by side."""
    if len(languages) == 1:
        if _begins_with_one(languages[0]):
            return None
        counted = _counted(languages[0])
        if counted is not None:
            return counted
        free = _free(languages[0])
    else:
        free = ANY if any([_is_searching(rx) for rx in languages]) or _has_opposites(languages) else None
    return None if free is None else FreeTexts(*_plain_set(free), None)


def _begins_with_one(rx: Rx) -> bool:
    """Whether `rx` is neither repeated in front, nor a union or intersection, nor is searched for; most languages are not."""
    if rx.flags & HEAD_ALL:
        return False
    return (rx.a.kind if rx.kind == CONCAT else rx.kind) not in (REPEAT, UNION, INTERSECT)


def _counted(rx: Rx) -> FreeTexts | None:
    """Of a language that begins with a number of characters of a set and goes on with others, or may have any number."""
    head, tail = (rx.a, rx.b) if rx.kind == CONCAT else (rx, EPSILON)
    if head.kind != REPEAT or head.a.kind != CHARS or (head.most is None and not head.least):
        return None
    if head.most is not None and tail is not EPSILON:
        first = [piece for characters, _ in moves(tail) for piece in characters.a]
        if any([low <= above and high >= below for low, high in first for below, above in head.a.a]):
            return None
    return FreeTexts(*_plain_set(head.a), head.most)


def _free(rx: Rx) -> Rx | None:
    """A set of characters of which any text is the beginning of a word of `rx`, which is not empty."""
    if _is_searching(rx):
        return ANY
    best = None
    for part in _parts(rx):
        if part.flags & BOOLEAN:  # it might be empty
            continue
        head = part.a if part.kind == CONCAT else part
        if head.kind == REPEAT and head.a.kind == CHARS and head.most is None and _size(head.a) > _size(best):
            best = head.a
    return best


def _is_searching(rx: Rx) -> bool:
    """Whether any text is the beginning of a word of `rx`, which is not empty; a sufficient test."""
    if rx.flags & HEAD_ALL:
        return True
    if rx.kind == INTERSECT:
        return all([_may_be_put_off(part) for part in rx.a])
    return any([part.flags & (HEAD_ALL | BOOLEAN) == HEAD_ALL for part in _parts(rx)])


def _may_be_put_off(rx: Rx) -> bool:
    """Whether a language holds, with some word, every text that the word occurs in; a sufficient test."""
    both = HEAD_ALL | TAIL_ALL
    return any([part.flags & (both | BOOLEAN) == both for part in _parts(rx)])


def _parts(rx: Rx) -> tuple[Rx, ...]:
    """Languages of which `rx` is the union, but for the empty text."""
    if rx.kind == REPEAT and rx.most == 1:
        rx = rx.a
    return rx.a if rx.kind == UNION else (rx,)


def _has_opposites(languages: Languages) -> bool:
    """Whether one of the languages is the complement of another one, so that every text is the beginning of a word."""
    return any([rx.kind == COMPLEMENT and rx.a in languages for rx in languages])


def _size(characters: Rx | None) -> int:
    return 0 if characters is None else sum([high - low + 1 for low, high in characters.a])


@remembered(1024)
def _plain_set(characters: Rx) -> tuple[int, int]:
    """The ASCII characters of a set that stand for themselves in a string, as bits, and what it holds of the others."""
    bits = sum(1 << byte for low, high in bare_ascii(characters) for byte in range(low, high + 1))
    return bits, wide_flags(characters)
