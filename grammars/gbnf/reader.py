"""The notation of GBNF (llama.cpp, grammars/README.md) and of XGrammar's EBNF (docs, "EBNF Grammar").

    name ::= expression            | "text" | [a-z] | [^a-z] | . | name | ( ... )
    x* x+ x? x{m} x{m,} x{,n} x{m,n}   | comments from # to the end of the line
    <token> <[1000]> Token(1000)   a special token; !<token>* is any text
    TagDispatch(("tag", rule), ..., stop_eos=..., loop_after_dispatch=..., excludes=(...))

A rule ends where the next begins (a name and `::=`), so line breaks may stand anywhere between its parts.
"""

from __future__ import annotations

import re
from typing import NoReturn

from grammars.ebnf import EMPTY, Alternatives, Concatenation, Definition, Expression, Foreign, Reference, Repeat, Text
from grammars.errors import LarkError, LimitExceeded, UnsupportedFeature
from grammars.regular import ANY, Rx, chars, literal
from grammars.regular.charset import minus
from grammars.values import SpecialToken

_GAP = re.compile(r"(?:\s+|#[^\n]*)*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*|[0-9][A-Za-z0-9_-]*(?=\s*::=)")
_WORD = re.compile(r"[A-Za-z0-9_.-]+")
_HEAD = re.compile(r"([A-Za-z0-9_.-]+)(?:[ \t]*\[[A-Za-z_]+=[^\]\n]*\])?\s*::=")
_BOUNDS = re.compile(r"\{\s*(\d*)\s*(,?)\s*(\d*)\s*\}")
_TOKEN = re.compile(r"<\[(\d+)\]>|(<[^<>\s]+>)")
_SIMPLE = {
    "n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "a": "\a", "v": "\v", "0": "\0", "e": "\x1b",
    "\\": "\\", '"': '"', "'": "'", "?": "?", "/": "/", "[": "[", "]": "]",
}  # fmt: skip
_WIDTHS = {"x": 2, "u": 4, "U": 8}
_ESCAPES = {kind: re.compile(f"[0-9a-fA-F]{{{width}}}") for kind, width in _WIDTHS.items()}
_HEX = re.compile("[0-9a-fA-F]+")
_IN_CLASS = frozenset("^$.*+(){}|-")
_MOST_DEEP = 100
_LARGEST = 1 << 31


