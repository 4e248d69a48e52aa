"""Context-free grammars: the form that Lark, GBNF and composed grammars are loaded to, and what is decided on it.

Knows parsers' tables and sets of stacks; knows no bytes and no tokens.
"""

from grammars.context_free.grammar import (
    END_MARK,
    ContextFree,
    Embedded,
    Indentation,
    LalrTable,
    Lexing,
    Rule,
    SpecialToken,
    Terminal,
)

__all__ = [
    "END_MARK",
    "ContextFree",
    "Embedded",
    "Indentation",
    "LalrTable",
    "Lexing",
    "Rule",
    "SpecialToken",
    "Terminal",
]
