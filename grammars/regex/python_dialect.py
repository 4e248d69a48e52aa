"""Parser of the regular expressions of Python's `re` for `str` (Library Reference, "Regular Expression Syntax", 3.11).

The order of alternatives and lazy or greedy repetition do not matter to the language, except inside atomic groups and
for possessive repeats, which are accepted where they can be put without backtracking.
"""

from __future__ import annotations

import re

from grammars.regex.python_escapes import PythonEscapes
from grammars.regex.reader import Group
from grammars.regex.syntax import (
    Look,
    Node,
    Repeat,
    Sequence,
    choice,
    end_of_text,
    line_end,
    line_start,
    possessive,
    prefix_free,
    sequence,
    start_of_text,
)
from grammars.regex.unicode_sets import LINE_FEED, invert
from grammars.regular import ANY, Rx, longest_length, repeat, shortest_length

IGNORECASE, LOCALE, MULTILINE, DOTALL = int(re.I), int(re.L), int(re.M), int(re.S)
UNICODE, VERBOSE, ASCII = int(re.U), int(re.X), int(re.A)
ACCEPTED_FLAGS = IGNORECASE | MULTILINE | DOTALL | UNICODE | VERBOSE | ASCII | int(re.DEBUG)

_FLAGS = {"i": IGNORECASE, "L": LOCALE, "m": MULTILINE, "s": DOTALL, "x": VERBOSE, "a": ASCII, "u": UNICODE}
_TYPES = {"L": LOCALE, "a": ASCII, "u": UNICODE}
_SPACES = " \t\n\r\v\f"
_DIGITS = "0123456789"


