"""Escapes and character classes of ECMA-262."""

from __future__ import annotations

import re

from grammars.regex.casing import ecma_ignore_case
from grammars.regex.reader import Reader
from grammars.regex.syntax import Node
from grammars.regex.unicode_sets import (
    ASCII_DIGIT,
    ASCII_WORD,
    ECMA_SPACE,
    UnknownProperty,
    invert,
    property_set,
)
from grammars.regular import NONE, Rx, chars
from grammars.regular.charset import join, join_all

IGNORECASE, MULTILINE, DOTALL, UNICODE = (int(flag) for flag in (re.I, re.M, re.S, re.U))

_DIGITS = "0123456789"
_HEX = "0123456789abcdefABCDEF"
_OCTAL = "01234567"
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_CONTROLS = {"f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_SYNTAX = "^$\\.*+?()[]{}|/"
_KELVIN_AND_LONG_S = chars([(0x17F, 0x17F), (0x212A, 0x212A)])


class EcmaEscapes(Reader):
    """What a backslash or a bracket begins in the ECMA dialect.

    Attributes:
        lenient: whether Annex B is followed, and what other dialects say where it can mean one thing only.
    """

    lenient: bool

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
            if digits and self.take("}"):
                if len(digits.lstrip("0")) <= 6 and int(digits, 16) <= 0x10FFFF:
                    return int(digits, 16)
                self.fail(
                    f"\\u{{{digits[:20]}}} is no code point", start
                )  # Annex B would read a letter u so many times
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
