"""Languages as values: JSON Schema, regular expressions, Lark, GBNF, choices.  Knows no tokens and no tensors."""

from __future__ import annotations

from grammars.errors import (
    EmptyLanguage,
    GrammarError,
    LarkError,
    LimitExceeded,
    RegexError,
    SchemaError,
    UnsupportedFeature,
)
from grammars.values import (
    AnyText,
    Choice,
    Gbnf,
    Grammar,
    Indenter,
    JsonSchema,
    Lark,
    OneOf,
    Phrases,
    Reasoning,
    Regex,
    Repeat,
    Sequence,
    SpecialToken,
    ToolCalls,
)

__all__ = [
    "AnyText",
    "Choice",
    "EmptyLanguage",
    "Gbnf",
    "Grammar",
    "GrammarError",
    "Indenter",
    "JsonSchema",
    "Lark",
    "LarkError",
    "LimitExceeded",
    "OneOf",
    "Phrases",
    "Reasoning",
    "Regex",
    "RegexError",
    "Repeat",
    "SchemaError",
    "Sequence",
    "SpecialToken",
    "ToolCalls",
    "UnsupportedFeature",
]
