"""Formats in which models call tools: for each the grammar that calls are generated in, and beside it the reader that takes
them apart again."""

from __future__ import annotations

from grammars.tool_calls.events import (
    ArgumentsDelta,
    CallBegin,
    CallEnd,
    ContentDelta,
    Event,
    ReasoningDelta,
    ToolTextError,
)
from grammars.tool_calls.formats import FORMATS, Layout, format_of_template
from grammars.tool_calls.lowering import lowered
from grammars.tool_calls.reading import CallReader, Reader, read_calls
from grammars.tool_calls.reasoning import reader_of
from grammars.tool_calls.tagged import between_tags

__all__ = [
    "FORMATS",
    "ArgumentsDelta",
    "CallBegin",
    "CallEnd",
    "CallReader",
    "ContentDelta",
    "Event",
    "Layout",
    "Reader",
    "ReasoningDelta",
    "ToolTextError",
    "between_tags",
    "format_of_template",
    "lowered",
    "read_calls",
    "reader_of",
]