class PythonReader(PythonEscapes):
    """Reads one pattern; `parse` gives its syntax."""

    def __init__(self, pattern: str, flags: int) -> None:
        if flags & LOCALE:
            raise ValueError("cannot use LOCALE flag with a str pattern")
        if flags & ASCII and flags & UNICODE:
            raise ValueError("ASCII and UNICODE flags are incompatible")
        super().__init__(pattern, flags)
        self.names: dict[str, int] = {}
        self.groups = 1

    def parse(self) -> Node:
        """The syntax of the pattern.

        Raises:
            RegexError: if `re` would not compile it either.
            UnsupportedFeature: for back-references, conditionals, and what gives up backtracking in a way that matters.
        """
        pattern = self.pattern
        while self.position < len(pattern):
            char = pattern[self.position]
            if self.flags & VERBOSE:
                if char in _SPACES:
                    self.position += 1
                    continue
                if char == "#":
                    end = pattern.find("\n", self.position)
                    self.position = len(pattern) if end < 0 else end + 1
                    continue
            start = self.position
            self.position += 1
            if char not in "\\[(){*+?.^$|":
                self._literal(char)
            elif char == "\\":
                self._escape(start)
            elif char == "[":
                self.add(self._class(start))
            elif char == "(":
                self._group(start)
            elif char == ")":
                if len(self.stack) == 1:
                    self.fail("unbalanced parenthesis", start)
                self._close()
            elif char == "|":
                self.alternative()
            elif char == ".":
                self.add(ANY if self.flags & DOTALL else invert(LINE_FEED))
            elif char == "^":
                self._anchor(line_start(LINE_FEED, start) if self.flags & MULTILINE else start_of_text(start))
            elif char == "$":
                self._anchor(self._dollar(start))
            else:
                self._quantifier(char, start)
        return self.finish()

    # --- atoms ---

    def _dollar(self, start: int) -> Node:
        if self.flags & MULTILINE:
            return line_end(LINE_FEED, start)
        return Look(sequence([repeat(LINE_FEED, 0, 1), end_of_text(start)]), True, False, start)

    def _quantifier(self, char: str, start: int) -> None:
        least, most = 0, None
        if char == "?":
            most = 1
        elif char == "+":
            least = 1
        elif char == "{":
            found = self._braces()
            if found is None:
                self.position = start + 1
                self._literal(char)
                return
            least, most = found
        group = self.stack[-1]
        if not group.items or group.anchor:
            self.fail("nothing to repeat", start)
        if group.repeated:
            self.fail("multiple repeat", start)
        if self.take("?"):
            self.apply(least, most, False, start)
        elif self.take("+"):
            body = self._as_node(group.items[-1])
            node = possessive(body, least, most, start)
            if node is None:
                self.refuse("a possessive repeat that gives up matches", start)
            group.items[-1] = node
            group.repeated = True
        else:
            self.apply(least, most, True, start)

    def _braces(self) -> tuple[int, int | None] | None:
        """The bounds of `{m,n}` behind its brace, or `None` if that is literal text."""
        start = self.position
        if self.peek() == "}":
            return None
        low = high = self.take_while(_DIGITS)
        if self.take(","):
            high = self.take_while(_DIGITS)
        if not self.take("}"):
            return None
        least = self.bounds(low, start) if low else 0
        most = self.bounds(high, start) if high else None
        if most is not None and most < least:
            self.fail("min repeat greater than max repeat", start)
        return least, most

    # --- escapes ---

    def _group(self, start: int) -> None:
        if not self.take("?"):
            self.open(_itself, start, self._number())
            return
        char = self.peek()
        if not char:
            self.fail("unexpected end of pattern")
        self.position += 1
        if char == ":":
            self.open(_itself, start)
        elif char == "P":
            self._named(start)
        elif char == "#":
            self.take_until(")", "missing ), unterminated comment")
        elif char in "=!<":
            self._look(char, start)
        elif char == ">":
            self.open(_itself, start)
            self.stack[-1].atomic = True
        elif char == "(":
            self.refuse("a conditional group", start)
        elif char in _FLAGS or char == "-":
            self._inline_flags(char, start)
        else:
            self.fail(f"unknown extension ?{char}", start + 1)

    def _number(self) -> int:
        self.groups += 1
        return self.groups - 1

    def _named(self, start: int) -> None:
        if self.take("="):
            name = self.take_until(")", "missing ), unterminated name")
            if name not in self.names:
                self.fail(f"unknown group name {name!r}", start + 4)
            self.refuse(f"the back-reference (?P={name})", start)
        if not self.take("<"):
            self.fail(f"unknown extension ?P{self.peek()}" if self.peek() else "unexpected end of pattern", start + 1)
        name = self.take_until(">", "missing >, unterminated name")
        if not name.isidentifier():
            self.fail(f"bad character in group name {name!r}" if name else "missing group name", start + 4)
        if name in self.names:
            self.fail(f"redefinition of group name {name!r}", start + 4)
        number = self._number()
        self.names[name] = number
        self.open(_itself, start, number)

    def _look(self, char: str, start: int) -> None:
        ahead = char != "<"
        if not ahead:
            char = self.peek()
            if not char:
                self.fail("unexpected end of pattern")
            if char not in "=!":
                self.fail(f"unknown extension ?<{char}", start + 1)
            self.position += 1

        def close(body: Node) -> Node:
            if not ahead:
                shortest, longest = width(body)
                if shortest != longest:
                    self.fail("look-behind requires fixed-width pattern", start)
            return Look(body, ahead, char == "!", start)

        self.open(close, start)

    def _inline_flags(self, char: str, start: int) -> None:
        added = removed = 0
        while char != "-":
            if char == "L":
                self.fail("bad inline flags: cannot use 'L' flag with a str pattern")
            added |= _FLAGS[char]
            if char in _TYPES and added & (ASCII | UNICODE) not in (ASCII, UNICODE):
                self.fail("bad inline flags: flags 'a', 'u' and 'L' are incompatible")
            char = self._flag("-:)", "missing -, : or )")
            if char == ")":
                self._global_flags(added, start)
                return
            if char == ":":
                break
        if char == "-":
            char = self._flag("", "missing flag")
            while char != ":":
                if char in _TYPES:
                    self.fail("bad inline flags: cannot turn off flags 'a', 'u' and 'L'")
                removed |= _FLAGS[char]
                char = self._flag(":", "missing :")
        if added & removed:
            self.fail("bad inline flags: flag turned on and off")
        self.open(_itself, start)
        if added & (ASCII | UNICODE):
            self.flags &= ~(ASCII | UNICODE)
        self.flags = (self.flags | added) & ~removed

    def _flag(self, others: str, missing: str) -> str:
        char = self.peek()
        if not char:
            self.fail(missing)
        if char not in _FLAGS and char not in others:
            self.fail("unknown flag" if char.isalpha() else missing)
        self.position += 1
        return char

    def _global_flags(self, added: int, start: int) -> None:
        group = self.stack[0]
        if len(self.stack) > 1 or group.items or group.options:
            self.fail("global flags not at the start of the expression", start)
        if added & VERBOSE and not self.flags & VERBOSE:
            # As `re` does: what came before is read again under the new rules.
            self.position = 0
        self.flags |= added
        if self.flags & ASCII and self.flags & UNICODE:
            self.fail("ASCII and UNICODE flags are incompatible", start)

    def _close(self) -> None:
        group = self.stack[-1]
        if group.atomic:
            self._commit(group)
        self.close()

    def _commit(self, group: Group) -> None:
        """Put an atomic group without backtracking: where it can match in one way, or ends in a greedy repeat."""
        body = group.items[:-1] if group.greedy else group.items
        before = sequence(body)
        if not group.options and isinstance(before, Rx) and prefix_free(before):
            if group.greedy is None:
                return
            repeated = possessive(*group.greedy, group.start)
            if repeated is not None:
                group.items[-1] = repeated
                return
        else:
            whole = choice([*group.options, sequence(group.items)])
            if isinstance(whole, Rx) and prefix_free(whole):
                return
        self.refuse("an atomic group that gives up matches", group.start)


def _itself(node: Node) -> Node:
    return node


def width(node: Node) -> tuple[int, int | None]:
    """The lengths of a shortest and a longest match in code points; `None` is no bound."""
    if isinstance(node, Rx):
        return shortest_length(node) or 0, longest_length(node)
    if isinstance(node, Look):
        return 0, 0
    if isinstance(node, Repeat):
        least, most = width(node.body)
        bounded = None if node.most is None or most is None else node.most * most
        return node.least * least, 0 if most == 0 else bounded
    if isinstance(node, Sequence):
        widths = [width(item) for item in node.items]
        highs = [high for _, high in widths if high is not None]
        return sum(low for low, _ in widths), sum(highs) if len(highs) == len(widths) else None
    widths = [width(option) for option in node.options]
    highs = [high for _, high in widths if high is not None]
    return min(low for low, _ in widths), max(highs) if len(highs) == len(widths) else None
