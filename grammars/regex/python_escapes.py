"""Escapes and character classes of Python's `re`."""

from __future__ import annotations

import re
import sys
import unicodedata

from grammars.regex.casing import python_ignore_case
from grammars.regex.reader import Reader
from grammars.regex.syntax import (
    Node,
    boundary,
    end_of_text,
    no_boundary,
    start_of_text,
)
from grammars.regex.unicode_sets import (
    ASCII_DIGIT,
    ASCII_SPACE,
    ASCII_WORD,
    invert,
    python_digit,
    python_space,
    python_word,
)
from grammars.regular import Rx, chars
from grammars.regular.charset import join_all

IGNORECASE, LOCALE, MULTILINE, DOTALL = int(re.I), int(re.L), int(re.M), int(re.S)
UNICODE, VERBOSE, ASCII = int(re.U), int(re.X), int(re.A)

_DIGITS = "0123456789"
_OCTAL = "01234567"
_HEX = "0123456789abcdefABCDEF"
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_CONTROLS = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\"}
_WIDTHS = {"x": 2, "u": 4, "U": 8}


class PythonEscapes(Reader):
    """What a backslash or a bracket begins in Python's dialect.

    Attributes:
        groups: groups that have been opened, and one.
    """

    groups: int

    def _literal(self, char: str) -> None:
        if self.flags & IGNORECASE:
            self.add(python_ignore_case(chars([(ord(char), ord(char))]), bool(self.flags & ASCII)))
        else:
            self.add(char)

    def _anchor(self, node: Node) -> None:
        self.add_assertion(node)
        self.stack[-1].anchor = True

    def _escape(self, start: int) -> None:
        char = self.peek()
        if not char:
            self.fail("bad escape (end of pattern)", start)
        self.position += 1
        if char == "A":
            self._anchor(start_of_text(start))
        elif char == "Z":
            self._anchor(end_of_text(start))
        elif char == "b":
            self._anchor(boundary(self._word(), start))
        elif char == "B":
            self._anchor(no_boundary(self._word(), start, in_empty_text=sys.version_info >= (3, 14)))
        elif char in "dDsSwW":
            self.add(self._category(char))
        elif char == "0":
            self._literal(chr(int("0" + self.take_while(_OCTAL, 2), 8)))
        elif char in _DIGITS:
            self._octal_or_reference(char, start)
        else:
            self._literal(chr(self._character(char, start)))

    def _word(self) -> Rx:
        return ASCII_WORD if self.flags & ASCII else python_word()

    def _category(self, char: str) -> Rx:
        lower = char.lower()
        if self.flags & ASCII:
            charset = {"d": ASCII_DIGIT, "s": ASCII_SPACE, "w": ASCII_WORD}[lower]
        else:
            charset = {"d": python_digit, "s": python_space, "w": python_word}[lower]()
        return charset if char == lower else invert(charset)

    def _octal_or_reference(self, first: str, start: int) -> None:
        digits = first + self.take_while(_DIGITS, 1)
        if len(digits) == 2 and digits[0] in _OCTAL and digits[1] in _OCTAL and self.peek() in tuple(_OCTAL):
            digits += self.take_while(_OCTAL, 1)
            if int(digits, 8) > 0o377:
                self.fail(f"octal escape value \\{digits} outside of range 0-0o377", start)
            self._literal(chr(int(digits, 8)))
            return
        number = int(digits)
        if number >= self.groups:
            self.fail(f"invalid group reference {number}", start + 1)
        if self.is_open(number):
            self.fail("cannot refer to an open group", start)
        self.refuse(f"the back-reference \\{number}", start)

    def _character(self, char: str, start: int) -> int:
        """The code point of an escape for one character; the cursor is behind `char`."""
        if char in _WIDTHS:
            width = _WIDTHS[char]
            digits = self.take_while(_HEX, width)
            if len(digits) != width:
                self.fail(f"incomplete escape \\{char}{digits}", start)
            code = int(digits, 16)
            if code > 0x10FFFF:
                self.fail(f"bad escape \\{char}{digits}", start)
            return code
        if char == "N":
            if not self.take("{"):
                self.fail("missing {")
            name_start = self.position
            name = self.take_until("}", "missing }, unterminated name")
            try:
                return ord(unicodedata.lookup(name))
            except (KeyError, TypeError):
                self.fail(f"undefined character name {name!r}", name_start)
        if char in _CONTROLS:
            return ord(_CONTROLS[char])
        if char in _LETTERS:
            self.fail(f"bad escape \\{char}", start)
        return ord(char)

    # --- classes ---

    def _class(self, start: int) -> Rx:
        negative = self.take("^")
        letters: list[tuple[int, int]] = []
        classes: list[Rx] = []
        first = True
        while True:
            here = self.position
            if not self.peek():
                self.fail("unterminated character set", start)
            if not first and self.take("]"):
                break
            first = False
            low = self._class_atom()
            if not self.take("-"):
                if isinstance(low, Rx):
                    classes.append(low)
                else:
                    letters.append((low, low))
                continue
            if not self.peek():
                self.fail("unterminated character set", start)
            if self.take("]"):
                letters.append((45, 45))
                if isinstance(low, Rx):
                    classes.append(low)
                else:
                    letters.append((low, low))
                break
            high = self._class_atom()
            if isinstance(low, Rx) or isinstance(high, Rx) or high < low:
                self.fail(f"bad character range {self.pattern[here : self.position]}", here)
            letters.append((low, high))
        plain = chars(letters)
        if self.flags & IGNORECASE:
            plain = python_ignore_case(plain, bool(self.flags & ASCII))
        charset = join_all([plain, *classes])
        return invert(charset) if negative else charset

    def _class_atom(self) -> int | Rx:
        start = self.position
        char = self.pattern[start]
        self.position += 1
        if char != "\\":
            return ord(char)
        char = self.peek()
        if not char:
            self.fail("bad escape (end of pattern)", start)
        self.position += 1
        if char in "dDsSwW":
            return self._category(char)
        if char == "b":
            return 8
        if char in _OCTAL:
            digits = char + self.take_while(_OCTAL, 2)
            if int(digits, 8) > 0o377:
                self.fail(f"octal escape value \\{digits} outside of range 0-0o377", start)
            return int(digits, 8)
        if char in _DIGITS:
            self.fail(f"bad escape \\{char}", start)
        return self._character(char, start)

    # --- groups ---
