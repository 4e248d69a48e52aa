"""Rules with choices, groups and repeats, and their way to a context-free grammar in numbers.

What is regular in them becomes one terminal, however many rules it was written in.
"""

from __future__ import annotations

from grammars.ebnf.expressions import (
    EMPTY,
    Alternatives,
    Concatenation,
    Definition,
    Expression,
    Foreign,
    Reference,
    Repeat,
    Text,
)
from grammars.ebnf.flatten import flatten
from grammars.ebnf.folding import fold

__all__ = [
    "EMPTY",
    "Alternatives",
    "Concatenation",
    "Definition",
    "Expression",
    "Foreign",
    "Reference",
    "Repeat",
    "Text",
    "flatten",
    "fold",
]
