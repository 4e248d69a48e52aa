"""Formats of JSON Schema as regular languages over the decoded text of the string; see docs/formats.md."""

from grammars.json_schema.formats.registry import FORMATS, format_rx

__all__ = ["FORMATS", "format_rx"]
