"""Grammars as values: frozen, hashable, picklable, equal when they say the same; nothing is compiled here."""

from __future__ import annotations

from grammars.values.base import Grammar
from grammars.values.combined import OneOf, Part, Phrases, Reasoning, Repeat, Sequence, SpecialToken
from grammars.values.grammar_text import Gbnf, Indenter, Lark, Lexer
from grammars.values.json_schema import DRAFT_NAMES, Escapes, Formats, JsonSchema, PropertyOrder, Whitespace
from grammars.values.texts import AnyText, Choice, Dialect, Regex
from grammars.values.tool_calls import ToolCalls, ToolFormat, ToolMode, ToolSignature

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
    "Repeat",
    "Sequence",
    "SpecialToken",
    "ToolCalls",
    "ToolFormat",
    "ToolMode",
    "ToolSignature",
    "Whitespace",
]
