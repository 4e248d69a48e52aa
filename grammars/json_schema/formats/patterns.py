r"""regex: patterns of ECMA-262 (section 22.2.1) that mean the same with and without the flag `u`.

Balanced brackets are not regular, so groups nest up to `MAX_DEPTH`.  Every member is a valid pattern under the strict
grammar (`u`).  Left out, though valid: back references by number, `\0`, `\u{...}`, surrogate escapes, inline modifiers,
repeats beyond 999, ranges in classes whose ends are not printable ASCII, hyphens in classes that are neither first nor
last nor in a range, groups named with more than ASCII letters, digits, `_` and `$`.  Single letters and a few common names
are known names, which may be referred to; of other names there is at most one, which is not, so that no state depends
on how it was spelled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from grammars.json_schema.formats.pieces import (
    ALPHA,
    DIGITS,
    HEXDIG,
    LETTERS,
    among,
    exactly,
    optional,
)
from grammars.memory import remembered
from grammars.regular import (
    ANY,
    EPSILON,
    PlainUnfolding,
    Rx,
    chars,
    concat,
    difference,
    literal,
    literals,
    moves,
    unfold,
    union,
)

MAX_DEPTH = 8
MAX_NAMES = 4
MAX_NAME_LENGTH = 24
MAX_REPEAT = 999

_SYNTAX = "^$\\.*+?()[]{}|"
_PLAIN = difference(ANY, chars(among(_SYNTAX)))
_CATEGORIES = [
    *["C", "Cc", "Cf", "Co", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N", "Nd", "Nl", "No"],
    *["P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So", "Z", "Zl", "Zp", "Zs"],
]
_NAME_START = (*LETTERS, *among("_$"))
_NAME_PART = (*_NAME_START, *DIGITS)

_RANGE_ENDS = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in "\\]-^[")
_CLASS_OTHERS = difference(ANY, chars(among("\\]-" + _RANGE_ENDS)))

_KNOWN_NAMES = (
    *(chr(code) for low, high in _NAME_START for code in range(low, high + 1)),
    *["year", "month", "day", "hour", "minute", "second", "date", "time", "name", "key", "value", "id", "word", "tag"],
    *["first", "last", "quote", "host", "port", "path", "query", "user", "domain", "major", "minor", "patch", "number"],
)

# What may come next is a matter of what came before: nothing to repeat, something, or a repeat to be made lazy.
_BARE, _ATOM, _REPEAT = range(3)


def regex_rx() -> Rx:
    """Patterns, without delimiters and flags."""
    return unfold(_Pattern((), (), False, _BARE))


@dataclass(frozen=True, slots=True)
class _Pattern(PlainUnfolding):
    """Between two terms.

    Attributes:
        open: of each open bracket, outermost first, whether what it encloses may be repeated (lookarounds may not).
        names: of the groups so far that have known names.
        named: whether a group has another name.
        after: `_BARE`, `_ATOM` or `_REPEAT`.
    """

    open: tuple[bool, ...]
    names: tuple[str, ...]
    named: bool
    after: int

    @property
    def nullable(self) -> bool:
        return not self.open

    @property
    def order(self) -> int:
        return hash((1, *self.open, self.after, self.named, _order(self.names)))

    def set_moves(self) -> list[tuple[Rx, Rx]]:
        atom = self._then(_ATOM)
        bare = self._then(_BARE)
        parts = [
            concat(union(_PLAIN, literal(".")), atom),
            concat(chars(among("^$|")), bare),
            concat(literal("["), _class_rx(), atom),
            concat(literal("\\"), union(concat(_escapes(), atom), concat(chars(among("bB")), bare))),
        ]
        if self.names:
            parts.append(concat(literal("\\k<"), literals(self.names), literal(">"), atom))
        if self.after == _ATOM:
            repeat = self._then(_REPEAT)
            parts += [concat(chars(among("*+?")), repeat), concat(literal("{"), unfold(_Count("")), repeat)]
        elif self.after == _REPEAT:
            parts.append(concat(literal("?"), bare))
        if self.open:
            closed = _Pattern(self.open[:-1], self.names, self.named, _ATOM if self.open[-1] else _BARE)
            parts.append(concat(literal(")"), unfold(closed)))
        if len(self.open) < MAX_DEPTH:
            group = unfold(_Pattern((*self.open, True), self.names, self.named, _BARE))
            look = unfold(_Pattern((*self.open, False), self.names, self.named, _BARE))
            parts += [
                concat(literals(["(", "(?:"]), group),
                concat(literals(["(?=", "(?!", "(?<=", "(?<!"]), look),
            ]
            if len(self.names) < MAX_NAMES:
                parts.append(concat(literal("(?<"), unfold(_Name(self.open, self.names, self.named, "", 0))))
        return list(moves(union(*parts)))

    def moves(self) -> Iterator[tuple[int, int, Rx]]:
        return _flat(self.set_moves())

    def _then(self, after: int) -> Rx:
        return unfold(_Pattern(self.open, self.names, self.named, after))


@dataclass(frozen=True, slots=True)
class _Name(PlainUnfolding):
    """Inside the name of a group.

    Attributes:
        open, names, named: of the pattern around.
        read: what has been read, as long as a known name begins so.
        length: how many characters have been read.
    """

    open: tuple[bool, ...]
    names: tuple[str, ...]
    named: bool
    read: str
    length: int

    @property
    def nullable(self) -> bool:
        return False

    @property
    def order(self) -> int:
        return hash((2, *self.open, self.named, self.length, _order((*self.names, self.read))))

    def moves(self) -> Iterator[tuple[int, int, Rx]]:
        opened = (*self.open, True)
        if self.read in _KNOWN_NAMES:
            if self.read not in self.names:
                yield 0x3E, 0x3E, unfold(_Pattern(opened, (*self.names, self.read), self.named, _BARE))
        elif self.length and not self.named:
            yield 0x3E, 0x3E, unfold(_Pattern(opened, self.names, True, _BARE))
        if self.length == MAX_NAME_LENGTH:
            return
        unknown = unfold(_Name(self.open, self.names, self.named, "", self.length + 1))
        for low, high in _NAME_PART if self.length else _NAME_START:
            for code in range(low, high + 1):
                longer = self.read + chr(code)
                known = [name for name in _KNOWN_NAMES if name.startswith(longer)] if len(longer) > self.length else []
                if known and not (self.named and all(name in self.names for name in known)):
                    yield code, code, unfold(_Name(self.open, self.names, self.named, longer, self.length + 1))
                elif not known and not self.named:
                    yield code, code, unknown


@dataclass(frozen=True, slots=True)
class _Count(PlainUnfolding):
    """Inside `{n}`, `{n,}` or `{n,m}`, after the bracket and the digits `read` of `n`."""

    read: str

    @property
    def nullable(self) -> bool:
        return False

    @property
    def order(self) -> int:
        return hash((3, *map(ord, self.read)))

    def moves(self) -> Iterator[tuple[int, int, Rx]]:
        if self.read != "0" and len(self.read) < len(str(MAX_REPEAT)):
            for digit in range(10):
                yield 0x30 + digit, 0x30 + digit, unfold(_Count(f"{self.read}{digit}"))
        if self.read:
            greater = literals(map(str, range(int(self.read), MAX_REPEAT + 1)))
            yield 0x2C, 0x2C, concat(optional(greater), literal("}"))
            yield 0x7D, 0x7D, EPSILON


def _flat(by_set: list[tuple[Rx, Rx]]) -> Iterator[tuple[int, int, Rx]]:
    return ((low, high, target) for letters, target in by_set for low, high in letters.a)


def _order(names: tuple[str, ...]) -> int:
    return int.from_bytes(",".join(names).encode(), "little")


@lru_cache(maxsize=1)
def _escapes() -> Rx:
    """What follows a backslash for one character or a set of them, in and out of classes."""
    digit_not_d = difference(HEXDIG, chars(among("dD")))
    unicode = union(
        concat(digit_not_d, exactly(HEXDIG, 3)),
        concat(chars(among("dD")), chars(among("01234567")), exactly(HEXDIG, 2)),
    )
    return union(
        chars(among("dDsSwWfnrtv/" + _SYNTAX)),
        concat(literal("c"), ALPHA),
        concat(literal("x"), exactly(HEXDIG, 2)),
        concat(literal("u"), unicode),
        concat(chars(among("pP")), literal("{"), literals(_CATEGORIES), literal("}")),
    )


def _class_rx() -> Rx:
    """The rest of a character class after its bracket."""
    return concat(optional(literal("^")), optional(literal("-")), unfold(_Class(None)))


@dataclass(frozen=True, slots=True)
class _Class(PlainUnfolding):
    """Inside a character class, behind its `^` and first hyphen.

    Attributes:
        low: a printable ASCII character that may begin a range, if it was the last thing read.
    """

    low: str | None

    @property
    def nullable(self) -> bool:
        return False

    @property
    def order(self) -> int:
        return hash((4, ord(self.low) if self.low else 0))

    def moves(self) -> Iterator[tuple[int, int, Rx]]:
        return _flat(self.set_moves())

    def set_moves(self) -> list[tuple[Rx, Rx]]:
        anything = unfold(_Class(None))
        hyphen = literal("]")
        if self.low is not None:
            high = chars(among("".join(end for end in _RANGE_ENDS if end >= self.low)))
            hyphen = union(hyphen, concat(high, anything))
        return [*_class_moves(), (chars(among("-")), hyphen)]


@remembered(1)
def _class_moves() -> list[tuple[Rx, Rx]]:
    """The moves of all classes: but for the hyphen, it does not matter what was read."""
    anything = unfold(_Class(None))
    return [
        (chars(among("]")), EPSILON),
        (chars(among("\\")), concat(union(_escapes(), chars(among("b-"))), anything)),
        (_CLASS_OTHERS, anything),
        *((chars(among(low)), unfold(_Class(low))) for low in _RANGE_ENDS),
    ]
