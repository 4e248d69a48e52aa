"""Grammars as values: frozen, hashable, picklable, equal when they say the same; nothing is compiled here."""

from __future__ import annotations

from grammars.values.base import Grammar
from grammars.values.combined import OneOf, Part, Phrases, Reasoning, Sequence, SpecialToken
from grammars.values.grammar_text import Gbnf, Indenter, Lark, Lexer
from grammars.values.json_schema import DRAFT_NAMES, Escapes, Formats, JsonSchema, PropertyOrder, Whitespace
from grammars.values.texts import AnyText, Choice, Dialect, Regex

__all__ = [
    "DRAFT_NAMES",
    "AnyText",
    "Choice",
    "Dialect",
    "Escapes",
    "Formats",
    "Gbnf",
    "Grammar",
    "Indenter",
    "JsonSchema",
    "Lark",
    "Lexer",
    "OneOf",
    "Part",
    "Phrases",
    "PropertyOrder",
    "Reasoning",
    "Regex",
    "Sequence",
    "SpecialToken",
    "Whitespace",
]
