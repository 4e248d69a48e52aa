"""Parser of ECMA-262 regular expressions (22.2.1 Patterns; Annex B.1.2), as JSON Schema has them.

A pattern is read as with the `u` flag first, as JSON Schema asks.  What is no such expression is read leniently: by
Annex B, with code points instead of code units, `\\p{…}` and `\\u{…}` where they are well-formed, and what authors
bring along from other dialects where it can mean one thing only: `(?i)` in front, `(?P<name>…)`, `\\A` in front, `\\Z`
and `\\z` at an end.
"""

from __future__ import annotations

import re
from functools import partial

from grammars.errors import RegexError
from grammars.regex.casing import ecma_ignore_case
from grammars.regex.reader import Reader
from grammars.regex.syntax import (
    Look,
    Node,
    boundary,
    end_of_text,
    line_end,
    line_start,
    no_boundary,
    start_of_text,
)
from grammars.regex.unicode_sets import (
    ASCII_DIGIT,
    ASCII_WORD,
    ECMA_LINE_ENDS,
    ECMA_SPACE,
    UnknownProperty,
    invert,
    property_set,
)
from grammars.regular import ANY, NONE, Rx, chars
from grammars.regular.charset import join, join_all

IGNORECASE, MULTILINE, DOTALL, UNICODE = (int(flag) for flag in (re.I, re.M, re.S, re.U))
ACCEPTED_FLAGS = IGNORECASE | MULTILINE | DOTALL | UNICODE