class Reader:
    """A cursor over a grammar.

    Attributes:
        rules: what was read so far.
        uses: where each name was used first, as an index into the text.
        long_escapes: whether `\\x` takes all hexadecimal digits that follow, as in XGrammar, or two.
    """

    def __init__(self, text: str, long_escapes: bool = False) -> None:
        self.text = text
        self.long_escapes = long_escapes
        self.position = 0
        self.depth = 0
        self.rules: dict[str, Definition] = {}
        self.uses: dict[str, int] = {}

    # --- cursor ---

    def place(self, index: int) -> tuple[int, int]:
        """1-based line and column of an index."""
        before = self.text[:index]
        return before.count("\n") + 1, index - (before.rfind("\n") + 1) + 1

    def fail(self, message: str, index: int | None = None) -> NoReturn:
        """Raise a LarkError at an index, by default at the cursor."""
        raise LarkError(message, *self.place(self.position if index is None else index))

    def found(self) -> str:
        """What comes next, for messages."""
        rest = self.text[self.position :]
        if not rest:
            return "the end of the grammar"
        word = _WORD.match(rest)
        return repr(word[0] if word else rest[0])

    def gap(self) -> None:
        """Step over white space and comments."""
        match = _GAP.match(self.text, self.position)
        assert match is not None
        self.position = match.end()

    def take(self, expected: str) -> bool:
        """Step over `expected` and the gap behind it, if it comes next."""
        if not self.text.startswith(expected, self.position):
            return False
        self.position += len(expected)
        self.gap()
        return True

    def want(self, expected: str) -> None:
        """The same, and it must come next."""
        if not self.take(expected):
            self.fail(f"found {self.found()}, expected {expected!r}")

    # --- rules ---

    def read(self) -> dict[str, Definition]:
        """The rules by name.

        Raises:
            LarkError: the text is no grammar; with line and column.
            UnsupportedFeature: lookahead assertions, and tokens that are named by what they are not.
            LimitExceeded: groups are nested too deeply.
        """
        self.gap()
        while self.position < len(self.text):
            start = self.position
            head = _HEAD.match(self.text, start)
            if head is None:
                self.fail(f"found {self.found()}, expected a rule: a name and '::='")
            if "[" in head[0]:
                raise UnsupportedFeature(
                    f"the options of the rule {head[1]!r} on line {self.place(start)[0]}: a temperature is no part of "
                    "a language; set it where you sample"
                )
            if head[1] in self.rules:
                self.fail(f"the rule {head[1]!r} is defined twice; first on line {self.rules[head[1]].line}", start)
            self.position = head.end()
            self.gap()
            self.rules[head[1]] = Definition(EMPTY, self.place(start)[0])
            self.rules[head[1]] = Definition(self._alternatives(), self.place(start)[0])
            if self.position < len(self.text) and not self._at_rule():
                self.fail(f"found {self.found()}, expected '|', another element or the next rule")
        return self.rules

    def _at_rule(self) -> bool:
        return _HEAD.match(self.text, self.position) is not None

    def _alternatives(self) -> Expression:
        self.depth += 1
        if self.depth > _MOST_DEEP:
            line, column = self.place(self.position)
            raise LimitExceeded(f"groups nested more than {_MOST_DEEP} deep (line {line}, column {column})")
        options = [self._sequence()]
        while self.take("|"):
            options.append(self._sequence())
        self.depth -= 1
        return options[0] if len(options) == 1 else Alternatives(tuple(options))

    def _sequence(self) -> Expression:
        items: list[Expression] = []
        while self.position < len(self.text) and self.text[self.position] not in "|)" and not self._at_rule():
            items.append(self._repeated())
        return items[0] if len(items) == 1 else Concatenation(tuple(items)) if items else EMPTY

    def _repeated(self) -> Expression:
        start = self.position
        negated = self.text.startswith("!", start)
        self.position += negated
        item = self._token() if negated else self._element()
        end = self.position
        self.gap()
        bounds = self._bounds()
        if negated:
            if bounds not in ((0, None), (1, None)):
                raise UnsupportedFeature(
                    f"{self.text[start:end]} on line {self.place(start)[0]}: one token that is not a given one is no "
                    "matter of text; !<token>* and !<token>+ are free text"
                )
            item = Text(ANY)
        while bounds is not None:
            item = Repeat(item, *bounds)
            self.gap()
            bounds = self._bounds()
        return item

    def _bounds(self) -> tuple[int, int | None] | None:
        char = self.text[self.position : self.position + 1]
        if char in ("*", "+", "?"):
            self.position += 1
            return (1 if char == "+" else 0), (1 if char == "?" else None)
        if char != "{":
            return None
        match = _BOUNDS.match(self.text, self.position)
        if match is None or not (match[1] or match[3]):
            self.fail("a repeat is written {m}, {m,}, {,n} or {m,n}")
        least = int(match[1] or 0)
        most = int(match[3]) if match[3] else None if match[2] else least
        if max(least, most or 0) >= _LARGEST:
            self.fail("the bound of a repeat is too large")
        if most is not None and most < least:
            self.fail(f"a repeat of at least {least} and at most {most} times")
        self.position = match.end()
        return least, most

    # --- elements ---

    def _element(self) -> Expression:
        char = self.text[self.position]
        if char == '"':
            return Text(literal(self.string()))
        if char == "[":
            return Text(self._class())
        if char == ".":
            self.position += 1
            return Text(ANY)
        if char == "<":
            return self._token()
        if char == "(":
            return self._group()
        match = _NAME.match(self.text, self.position)
        if match is None:
            self.fail(f"found {self.found()}, expected a string, a character class, a rule's name or '('")
        name = match[0]
        after = self.text[match.end() : match.end() + 1]
        if after == "(" and name in ("TagDispatch", "Token", "ExcludeToken", "TokenTagDispatch"):
            return self._macro(name, match.end())
        self.uses.setdefault(name, self.position)
        self.position = match.end()
        return Reference(name)

    def _group(self) -> Expression:
        start = self.position
        if self.text.startswith("(=", start):
            raise UnsupportedFeature(
                f"the lookahead assertion on line {self.place(start)[0]}: leave it out; what may follow a rule is said "
                "by the rules that use it"
            )
        self.position += 1
        self.gap()
        inner = self._alternatives()
        if self.text[self.position : self.position + 1] != ")":
            self.fail(f"found {self.found()}, expected ')' for the group that begins on line {self.place(start)[0]}")
        self.position += 1
        return inner

    def _token(self) -> Expression:
        match = _TOKEN.match(self.text, self.position)
        if match is None:
            self.fail("a token is written <name> or <[number]>")
        self.position = match.end()
        token = SpecialToken(number=int(match[1])) if match[1] else SpecialToken(match[2])
        return Foreign(token, match[0])

    def string(self) -> str:
        """The text of a string; the cursor stands at its quote."""
        start = self.position
        self.position += 1
        out: list[str] = []
        while True:
            char = self.text[self.position : self.position + 1]
            if char in ("", "\n"):
                self.fail("a string that is not closed before the end of the line", start)
            if char == '"':
                self.position += 1
                return "".join(out)
            out.append(self._character(frozenset()))

    def _character(self, also: frozenset[str]) -> str:
        """One character, written plainly or as an escape."""
        start = self.position
        char = self.text[start]
        self.position += 1
        if char != "\\":
            return char
        kind = self.text[self.position : self.position + 1]
        self.position += 1
        if kind in ("x", "u", "U"):
            return self._code(kind, start)
        if kind in _SIMPLE:
            return _SIMPLE[kind]
        if kind and kind in also:
            return kind
        self.fail(f"unknown escape \\{kind}", start)

    def _code(self, kind: str, start: int) -> str:
        if kind == "x" and self.long_escapes:
            match, width = _HEX.match(self.text, self.position), "some"
        else:
            match, width = _ESCAPES[kind].match(self.text, self.position), str(_WIDTHS[kind])
        if match is None:
            self.fail(f"\\{kind} is followed by {width} hexadecimal digits", start)
        code = int(match[0], 16)
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            self.fail(f"\\{kind}{match[0]} is no character", start)
        self.position = match.end()
        return chr(code)

    def _class(self) -> Rx:
        start = self.position
        self.position += 1
        negative = self.text.startswith("^", self.position)
        self.position += negative
        ranges: list[tuple[int, int]] = []
        while True:
            char = self.text[self.position : self.position + 1]
            if char in ("", "\n"):
                self.fail("a character class that is not closed before the end of the line", start)
            if char == "]":
                self.position += 1
                break
            here = self.position
            low = ord(self._character(_IN_CLASS))
            high = low
            if self.text.startswith("-", self.position) and self.text[self.position + 1 : self.position + 2] != "]":
                self.position += 1
                if self.text[self.position : self.position + 1] in ("", "\n"):
                    self.fail("a character class that is not closed before the end of the line", start)
                high = ord(self._character(_IN_CLASS))
            if high < low:
                self.fail(f"a range from {chr(low)!r} down to {chr(high)!r}", here)
            ranges.append((low, high))
        found = chars(ranges)
        return minus(ANY, found) if negative else found

    # --- macros of XGrammar ---

    def _macro(self, name: str, end: int) -> Expression:
        from grammars.gbnf.macros import read_macro

        start = self.position
        self.position = end + 1
        self.gap()
        return read_macro(self, name, start)
