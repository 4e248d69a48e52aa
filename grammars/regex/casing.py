"""Ignoring case: what a set of characters becomes under IGNORECASE in `re` and under the `i` flag of ECMA-262."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import cache

from grammars.memory import remembered
from grammars.regex.unicode_sets import cased
from grammars.regular import NONE, Rx, chars
from grammars.regular.charset import contains, join, meet

Partners = dict[int, tuple[int, ...]]


def _partners(classes: dict[object, set[int]]) -> Partners:
    return {code: tuple(sorted(one)) for one in classes.values() if len(one) > 1 for code in one}


def _simple_lower(char: str) -> str:
    """The one-character lower case that `re` compares; that of U+0130 is the first of two."""
    return char.lower()[0]


@cache
def _python_partners() -> Partners:
    """Characters that `re` matches alike: same lower case, or lower cases with the same upper case (`re._casefix`)."""
    same_upper: dict[str, set[int]] = defaultdict(set)
    for code in cased():
        same_upper[chr(code).upper()].add(code)
    fixes: dict[int, set[int]] = {}
    for group in same_upper.values():
        lower = {chr(code).lower() for code in group}
        if len(group) > 1 and len(lower) > 1 and all(len(one) == 1 for one in lower):
            codes = {ord(one) for one in lower}
            for code in codes:
                fixes.setdefault(code, set()).update(codes)
    with_lower: dict[int, set[int]] = defaultdict(set)
    for code in cased():
        with_lower[ord(_simple_lower(chr(code)))].add(code)
    out: Partners = {}
    for code in cased():
        lowered = ord(_simple_lower(chr(code)))
        matched = {other for one in fixes.get(lowered, {lowered}) for other in with_lower[one]}
        if len(matched) > 1:
            out[code] = tuple(sorted(matched))
    return out


@cache
def _ascii_partners() -> Partners:
    return {code: tuple(sorted((code, code ^ 32))) for code in (*range(65, 91), *range(97, 123))}


@cache
def _simple_folding_partners() -> Partners:
    """Canonicalize with the `u` flag: simple case folding (CaseFolding.txt, statuses C and S)."""
    classes: dict[object, set[int]] = defaultdict(set)
    for code in cased():
        char = chr(code)
        folded = char.casefold()
        if len(folded) != 1:
            # Those with a full folding of several characters have a simple one only where it is the lower case.
            lower = char.lower()
            folded = lower if len(lower) == 1 else char
        classes[folded].add(code)
    return _partners(classes)


@cache
def _upper_partners() -> Partners:
    """Canonicalize without the `u` flag: upper case, where that is one character and does not become ASCII."""
    classes: dict[object, set[int]] = defaultdict(set)
    for code in cased():
        upper = chr(code).upper()
        if len(upper) != 1 or (code >= 128 and ord(upper) < 128):
            upper = chr(code)
        classes[upper].add(code)
    return _partners(classes)


_ASCII_EXTRAS: dict[Callable[[], Partners], dict[str, str]] = {
    _python_partners: {"i": "\u0130\u0131", "k": "\u212a", "s": "\u017f"},
    _ascii_partners: {},
    _simple_folding_partners: {"k": "\u212a", "s": "\u017f"},
    _upper_partners: {},
}


def ascii_partners_of(char: str, partners_of: Callable[[], Partners]) -> str:
    """What an ASCII character is matched with, without the tables for all of Unicode, which take a while to make."""
    if not char.isalpha():
        return char
    return char.lower() + char.upper() + _ASCII_EXTRAS[partners_of].get(char.lower(), "")


@remembered(2048)
def _spread(charset: Rx, partners_of: Callable[[], Partners]) -> Rx:
    if charset is NONE:
        return NONE
    if charset.a[-1][1] < 128:
        letters = (chr(code) for lo, hi in charset.a for code in range(lo, hi + 1))
        return chars((ord(c), ord(c)) for letter in letters for c in ascii_partners_of(letter, partners_of))
    partners = partners_of()
    if len(charset.a) == 1 and charset.a[0][0] == charset.a[0][1]:
        others = partners.get(charset.a[0][0])
        return charset if others is None else chars((code, code) for code in others)
    inside = meet(charset, _cased_set())
    if inside is NONE:
        return charset
    added = {other for lo, hi in inside.a for code in range(lo, hi + 1) for other in partners.get(code, ())}
    return join(charset, chars((code, code) for code in added if not contains(charset, code)))


@cache
def _cased_set() -> Rx:
    return chars((code, code) for code in cased())


def python_ignore_case(charset: Rx, ascii_only: bool) -> Rx:
    """The characters that a set matches under `re.IGNORECASE`."""
    return _spread(charset, _ascii_partners if ascii_only else _python_partners)


def ecma_ignore_case(charset: Rx, unicode: bool) -> Rx:
    """The characters that a set matches under the `i` flag (ECMA-262, 22.2.2.7.3 Canonicalize)."""
    return _spread(charset, _simple_folding_partners if unicode else _upper_partners)
