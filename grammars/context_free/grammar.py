"""Context-free grammars as numbers: what every grammar language is loaded to, and what the byte machine parses.

Symbols are integers: n >= 0 is nonterminal n, n < 0 is terminal ~n.  A grammar says what its terminals are, how they
follow each other, and how they are lexed:

- `"none"`: terminals follow each other directly (GBNF, sequences);
- `"every"`: Lark's Earley parser with its `dynamic_complete` lexer: ignored terminals may stand between any two
  terminals, before the first and after the last, and every way to cut the text into terminals counts;
- `"contextual"`: Lark's LALR(1) parser with its contextual lexer: in each state of the parser the text is cut where
  Python's `re` cuts it with the terminals that the state accepts, and the parser has one stack.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from grammars.regular import Rx
from grammars.values.combined import SpecialToken as SpecialToken

Lexing = Literal["none", "every", "contextual"]

END_MARK = -1
"""The terminal number of the end of the text in `LalrTable.actions`."""

Action = tuple[Literal["shift", "reduce"], int]


@dataclass(frozen=True, slots=True)
class Embedded:
    """A grammar by value inside another: `JsonSchema`, `Regex`, `Choice`, `Lark`, `Gbnf`, ..."""

    grammar: Any


@dataclass(frozen=True, slots=True)
class Terminal:
    """What a terminal stands for.

    Attributes:
        name: as the author of the grammar sees it.
        language: its texts; a regular language here does not hold the empty text.  A special token has none.
        priority: terminals of higher priority win in contextual lexing.
        literal: written as a string, not as a regular expression.
        pattern: its source, for messages.
        flags: flags of the expression, as `re` letters.
        order: contextual lexing: its place in the order in which Lark tries terminals, 0 first.
        conditional: further texts, of a terminal that looks ahead: pairs (texts, rests), the texts taken only where what
            follows them, up to the end of the text, is in `rests`.  Texts that are taken whatever follows are in
            `language`, which may be NONE then.  Of ignored terminals ("every") `rests` also says that nothing longer is.
    """

    name: str
    language: Rx | Embedded | SpecialToken
    priority: int = 0
    literal: bool = False
    pattern: str = ""
    flags: frozenset[str] = frozenset()
    order: int = 0
    conditional: tuple[tuple[Rx, Rx], ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """One production.

    Attributes:
        origin: number of the nonterminal that it derives.
        symbols: nonterminals (n >= 0) and terminals (~n).
        line: 1-based line in the source, where known.
    """

    origin: int
    symbols: tuple[int, ...]
    line: int | None = None


@dataclass(frozen=True, slots=True)
class LalrTable:
    """The parse table of Lark's LALR(1) parser.

    Attributes:
        start, end: the state to start from, and the one after the start symbol.
        actions: for each state, what it does on a terminal (`END_MARK`: at the end): shift to a state, reduce a rule.
        gotos: for each state, the state after a nonterminal.
        accepts: for each state, the terminals that the contextual lexer tries there, ignored ones included.
    """

    start: int
    end: int
    actions: Sequence[Mapping[int, Action]]
    gotos: Sequence[Mapping[int, int]]
    accepts: tuple[frozenset[int], ...]


@dataclass(frozen=True, slots=True)
class Indentation:
    """Lark's `Indenter` between lexer and parser.

    Attributes:
        newline, indent, dedent: terminal numbers; the last two are inserted and have no text.
        open_parens, close_parens: terminals between which line breaks do not count.
        tab_len: columns of a tab.
    """

    newline: int
    indent: int
    dedent: int
    open_parens: frozenset[int]
    close_parens: frozenset[int]
    tab_len: int


@dataclass(frozen=True)
class ContextFree:
    """A context-free grammar over terminals.

    Attributes:
        nonterminals: their names.
        terminals: see `Terminal`.
        rules: every production; reductions of `lalr` are positions in it.
        start: number of the nonterminal to start from.
        lexing: see the module.
        ignored: terminals that may stand between others.
        lalr: contextual lexing only.
        indentation: contextual lexing only; `None` without an indenter.
    """

    nonterminals: tuple[str, ...]
    terminals: tuple[Terminal, ...]
    rules: tuple[Rule, ...]
    start: int
    lexing: Lexing = "none"
    ignored: frozenset[int] = frozenset()
    lalr: LalrTable | None = None
    indentation: Indentation | None = None
