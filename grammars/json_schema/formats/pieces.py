"""Character sets and small combinators that the grammars of the RFCs share (RFC 5234 appendix B and the like)."""

from __future__ import annotations

from grammars.regular import EPSILON, Rx, chars, concat, literal, repeat, union

DIGITS = ((0x30, 0x39),)
LETTERS = ((0x41, 0x5A), (0x61, 0x7A))

ALPHA = chars(LETTERS)
DIGIT = chars(DIGITS)
HEXDIG = chars(((0x30, 0x39), (0x41, 0x46), (0x61, 0x66)))
ALNUM = chars((*LETTERS, *DIGITS))

UCSCHAR = (
    (0xA0, 0xD7FF),
    (0xF900, 0xFDCF),
    (0xFDF0, 0xFFEF),
    *((plane << 16, (plane << 16) + 0xFFFD) for plane in range(1, 14)),
    (0xE1000, 0xEFFFD),
)
"""RFC 3987 section 2.2, `ucschar`; less U+E0000 to U+E0FFF, which are tags."""

IPRIVATE = ((0xE000, 0xF8FF), (0xF0000, 0xFFFFD), (0x100000, 0x10FFFD))
"""RFC 3987 section 2.2, `iprivate`."""


def among(text: str) -> tuple[tuple[int, int], ...]:
    """The code points of the characters of `text`, as ranges."""
    return tuple((ord(char), ord(char)) for char in text)


def optional(rx: Rx) -> Rx:
    """`rx` or nothing."""
    return union(EPSILON, rx)


def any_number(rx: Rx) -> Rx:
    """`rx` as often as one likes, also never."""
    return repeat(rx, 0, None)


def some(rx: Rx) -> Rx:
    """`rx` at least once."""
    return repeat(rx, 1, None)


def exactly(rx: Rx, count: int) -> Rx:
    """`rx` so many times."""
    return repeat(rx, count, count)


def separated(item: Rx, separator: Rx) -> Rx:
    """One item or more, with a separator between each two."""
    return concat(item, any_number(concat(separator, item)))


def two_digits(first: int, last: int) -> Rx:
    """The numbers from `first` to `last`, written with two digits."""
    tens: dict[tuple[int, int], list[int]] = {}
    for ten in range(first // 10, last // 10 + 1):
        low = first % 10 if ten == first // 10 else 0
        high = last % 10 if ten == last // 10 else 9
        tens.setdefault((low, high), []).append(ten)
    return union(
        *(
            concat(chars([(0x30 + ten, 0x30 + ten) for ten in group]), chars([(0x30 + low, 0x30 + high)]))
            for (low, high), group in tens.items()
        )
    )


def any_case(word: str) -> Rx:
    """An ASCII word with its letters in either case (strings in RFC 5234 are case-insensitive)."""
    return concat(*(chars(among(char.lower() + char.upper())) if char.isalpha() else literal(char) for char in word))
