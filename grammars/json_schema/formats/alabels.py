"""A-labels: `xn--` and the Punycode (RFC 3492) of a valid internationalised label (RFC 5890 to 5893).

Whether Punycode decodes to a valid label depends on every character of it, so a state is the text itself, and finding
out whether it can still be completed would be a search.  Two families of labels make both cheap:

- labels without ASCII characters: the Punycode is all digits, checked by `idna` where it ends;
- ASCII letters and digits with one Latin letter (up to U+017F), Eastern Arabic digit or middle dot (between two `l`)
  among them: the digits behind the hyphen depend on how long the ASCII part is, hardly on what it says.

Whatever was read before a hyphen can become an ASCII part, so every prefix of a label is live, and a text whose digits
already decode to something illegal is remembered as nothing but its length.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import idna
from idna import idnadata

from grammars.memory import remembered
from grammars.regular import (
    EPSILON,
    PlainUnfolding,
    Rx,
    chars,
    concat,
    is_empty,
    literal,
    literals,
    repeat,
    unfold,
    union,
)
from grammars.regular.rx import BOOLEAN, CONCAT, UNFOLD, UNION

PREFIX = "xn--"
MAX_ASCII = 40
_MAX_DIGITS = 4
MAX_A_LABEL = len(PREFIX) + MAX_ASCII + 1 + _MAX_DIGITS
"""The longest A-label in the language; DNS has 63."""

_DIGITS = "abcdefghijklmnopqrstuvwxyz0123456789"
_ALNUM = chars(((0x30, 0x39), (0x61, 0x7A)))
_AROUND = concat(repeat(chars(((0x2D, 0x2D), (0x30, 0x39), (0x61, 0x7A))), 0, None), _ALNUM)
_MIDDLE_DOT = "\u00b7"
_WAITING = (0x375, 0x30FB)
"""Keraia and katakana middle dot, which are valid beside characters that are inserted after them."""


@lru_cache(maxsize=1)
def a_label_rx() -> Rx:
    """A-labels of the two families, in lower case as Punycode makes them, at most `MAX_A_LABEL` characters long."""
    return concat(literal(PREFIX), unfold(Digits("")))


@dataclass(frozen=True, slots=True)
class Digits(PlainUnfolding):
    """No hyphen has been read, and what has been read may be the Punycode of a label without ASCII characters."""

    text: str

    @property
    def nullable(self) -> bool:
        return is_a_label(self.text)

    @property
    def order(self) -> int:
        return hash((1, int.from_bytes(self.text.encode(), "little")))

    @property
    def longest(self) -> int:
        return MAX_ASCII + 1 + _MAX_DIGITS - len(self.text)

    @property
    def outline(self) -> tuple[Rx, Rx]:
        length = len(self.text)
        inside = [EPSILON] if self.nullable else []
        if length:
            inside.append(concat(literal("-"), _insertions(length)))
        if length < MAX_ASCII:
            inside.append(concat(_ALNUM, literal("-"), _insertions(length + 1)))
        return union(*inside), union(EPSILON, _AROUND) if self.nullable else _AROUND

    def moves(self) -> Iterator[tuple[int, int, Rx]]:
        text = self.text
        yield from EndedLabel(text).moves()
        if len(text) == MAX_ASCII:
            return
        for letter in _DIGITS:
            longer = text + letter
            target = Digits(longer) if _may_be_digits(longer) else _Ascii(len(longer))
            yield ord(letter), ord(letter), unfold(target)


@dataclass(frozen=True, slots=True)
class EndedLabel(PlainUnfolding):
    """As `Digits`, where no letter or digit follows any more."""

    text: str

    @property
    def nullable(self) -> bool:
        return is_a_label(self.text)

    @property
    def order(self) -> int:
        return hash((3, int.from_bytes(self.text.encode(), "little")))

    @property
    def longest(self) -> int:
        return 1 + _MAX_DIGITS

    @property
    def live(self) -> bool:  # type: ignore[override]
        return bool(self.text)

    def moves(self) -> Iterator[tuple[int, int, Rx]]:
        text = self.text
        if text:
            dotted = [
                _inserted(len(text), position, _MIDDLE_DOT)
                for position in range(1, len(text))
                if text[position - 1] == text[position] == "l"
            ]
            yield 0x2D, 0x2D, union(_insertions(len(text)), literals(dotted))


@dataclass(frozen=True, slots=True)
class UnknownLabel(PlainUnfolding):
    """So many letters and digits after `xn--`; what they are is to be looked up, and whether the label may end here.

    With `dots`, there may be two letters `l` anywhere that a middle dot can stand between; else nowhere.
    """

    length: int
    dots: bool = True

    @property
    def nullable(self) -> bool:
        return True

    @property
    def order(self) -> int:
        return hash((4, self.length, self.dots))

    @property
    def longest(self) -> int:
        return 1 + _MAX_DIGITS

    def moves(self) -> Iterator[tuple[int, int, Rx]]:
        dotted = [_inserted(self.length, position, _MIDDLE_DOT) for position in range(1, self.length) if self.dots]
        yield 0x2D, 0x2D, union(_insertions(self.length), literals(dotted))


@dataclass(frozen=True, slots=True)
class _Ascii(PlainUnfolding):
    """So many ASCII letters and digits; a hyphen and the digits of one insertion must follow."""

    length: int

    @property
    def nullable(self) -> bool:
        return False

    @property
    def order(self) -> int:
        return hash((2, self.length))

    @property
    def longest(self) -> int:
        return MAX_ASCII + 1 + _MAX_DIGITS - self.length

    def moves(self) -> Iterator[tuple[int, int, Rx]]:
        yield 0x2D, 0x2D, _insertions(self.length)
        if self.length < MAX_ASCII:
            longer = unfold(_Ascii(self.length + 1))
            yield 0x30, 0x39, longer
            yield 0x61, 0x7A, longer


LabelState = Digits | EndedLabel | UnknownLabel


def label_state(rx: Rx) -> LabelState | None:
    """The state of the A-label that `rx` is in the middle of; None if it is in none, or other conditions hold beside it."""
    if not _begins_in_label(rx):
        return None
    found: LabelState | None = None
    stack = [rx]
    while stack:
        node = stack.pop()
        if node.kind == UNION:
            stack += [child for child in node.a if not (child.flags & BOOLEAN and is_empty(child))]
        elif node.kind == CONCAT:
            stack.append(node.a)
        elif node.kind == UNFOLD and isinstance(node.a, Digits | EndedLabel | UnknownLabel):
            if found is not None and found != node.a:
                return None
            found = node.a
        elif node.flags & BOOLEAN:
            return None
    return found


def _begins_in_label(rx: Rx) -> bool:
    """Whether some part of `rx`, empty or not, is in the middle of an A-label: most are in none, and emptiness is dear."""
    stack = [rx]
    while stack:
        node = stack.pop()
        if node.kind == UNION:
            stack += node.a
        elif node.kind == CONCAT:
            stack.append(node.a)
        elif node.kind == UNFOLD and isinstance(node.a, Digits | EndedLabel | UnknownLabel):
            return True
    return False


def with_label(rx: Rx, state: LabelState) -> Rx:
    """`rx`, which is in the middle of an A-label, with another state of that label."""
    if rx.kind == UNION:
        return union(*[with_label(child, state) for child in rx.a if not (child.flags & BOOLEAN and is_empty(child))])
    if rx.kind == CONCAT:
        return concat(with_label(rx.a, state), rx.b)
    if rx.kind == UNFOLD and isinstance(rx.a, Digits | EndedLabel | UnknownLabel):
        return unfold(state)
    return rx


@remembered(4096)
def is_a_label(text: str) -> bool:
    """Whether `xn--` and this text are an A-label as the registration protocol makes it (RFC 5891 section 5.4)."""
    if not text:
        return False
    try:
        idna.ulabel(PREFIX + text)
    except (idna.IDNAError, UnicodeError):
        return False
    return True


def _inserted(length: int, position: int, char: str) -> str:
    """The Punycode digits of one character inserted into an ASCII part of this length (RFC 3492 section 6.3)."""
    delta = (ord(char) - 128) * (length + 1) + position
    digits: list[str] = []
    place = 36
    while True:
        threshold = min(max(place - 72, 1), 26)
        if delta < threshold:
            return "".join(digits) + _DIGITS[delta]
        delta, digit = divmod(delta - threshold, 36 - threshold)
        digits.append(_DIGITS[threshold + digit])
        place += 36


@lru_cache(maxsize=MAX_ASCII)
def _insertions(length: int) -> Rx:
    """Punycode digits of one harmless letter or digit anywhere in an ASCII part of this length."""
    return literals(_inserted(length, position, char) for char in _harmless() for position in range(length + 1))


@lru_cache(maxsize=1)
def _harmless() -> tuple[str, ...]:
    """Characters that are valid anywhere among ASCII letters and digits: no rule looks at their neighbours."""
    latin = [chr(code) for code in range(0xDF, 0x180) if _status(code) == "PVALID"]
    return (*latin, *(chr(code) for code in range(0x6F0, 0x6FA)))


@lru_cache(maxsize=1)
def _valid_ranges() -> tuple[list[int], list[int]]:
    """First and last code points of the ranges that RFC 5892 allows, some only in context."""
    packed = sorted(span for name in ("PVALID", "CONTEXTJ", "CONTEXTO") for span in idnadata.codepoint_classes[name])
    return [span >> 32 for span in packed], [(span & 0xFFFFFFFF) - 1 for span in packed]


def _status(code: int) -> str | None:
    for name, spans in idnadata.codepoint_classes.items():
        index = bisect_right(spans, code << 32 | 0xFFFFFFFF) - 1
        if index >= 0 and code < spans[index] & 0xFFFFFFFF:
            return name
    return None


def _may_be_digits(text: str) -> bool:
    """Whether the text, read as digits (RFC 3492 section 6.2), encodes a label or the beginning of one more character.

    Every insertion must leave a valid label, or one with a sign that waits for a greater character beside it: most
    texts encode nothing, and this tells so early.
    """
    firsts, lasts = _valid_ranges()
    code, index, bias, count = 128, 0, 72, 0
    delta, weight, place = 0, 1, 36
    complete = waiting = False
    for letter in text:
        digit = ord(letter) - 97 if letter >= "a" else ord(letter) - 22
        delta += digit * weight
        threshold = min(max(place - bias, 1), 26)
        complete = digit < threshold
        if not complete:
            weight *= 36 - threshold
            place += 36
            continue
        index += delta
        count += 1
        code += index // count
        index = index % count + 1
        if code > lasts[-1]:
            return False
        waiting = waiting or code in _WAITING
        delta = delta // 700 if count == 1 else delta // 2
        delta += delta // count
        place = 0
        while delta > 455:
            delta //= 35
            place += 36
        bias = place + 36 * delta // (delta + 38)
        delta, weight, place = 0, 1, 36
    if complete:
        return waiting or is_a_label(text)
    # The digits to come are worth any multiple of the weight.
    while True:
        following = code + (index + delta) // (count + 1)
        if following > lasts[-1]:
            return False
        found = bisect_right(firsts, following) - 1
        if found >= 0 and following <= lasts[found]:
            return True
        delta += weight
