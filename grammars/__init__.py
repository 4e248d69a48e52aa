"""Languages as values: JSON Schema, regular expressions, choices.  Knows no tokens and no tensors."""

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
from grammars.values import Choice, JsonSchema, Regex

__all__ = [
    "Choice",
    "EmptyLanguage",
    "GrammarError",
    "JsonSchema",
    "LarkError",
    "LimitExceeded",
    "Regex",
    "RegexError",
    "SchemaError",
    "UnsupportedFeature",
]
