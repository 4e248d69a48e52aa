"""The text of a Lark grammar: what is defined where, and what stands in it for grammars of other kinds.

Lark's own notation is extended by four things that a rule may say:

    %json {"type": "object"}        a JSON Schema
    @name                           a grammar of `Lark(..., embedded={"name": ...})`
    <|im_end|>, </s>, <think>       a special token by its name
    <[128009]>                      a token by its number

Lark sees a declared terminal (`%declare`) in their place.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from dataclasses import dataclass, field

from grammars.errors import GrammarError, LarkError, SchemaError
from grammars.values import Grammar, JsonSchema, Lark, SpecialToken
from grammars.values.combined import Part

_TOKENS = re.compile(
    r"""
      (?P<comment>  //[^\n]* | \#[^\n]* )
    | (?P<string>   "(?:\\"|\\\\|[^"\n])*?"i? )
    | (?P<regexp>   /(?!/)(?:\\/|\\\\|[^/])*?/[imslux]* )
    | (?P<schema>   %json\b )
    | (?P<keyword>  %[a-z]+ )
    | (?P<number>   <\[\d+\]> )
    | (?P<token>    <[^<>\s"]+> )
    | (?P<embedded> @\w* )
    | (?P<name>     [A-Za-z_]\w* )
    | (?P<other>    . )
    """,
    re.X | re.S,
)
_HEAD = re.compile(
    r"^[ \t]*(?:%override|%extend)?[ \t]*[!?]*(?P<name>[A-Za-z_]\w*)(?:\{[^}\n]*\})?[ \t]*(?:\.[ \t]*[+-]?\d+)?[ \t]*:",
    re.M,
)


@dataclass(slots=True)
class Source:
    """A grammar as Lark reads it, and the way back to the text as it was written.

    Attributes:
        written: the text as it was written.
        text: the text that Lark reads.
        embedded: for each declared terminal what it stands for, and how it was written.
        names: where each name is used, as indices into `written`.
        definitions: where each name is defined.
        literals: where each string and regular expression stands first.
    """

    written: str
    text: str = ""
    embedded: dict[str, tuple[Part, str]] = field(default_factory=dict)
    names: dict[str, list[int]] = field(default_factory=dict)
    definitions: dict[str, list[int]] = field(default_factory=dict)
    literals: dict[str, int] = field(default_factory=dict)
    _shifts: list[tuple[int, int]] = field(default_factory=list)

    def place(self, index: int) -> tuple[int, int]:
        """1-based line and column of an index into `written`."""
        before = self.written[:index]
        return before.count("\n") + 1, index - (before.rfind("\n") + 1) + 1

    def written_place(self, line: int, column: int) -> tuple[int, int]:
        """Line and column in `written` of a line and a column in `text`."""
        lines = self.text.split("\n")
        index = sum(len(one) + 1 for one in lines[: line - 1]) + column - 1
        at = bisect_right(self._shifts, (index, len(self.written))) - 1
        if at < 0:
            return self.place(min(index, len(self.written)))
        start, original = self._shifts[at]
        return self.place(min(original + max(index - start, 0), len(self.written)))

    def error(self, message: str, index: int) -> LarkError:
        """An error at an index into `written`."""
        return LarkError(message, *self.place(index))

    def line(self, name: str) -> int | None:
        """The line on which a name is defined, if it is defined here."""
        found = self.definitions.get(name)
        return self.place(found[0])[0] if found else None


def read(value: Lark) -> Source:
    """The source of a grammar.

    Raises:
        LarkError: a JSON Schema that is none, an unknown `@name`, or either of them inside a terminal.
    """
    source = Source(value.text)
    stem = "EMBEDDED"
    while stem in value.text:
        stem += "_"
    for found in _HEAD.finditer(value.text):
        source.definitions.setdefault(found["name"], []).append(found.start("name"))
    given = dict(value.embedded)
    starts = sorted((index, name) for name, indices in source.definitions.items() for index in indices)
    made: dict[Part, str] = {}
    pieces: list[str] = []
    length = index = 0
    while index < len(value.text):
        match = _TOKENS.match(value.text, index)
        assert match is not None and match.lastgroup is not None
        kind, text = match.lastgroup, match.group()
        start, index = index, match.end()
        if kind == "name":
            source.names.setdefault(text, []).append(start)
        elif kind in ("string", "regexp"):
            source.literals.setdefault(text, start)
        if kind not in ("schema", "number", "token", "embedded"):
            pieces.append(text)
            length += len(text)
            continue
        part: Part
        if kind == "schema":
            part, index = _schema(source, index)
        elif kind == "number":
            part = SpecialToken(number=int(text[2:-2]))
        elif kind == "token":
            part = SpecialToken(text)
        else:
            if text[1:] not in given:
                known = ", ".join("@" + name for name in sorted(given)) or "none is given with embedded="
                raise source.error(f"{text} is no embedded grammar; known: {known}", start)
            part = given[text[1:]]
        _refuse_in_terminal(source, starts, start, text)
        name = made.setdefault(part, f"{stem}_{len(made)}")
        source.embedded.setdefault(name, (part, text))
        pieces.append(name)
        length += len(name)
        source._shifts.append((length, index))
    text = "".join(pieces)
    if source.embedded:
        text += "\n%declare " + " ".join(source.embedded)
    source.text = text
    return source


def _schema(source: Source, index: int) -> tuple[Grammar, int]:
    text = source.written
    while index < len(text) and text[index] in " \t\r\n":
        index += 1
    try:
        _, end = json.JSONDecoder().raw_decode(text, index)
        return JsonSchema(text[index:end]), end
    except json.JSONDecodeError as error:
        raise source.error(f"%json is followed by no JSON: {error.msg}", error.pos) from None
    except SchemaError as error:
        raise source.error(f"%json: {error}", index) from None
    except (GrammarError, RecursionError) as error:
        raise source.error(f"%json: {error}", index) from None


def _refuse_in_terminal(source: Source, starts: list[tuple[int, str]], index: int, text: str) -> None:
    at = bisect_right(starts, (index, "")) - 1
    if at >= 0 and starts[at][1].isupper():
        raise source.error(
            f"{text} stands in the terminal {starts[at][1]}; what is embedded can only stand in a rule (small letters)",
            index,
        )