_FLAGS = {"i": IGNORECASE, "m": MULTILINE, "s": DOTALL}
_DIGITS = "0123456789"
_HEX = "0123456789abcdefABCDEF"
_OCTAL = "01234567"
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_CONTROLS = {"f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_SYNTAX = "^$\\.*+?()[]{}|/"
_KELVIN_AND_LONG_S = chars([(0x17F, 0x17F), (0x212A, 0x212A)])


def read(pattern: str, flags: int) -> Node:
    """The syntax of a pattern.

    Raises:
        RegexError: if it is no expression either way.
        UnsupportedFeature: for back-references.
    """
    if flags & ~ACCEPTED_FLAGS:
        raise ValueError(f"flags={flags}: ECMA-262 expressions take I, M and S only")
    try:
        return EcmaReader(pattern, flags, lenient=False).parse()
    except RegexError:
        return EcmaReader(pattern, flags, lenient=True).parse()


class EcmaReader(Reader):
    """Reads one pattern, with the `u` flag or leniently."""

    def __init__(self, pattern: str, flags: int, lenient: bool) -> None:
        super().__init__(pattern, flags)
        self.lenient = lenient
        self.groups, self.names = _count_groups(pattern)

    def parse(self) -> Node:
        """The syntax of the pattern."""
        pattern = self.pattern
        if self.lenient:
            self._leading_flags()
        while self.position < len(pattern):
            start = self.position
            char = pattern[start]
            self.position += 1
            if char not in "\\[](){}*+?.^$|":
                self._literal(char)
            elif char == "\\":
                self._escape(start)
            elif char == "[":
                self.add(self._class(start))
            elif char == "(":
                self._group(start)
            elif char == ")":
                if len(self.stack) == 1:
                    self.fail("unmatched )", start)
                self.close()
            elif char == "|":
                self.alternative()
            elif char == ".":
                self.add(ANY if self.flags & DOTALL else invert(ECMA_LINE_ENDS))
            elif char == "^":
                self._anchor(line_start(ECMA_LINE_ENDS, start) if self.flags & MULTILINE else start_of_text(start))
            elif char == "$":
                self._anchor(line_end(ECMA_LINE_ENDS, start) if self.flags & MULTILINE else end_of_text(start))
            elif char in "]}":
                if not self.lenient:
                    self.fail(f"lone {char}", start)
                self._literal(char)
            else:
                self._quantifier(char, start)
        return self.finish()

    def _leading_flags(self) -> None:
        """`(?i)` and the like in front of the whole pattern, which is Python's, Java's and PCRE's way."""
        while found := re.compile(r"\(\?([ims]+)\)").match(self.pattern, self.position):
            for name in found[1]:
                self.flags |= _FLAGS[name]
            self.position = found.end()

    # --- atoms ---

    def _fold(self, charset: Rx) -> Rx:
        return (
            ecma_ignore_case(charset, not self.lenient) if self.flags & IGNORECASE and charset is not NONE else charset
        )

    def _literal(self, char: str) -> None:
        if self.flags & IGNORECASE:
            self.add(self._fold(chars([(ord(char), ord(char))])))
        else:
            self.add(char)

    def _anchor(self, node: Node) -> None:
        self.add_assertion(node)
        self.stack[-1].anchor = True

    def _quantifier(self, char: str, start: int) -> None:
        least, most = 0, None
        if char == "?":
            most = 1
        elif char == "+":
            least = 1
        elif char == "{":
            found = self._braces(start)
            if found is None:
                if not self.lenient:
                    self.fail("lone {", start)
                self._literal(char)
                return
            least, most = found
        group = self.stack[-1]
        if not group.items or group.anchor or group.repeated:
            self.fail("nothing to repeat", start)
        self.take("?")
        self.apply(least, most, True, start)

    def _braces(self, start: int) -> tuple[int, int | None] | None:
        low = self.take_while(_DIGITS)
        if low:
            high: str | None = low
            if self.take(","):
                high = self.take_while(_DIGITS) or None
            if self.take("}"):
                least = self.bounds(low, start)
                most = None if high is None else self.bounds(high, start)
                if most is not None and most < least:
                    self.fail("numbers out of order in a quantifier", start)
                return least, most
        self.position = start + 1
        return None

    # --- escapes ---

    def _escape(self, start: int) -> None:
        char = self.peek()
        if not char:
            self.fail("\\ at the end of the pattern", start)
        if char == "b":
            self.position += 1
            self._anchor(boundary(self._word(), start))
        elif char == "B":
            self.position += 1
            self._anchor(no_boundary(self._word(), start, in_empty_text=True))
        elif char == "k" and (not self.lenient or self.names):
            self.position += 1
            if not self.take("<"):
                self.fail("\\k without a group name", start)
            name = self.take_until(">", "missing > of a group name")
            if name not in self.names:
                self.fail(f"\\k<{name}> names no group", start)
            self.refuse(f"the back-reference \\k<{name}>", start)
        elif char in "123456789" and self._is_reference(start):
            self.refuse(f"the back-reference \\{self.take_while(_DIGITS)}", start)
        elif self.lenient and char in "AZz":
            self.position += 1
            self._foreign_anchor(char, start)
        else:
            found = self._class_escape(start)
            if isinstance(found, Rx):
                self.add(found)
            else:
                self._literal(chr(found))

    def _is_reference(self, start: int) -> bool:
        digits = re.compile(r"\d+").match(self.pattern, start + 1)
        assert digits is not None
        if len(digits[0]) < 6 and int(digits[0]) <= self.groups:
            return True
        if not self.lenient:
            self.fail(f"\\{digits[0]} refers to no group", start)
        return False

    def _foreign_anchor(self, char: str, start: int) -> None:
        """Anchors of Python, Perl and others; ECMA-262 has them as plain letters, which nobody means."""
        if char == "A":
            if any(group.items for group in self.stack):
                self.fail("\\A is an anchor elsewhere and a letter in ECMA-262; ^ is the anchor", start)
            self._anchor(start_of_text(start))
            return
        if self.peek() and self.peek() not in ")|":
            self.fail(f"\\{char} is an anchor elsewhere and a letter in ECMA-262; $ is the anchor", start)
        self._anchor(end_of_text(start))

    def _class_escape(self, start: int, in_class: bool = False) -> Rx | int:
        """What an escape stands for that may come in a class too; the cursor is behind the backslash."""
        char = self.pattern[self.position]
        self.position += 1
        if char in "dDsSwW":
            return self._category(char)
        if char in "pP":
            return self._property(char, start)
        if char in _CONTROLS:
            return ord(_CONTROLS[char])
        if char == "c":
            return self._control(start, in_class)
        if char == "x":
            return self._hex(2, start, char)
        if char == "u":
            return self._unicode(start)
        if char in _DIGITS:
            return self._octal(char, start)
        if in_class and (char == "b" or (char == "-" and not self.lenient)):
            return 8 if char == "b" else 45
        if not self.lenient and char not in _SYNTAX:
            self.fail(f"bad escape \\{char}", start)
        return ord(char)

    def _word(self) -> Rx:
        if self.flags & IGNORECASE and not self.lenient:
            return join(ASCII_WORD, _KELVIN_AND_LONG_S)
        return ASCII_WORD

    def _category(self, char: str) -> Rx:
        lower = char.lower()
        charset = ASCII_DIGIT if lower == "d" else ECMA_SPACE if lower == "s" else self._word()
        return charset if char == lower else self._fold(invert(charset))

    def _property(self, char: str, start: int) -> Rx:
        # Annex B has a letter p here, which nobody means.
        found = re.compile(r"\{([A-Za-z_]+(?:=[A-Za-z0-9_]+)?)\}").match(self.pattern, self.position)
        if found is None:
            self.fail(f"\\{char} without a property in braces", start)
        try:
            charset = property_set(found[1])
        except UnknownProperty as error:
            self.fail(str(error), start)
        self.position = found.end()
        return self._fold(charset if char == "p" else invert(charset))

    def _control(self, start: int, in_class: bool) -> int:
        char = self.peek()
        allowed = _LETTERS + (_DIGITS + "_" if in_class and self.lenient else "")
        if char and char in allowed:
            self.position += 1
            return ord(char) % 32
        if not self.lenient:
            self.fail("\\c without a letter", start)
        # Annex B: the backslash stands for itself, and what follows too.
        self.position -= 1
        return 92

    def _hex(self, width: int, start: int, char: str) -> int:
        digits = self.take_while(_HEX, width)
        if len(digits) == width:
            return int(digits, 16)
        if not self.lenient:
            self.fail(f"\\{char} without {width} hexadecimal digits", start)
        self.position -= len(digits)
        return ord(char)

    def _unicode(self, start: int) -> int:
        if self.take("{"):
            digits = self.take_while(_HEX)
            if digits and len(digits.lstrip("0")) <= 6 and int(digits, 16) <= 0x10FFFF and self.take("}"):
                return int(digits, 16)
            if not self.lenient:
                self.fail("\\u{ without a code point", start)
            self.position = start + 2
            return ord("u")
        code = self._hex(4, start, "u")
        if 0xD800 <= code <= 0xDBFF and self.pattern.startswith("\\u", self.position):
            here = self.position
            self.position += 2
            low = self.take_while(_HEX, 4)
            if len(low) == 4 and 0xDC00 <= int(low, 16) <= 0xDFFF:
                return 0x10000 + ((code - 0xD800) << 10) + int(low, 16) - 0xDC00
            self.position = here
        return code

    def _octal(self, first: str, start: int) -> int:
        if first == "0" and self.peek() not in tuple(_DIGITS):
            return 0
        if not self.lenient:
            self.fail(f"bad escape \\{first}", start)
        if first in "89":
            return ord(first)
        digits = first + self.take_while(_OCTAL, 2 if first in "0123" else 1)
        return int(digits, 8)

    # --- classes ---

    def _class(self, start: int) -> Rx:
        negative = self.take("^")
        letters: list[tuple[int, int]] = []
        sets: list[Rx] = []

        def put(atom: int | Rx) -> None:
            if isinstance(atom, Rx):
                sets.append(atom)
            else:
                letters.append((atom, atom))

        while True:
            here = self.position
            if not self.peek():
                self.fail("unterminated character class", start)
            if self.take("]"):
                break
            low = self._class_atom()
            if self.peek() != "-" or self.pattern[self.position + 1 : self.position + 2] in ("]", ""):
                put(low)
                continue
            self.position += 1
            high = self._class_atom()
            if isinstance(low, Rx) or isinstance(high, Rx):
                if not self.lenient:
                    self.fail("a range with a class at its end", here)
                put(low)
                put(45)
                put(high)
            elif high < low:
                self.fail("a range out of order in a character class", here)
            else:
                letters.append((low, high))
        charset = join_all([self._fold(chars(letters)), *sets])
        return invert(charset) if negative else charset

    def _class_atom(self) -> int | Rx:
        start = self.position
        char = self.pattern[start]
        self.position += 1
        if char != "\\":
            return ord(char)
        if not self.peek():
            self.fail("\\ at the end of the pattern", start)
        return self._class_escape(start, in_class=True)

    # --- groups ---

    def _group(self, start: int) -> None:
        if not self.take("?"):
            self.open(_itself, start)
            return
        if self.take(":"):
            self.open(_itself, start)
        elif self.take("=") or self.take("!"):
            self.open(partial(_look, True, self.pattern[self.position - 1] == "!", start), start)
            self.stack[-1].quantifiable = self.lenient
        elif self.take("<=") or self.take("<!"):
            self.open(partial(_look, False, self.pattern[self.position - 1] == "!", start), start)
            self.stack[-1].quantifiable = False
        elif self.take("<") or (self.lenient and self.take("P<")):
            self._named(start)
        elif self.lenient and self.take("P="):
            self.refuse("a back-reference (?P=…)", start)
        elif not self._modifiers(start):
            self.fail(f"unknown group (?{self.peek()}", start)

    def _named(self, start: int) -> None:
        name = self.take_until(">", "missing > of a group name")
        if not name.replace("$", "_").replace("\u200c", "_").replace("\u200d", "_").isidentifier():
            self.fail(f"bad group name {name!r}", start)
        self.open(_itself, start)

    def _modifiers(self, start: int) -> bool:
        """`(?ims-ims:…)` (ECMA-262, 2025)."""
        found = re.compile(r"([ims]*)(?:-([ims]*))?:").match(self.pattern, self.position)
        if found is None:
            return False
        added, removed = found[1], found[2] or ""
        if len(set(added + removed)) != len(added + removed) or not added + removed:
            self.fail("a modifier twice or none at all", start)
        self.position = found.end()
        self.open(_itself, start)
        for name in added:
            self.flags |= _FLAGS[name]
        for name in removed:
            self.flags &= ~_FLAGS[name]
        return True


def _itself(node: Node) -> Node:
    return node


def _look(ahead: bool, negative: bool, start: int, body: Node) -> Node:
    return Look(body, ahead, negative, start)


def _count_groups(pattern: str) -> tuple[int, set[str]]:
    """The number of capturing groups and their names; a reference may come before its group."""
    if "(" not in pattern:
        return 0, set()
    bare = re.sub(r"\\.|\[(?:\\.|[^\]\\])*\]", "", pattern, flags=re.S)
    names = set(re.findall(r"\(\?P?<([^=!>][^>]*)>", bare))
    return len(re.findall(r"\((?!\?)", bare)) + len(names), names
