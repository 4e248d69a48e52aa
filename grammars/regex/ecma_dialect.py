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
from grammars.regex.ecma_escapes import EcmaEscapes
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
    ECMA_LINE_ENDS,
    invert,
)
from grammars.regular import ANY, Rx

IGNORECASE, MULTILINE, DOTALL, UNICODE = (int(flag) for flag in (re.I, re.M, re.S, re.U))
ACCEPTED_FLAGS = IGNORECASE | MULTILINE | DOTALL | UNICODE

_FLAGS = {"i": IGNORECASE, "m": MULTILINE, "s": DOTALL}
_DIGITS = "0123456789"


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


class EcmaReader(EcmaEscapes):
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
