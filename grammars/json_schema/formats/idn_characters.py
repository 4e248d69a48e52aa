"""Code points of internationalised labels by how the rules of RFC 5892 and RFC 5893 treat them.

Only characters are here that keep a label in Normalization Form C whatever stands beside them: of combining marks those
that do not compose and are not reordered, and viramas.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from idna import idnadata

Ranges = tuple[tuple[int, int], ...]

# Letters of the great blocks are alike; they are not looked at one by one.
_IDEOGRAPHS = ((0x3400, 0x4DBF), (0x4E00, 0x9FFC))
_OTHER_BLOCKS = (
    *((0xA000, 0xA48C), (0xAC00, 0xD7A3), (0x12000, 0x12399), (0x13000, 0x1342E), (0x17000, 0x187F7)),
    *((0x20000, 0x2A6D6), (0x2A700, 0x2B734), (0x2B740, 0x2B81D), (0x2B820, 0x2CEA1), (0x2CEB0, 0x2EBE0)),
    (0x30000, 0x3134A),
)
_UNIFORM = (*_IDEOGRAPHS, *_OTHER_BLOCKS)

ZERO_WIDTH_JOINER = 0x200D
ZERO_WIDTH_NON_JOINER = 0x200C
MIDDLE_DOT = 0xB7
KERAIA = 0x375
KATAKANA_MIDDLE_DOT = 0x30FB
HEBREW_PUNCTUATION = ((0x5F3, 0x5F4),)
ARABIC_INDIC_DIGITS = ((0x660, 0x669),)
EASTERN_ARABIC_DIGITS = ((0x6F0, 0x6F9),)

COSTS = ((0x80, 0x2FFF, 5), (0x3000, 0xFFFF, 6), (0x10000, 0x10FFFF, 7))
"""First and last code point, and how many digits Punycode needs for one at most, in a label of up to 59 characters."""


@lru_cache(maxsize=1)
def characters() -> dict[str, Ranges]:
    """Valid characters that are not ASCII, by class.

    `left`: written from left to right; of them `greek` (its own block) and `kana` (Hiragana, Katakana and the
    ideographs of the two old blocks) apart.  `mark`: combining.  `virama`.  `right`: written from right to left; of
    them `hebrew`, `dual` (joins on both sides) and `joined` (joins the character before it) apart.
    """
    composing = _composing()
    scripts = {name: _unpacked(idnadata.scripts[name]) for name in ("Greek", "Hebrew", "Hiragana", "Katakana")}
    joining = {name: _unpacked(idnadata.joining_types[name]) for name in ("D", "R")}
    found: dict[str, list[tuple[int, int]]] = {
        name: [] for name in ("left", "greek", "kana", "mark", "virama", "right", "hebrew", "dual", "joined")
    }
    found["left"].extend(_OTHER_BLOCKS)
    found["kana"].extend(_IDEOGRAPHS)
    for first, last in _outside_of_blocks(idnadata.codepoint_classes["PVALID"]):
        for code in range(first, last + 1):
            name = _class_of(code, chr(code), composing, scripts, joining)
            if name is not None:
                found[name].append((code, code))
    return {name: _merged(ranges) for name, ranges in found.items()}


def _outside_of_blocks(packed: Iterable[int]) -> Iterable[tuple[int, int]]:
    """The ranges less ASCII and the uniform blocks."""
    for first, last in _packed_ranges(packed):
        start = max(first, 0x80)
        for low, high in _UNIFORM:
            if high < start or low > last:
                continue
            yield start, low - 1
            start = high + 1
        yield start, last


def _class_of(
    code: int, char: str, composing: set[int], scripts: dict[str, set[int]], joining: dict[str, set[int]]
) -> str | None:
    category = unicodedata.category(char)
    if category == "Cn" or code in composing or not unicodedata.is_normalized("NFC", char):
        return None
    combining = unicodedata.combining(char)
    direction = unicodedata.bidirectional(char)
    if category[0] == "M":
        if combining == 9:
            return "virama"
        return "mark" if combining == 0 and direction in ("L", "NSM") else None
    if combining:
        return None
    if direction == "L":
        if code in scripts["Greek"] and code < 0x400:
            return "greek"
        kana = code < 0x3100 and (code in scripts["Hiragana"] or code in scripts["Katakana"])
        return "kana" if kana else "left"
    if direction not in ("R", "AL"):
        return None
    if code in scripts["Hebrew"]:
        return "hebrew"
    return "dual" if code in joining["D"] else "joined" if code in joining["R"] else "right"


def _composing() -> set[int]:
    """Characters that may compose with one before them."""
    seconds = set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))
    for code in (*range(0xC0, 0x3100), *range(0x11000, 0x12000), *range(0x16100, 0x16200)):
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) == 2 and parts[0][0] != "<":
            seconds.add(int(parts[1], 16))
    return seconds


def _packed_ranges(packed: Iterable[int]) -> Iterable[tuple[int, int]]:
    return ((span >> 32, (span & 0xFFFFFFFF) - 1) for span in packed)


def _unpacked(packed: Iterable[int]) -> set[int]:
    return {code for first, last in _packed_ranges(packed) for code in range(first, last + 1)}


def _merged(ranges: list[tuple[int, int]]) -> Ranges:
    out: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if out and first == out[-1][1] + 1:
            out[-1] = (out[-1][0], last)
        else:
            out.append((first, last))
    return tuple(out)
