"""The sets of characters that regular expressions name: classes of both dialects and Unicode properties."""

from __future__ import annotations

import base64
import re
import unicodedata
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

from grammars.regular import ANY, Rx, chars
from grammars.regular.charset import invert_ranges, normalise

ASCII_WORD = chars([(48, 57), (65, 90), (95, 95), (97, 122)])
ASCII_DIGIT = chars([(48, 57)])
ASCII_SPACE = chars([(9, 13), (32, 32)])
# ECMA-262, 12.2 and 12.3: WhiteSpace and LineTerminator.
ECMA_SPACE = chars(
    [
        (0x09, 0x0D),
        (0x20, 0x20),
        (0xA0, 0xA0),
        (0x1680, 0x1680),
        (0x2000, 0x200A),
        (0x2028, 0x2029),
        (0x202F, 0x202F),
        (0x205F, 0x205F),
        (0x3000, 0x3000),
        (0xFEFF, 0xFEFF),
    ]
)
LINE_FEED = chars([(10, 10)])
ECMA_LINE_ENDS = chars([(10, 10), (13, 13), (0x2028, 0x2029)])


def invert(charset: Rx) -> Rx:
    """All scalar values that are not in a set (which may be NONE)."""
    return chars(invert_ranges(charset.a)) if charset.a else ANY


@cache
def _table() -> tuple[str, dict[str, str]]:
    """The Unicode version of the interpreter that wrote the file, and the encoded sets by every one of their names."""
    text = Path(__file__).with_name("unicode_properties.txt").read_text(encoding="ascii")
    first, *lines = text.splitlines()
    table: dict[str, str] = {}
    for line in lines:
        names, encoded = line.split(" ")
        prefix, colon, rest = names.rpartition(":")
        for name in rest.split("|"):
            table[prefix + colon + name] = encoded
    return first.split(" ")[1], table


def _decode(encoded: str) -> Rx:
    ranges: list[tuple[int, int]] = []
    position = number = shift = 0
    start: int | None = None
    for byte in zlib.decompress(base64.b85decode(encoded)):
        number |= (byte & 127) << shift
        if byte & 128:
            shift += 7
            continue
        position += number
        if start is None:
            start = position
        else:
            ranges.append((start, position))
            start = None
        number = shift = 0
    return chars(ranges)


def _scan(pattern: str) -> Rx:
    """What a one-character pattern of `re` matches: for interpreters with another version of Unicode."""
    found = re.compile(pattern)
    ranges: list[tuple[int, int]] = []
    for plane in range(17):
        base = plane << 16
        text = "".join(" " if 0xD800 <= base + code <= 0xDFFF else chr(base + code) for code in range(0x10000))
        ranges.extend((base + match.start(), base + match.end() - 1) for match in found.finditer(text))
    return chars(normalise(ranges))


def _python_set(name: str, pattern: str) -> Rx:
    version, table = _table()
    return _decode(table[f"python:{name}"]) if version == unicodedata.unidata_version else _scan(pattern)


@cache
def python_word() -> Rx:
    """What `\\w` of `re` matches: `str.isalnum` or the underscore."""
    return _python_set("word", r"\w+")


@cache
def python_digit() -> Rx:
    """What `\\d` of `re` matches: general category Nd."""
    return _python_set("digit", r"\d+")


@cache
def python_space() -> Rx:
    """What `\\s` of `re` matches: `str.isspace`."""
    return _python_set("space", r"\s+")


@cache
def cased() -> tuple[int, ...]:
    """Code points that have another case in the running interpreter."""
    version, table = _table()
    if version == unicodedata.unidata_version:
        return tuple(code for lo, hi in _decode(table["python:cased"]).a for code in range(lo, hi + 1))
    found: set[int] = set()
    for code in range(0x110000):
        char = chr(code)
        lower, upper = char.lower(), char.upper()
        if lower != upper:
            found.update(map(ord, char + lower + upper))
    return tuple(sorted(found))


class UnknownProperty(LookupError):
    """A property expression that ECMA-262 does not have, or whose data is not here; the text says which."""


@cache
def _category(name: str) -> Rx:
    encoded = _table()[1].get(f"gc:{name}")
    if encoded is None:
        raise UnknownProperty(f"no Unicode general category {name!r}")
    return _decode(encoded)


_SPECIAL: dict[str, Callable[[], Rx]] = {
    "Any": lambda: ANY,
    "ASCII": lambda: chars([(0, 127)]),
    "Assigned": lambda: invert(_category("Cn")),
}


@cache
def property_set(expression: str) -> Rx:
    """The characters with a property, written as between the braces of `\\p{…}` (ECMA-262, tables 67 to 69).

    Binary properties, general categories (`L`, `Letter`, `gc=L`) and scripts (`Script=Greek`, `scx=Grek`); besides, as
    other dialects have it, the bare name of a script.

    Raises:
        UnknownProperty: if there is no such property.
    """
    name, equals, value = expression.partition("=")
    _, table = _table()
    if equals:
        if name in ("General_Category", "gc"):
            return _category(value)
        if name in ("Script", "sc") and f"sc:{value}" in table:
            return _decode(table[f"sc:{value}"])
        if name in ("Script_Extensions", "scx") and f"sc:{value}" in table:
            return _decode(table.get(f"scx:{value}", table[f"sc:{value}"]))
        raise UnknownProperty(f"no Unicode property {expression!r}")
    if name in _SPECIAL:
        return _SPECIAL[name]()
    if ":" not in name:
        if name in table:
            return _decode(table[name])
        if f"gc:{name}" in table:
            return _category(name)
        if f"sc:{name}" in table:
            return _decode(table[f"sc:{name}"])
    raise UnknownProperty(f"no Unicode property {expression!r}")
