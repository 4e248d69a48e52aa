"""U-labels: internationalised labels in Unicode (RFC 5890 to 5893), as far as a small machine can tell.

A U-label may only be as long as its A-label fits into DNS, and how long Punycode gets is no regular property.  So every
character is charged with the most that it can cost there: labels of about 11 characters of the alphabets, 9 ideographs,
or more with ASCII among them, are in the language, and no label that is too long.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from grammars.json_schema.formats.idn_characters import (
    ARABIC_INDIC_DIGITS,
    COSTS,
    EASTERN_ARABIC_DIGITS,
    HEBREW_PUNCTUATION,
    KATAKANA_MIDDLE_DOT,
    KERAIA,
    MIDDLE_DOT,
    ZERO_WIDTH_JOINER,
    ZERO_WIDTH_NON_JOINER,
    Ranges,
    characters,
)
from grammars.json_schema.formats.pieces import DIGITS
from grammars.regular import EPSILON, NONE, PlainUnfolding, Rx, chars, concat, repeat, unfold, union

MAX_U_LABEL = 61
"""The longest A-label that a label of the language has: four such labels and their dots are 247 characters."""

# `xn--` and the hyphen behind the ASCII characters are paid in advance.
_BUDGET = MAX_U_LABEL - 5
_HYPHEN = ((0x2D, 0x2D),)
_ASCII_L = ((0x6C, 0x6C),)
_ASCII_LETTERS = ((0x61, 0x6B), (0x6D, 0x7A))


def left_label_rx() -> Rx:
    """Labels without characters that are written from right to left; at least one character is not ASCII."""
    return unfold(_Label(False, _BUDGET))


def right_label_rx() -> Rx:
    """Labels written from right to left (RFC 5893 section 2, rules 1 to 4)."""
    return unfold(_Label(True, _BUDGET))


@lru_cache(maxsize=2)
def _around(right: bool) -> Rx:
    """Any characters of labels that are written so, with no hyphen at the end."""
    classes = [(name, chars(ranges)) for name, ranges, _ in _classes()[right]]
    last = union(*[characters for name, characters in classes if name != "hyphen"])
    return concat(repeat(union(*[characters for _, characters in classes]), 0, None), last)


@dataclass(frozen=True, slots=True)
class _Label(PlainUnfolding):
    """A label in the making.

    Attributes:
        right: whether it is written from right to left.
        budget: what its A-label has left.
        position: how many characters there are, up to 4.
        last: class of the last character.
        foreign: whether one was not ASCII.
        third: whether the third is a hyphen.
        kana: 0; 1 when a katakana middle dot waits for kana or an ideograph; 2 when there is one.
        numerals: class of the digits of a label from right to left, which must not be mixed; empty without.
    """

    right: bool
    budget: int
    position: int = 0
    last: str = ""
    foreign: bool = False
    third: bool = False
    kana: int = 0
    numerals: str = ""

    @property
    def nullable(self) -> bool:
        return self._owed() == 0 and self.position > 0

    @property
    def order(self) -> int:
        text = f"{self.last} {self.numerals}".encode()
        flags = (self.right, self.foreign, self.third)
        return hash((*flags, self.budget, self.position, self.kana, int.from_bytes(text, "little")))

    @property
    def longest(self) -> int:
        return self.budget

    @property
    def outline(self) -> tuple[Rx, Rx]:
        more = _around(self.right)
        return (EPSILON, union(EPSILON, more)) if self.nullable else (NONE, more)

    def moves(self) -> Iterator[tuple[int, int, Rx]]:
        for ranges, target in self._targets():
            for low, high in ranges:
                yield low, high, target

    def set_moves(self) -> list[tuple[Rx, Rx]]:
        by_target: dict[Rx, list[tuple[int, int]]] = {}
        for ranges, target in self._targets():
            by_target.setdefault(target, []).extend(ranges)
        return [(chars(ranges), target) for target, ranges in by_target.items()]

    def _owed(self) -> int:
        """What the shortest completion costs."""
        if self.last in ("middle dot", "hyphen"):
            # Behind Arabic-Indic digits no digit in ASCII may come.
            owed = 5 if self.numerals == "indic" else 1
        elif self.last in ("keraia", "non-joiner"):
            owed = 5
        else:
            owed = 0
        if self.kana == 1:
            owed += 6
        elif not self.foreign and self.last != "keraia":
            owed = max(owed, 5)
        return owed

    def _targets(self) -> Iterator[tuple[Ranges, Rx]]:
        for name, ranges, cost in _classes()[self.right]:
            if not self._may_follow(name):
                continue
            third = self.third or (self.position == 2 and name == "hyphen")
            after = replace(
                self,
                budget=self.budget - cost,
                position=min(self.position + 1, 4),
                # What was third matters until the fourth is read.
                third=third and self.position < 3,
                last=name if name in _REMEMBERED else "other",
                foreign=self.foreign or cost > 1,
                kana=2 if name == "kana" or self.kana == 2 else 1 if name == "katakana dot" else self.kana,
                numerals=name if name in ("digit", "eastern", "indic") and self.right else self.numerals,
            )
            if after.numerals == "digit":
                after = replace(after, numerals="eastern")
            if after._owed() <= after.budget:
                yield ranges, unfold(after)

    def _may_follow(self, name: str) -> bool:
        last = self.last
        if last == "middle dot":
            return name == "l"
        if last == "keraia":
            return name == "greek"
        if last == "non-joiner":
            return name in ("dual", "joined")
        if self.position == 0 and (name in _NEVER_FIRST or (self.right and name in ("digit", "eastern", "indic"))):
            return False
        if name == "hyphen":
            return not (self.position == 3 and self.third)
        if name == "middle dot":
            return last == "l"
        if name == "joiner":
            return last == "virama"
        if name == "non-joiner":
            return last == "dual"
        if name == "hebrew mark":
            return last == "hebrew"
        if name == "indic":
            return self.numerals != "eastern"
        if name in ("digit", "eastern") and self.right:
            return self.numerals != "indic"
        return True


_REMEMBERED = frozenset({"l", "hyphen", "middle dot", "keraia", "virama", "non-joiner", "dual", "hebrew"})
_NEVER_FIRST = frozenset({"hyphen", "mark", "virama", "joiner", "non-joiner", "middle dot", "hebrew mark"})


@lru_cache(maxsize=1)
def _classes() -> tuple[tuple[tuple[str, Ranges, int], ...], ...]:
    """(class, code points, cost), for labels from left to right and for those from right to left."""
    found = characters()
    common = [("digit", DIGITS, 1), ("hyphen", _HYPHEN, 1), ("eastern", EASTERN_ARABIC_DIGITS, 5)]
    joiners = ((ZERO_WIDTH_NON_JOINER, ZERO_WIDTH_JOINER),)
    left = [
        *common,
        ("l", _ASCII_L, 1),
        ("letter", _ASCII_LETTERS, 1),
        ("middle dot", ((MIDDLE_DOT, MIDDLE_DOT),), 5),
        ("keraia", ((KERAIA, KERAIA),), 5),
        ("katakana dot", ((KATAKANA_MIDDLE_DOT, KATAKANA_MIDDLE_DOT),), 6),
        ("joiner", joiners, 5),
        *_priced(found, ("left", "greek", "kana", "mark", "virama")),
    ]
    right = [
        *common,
        ("indic", ARABIC_INDIC_DIGITS, 5),
        ("hebrew mark", HEBREW_PUNCTUATION, 5),
        ("non-joiner", ((ZERO_WIDTH_NON_JOINER, ZERO_WIDTH_NON_JOINER),), 5),
        *_priced(found, ("right", "hebrew", "dual", "joined")),
    ]
    return tuple(left), tuple(right)


def _priced(found: dict[str, Ranges], names: tuple[str, ...]) -> Iterator[tuple[str, Ranges, int]]:
    for name in names:
        for first, last, cost in COSTS:
            ranges = tuple(
                (max(low, first), min(high, last)) for low, high in found[name] if low <= last and high >= first
            )
            if ranges:
                yield name, ranges, cost
