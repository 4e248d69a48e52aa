"""Calls to tools: the language that they are generated in, and what comes back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from constrained.deep_stack import with_deep_stack
from constrained.errors import SchemaError, UnsupportedFeature
from constrained.tool_sources import Tool, read_tools
from grammars import JsonSchema

__all__ = ["Tool", "ToolCall", "calls_grammar", "chosen_tools", "read_call", "read_tools"]


@dataclass(frozen=True)
class ToolCall:
    """A call whose arguments fit the tool's schema.

    Attributes:
        name: the tool's name.
        arguments: the arguments by name; instances of the annotated types where the tool is a function or a class.
        arguments_json: the same as the model wrote them.
        tool: the tool.
        generation: how it came about: metrics, token ids, finish reason.
    """

    name: str
    arguments: dict[str, Any]
    arguments_json: str
    tool: Tool = field(repr=False)
    generation: Any = field(default=None, repr=False, compare=False)

    def run(self) -> Any:
        """Calls the Python function with the arguments, or makes the instance of the class.

        Raises:
            TypeError: the tool came from a dict, so there is nothing to call.
        """
        if self.tool.make is not None:
            return self.tool.make(self.arguments_json)
        if self.tool.function is None:
            raise TypeError(
                f"tool {self.name!r} was given as a schema; only tools given as functions or classes can be run"
            )
        return self.tool.function(**self.arguments)


def chosen_tools(tools: Sequence[Tool], tool_choice: Any) -> list[Tool]:
    """The tools that `tool_choice` leaves to the model.

    Args:
        tool_choice: `"required"` (any of them) or `{"name": ...}` (that one; the form
            `{"type": "function", "function": {"name": ...}}` means the same).
    """
    if tool_choice == "required":
        return list(tools)
    if tool_choice == "auto":
        raise UnsupportedFeature(
            'tool_choice="auto" (text or a call) is not available yet; use "required" or {"name": ...}'
        )
    if isinstance(tool_choice, Mapping):
        name = tool_choice.get("name") or dict(tool_choice.get("function") or {}).get("name")
        for tool in tools:
            if tool.name == name:
                return [tool]
        raise SchemaError(f"tool_choice names {name!r}; the tools are {', '.join(tool.name for tool in tools)}")
    raise TypeError(f'tool_choice is {tool_choice!r}; pass "required" or {{"name": ...}}')


def calls_grammar(tools: Sequence[Tool]) -> JsonSchema:
    """The language of one call, `{"name": ..., "arguments": {...}}`, to one of `tools`.

    Each tool's schema is a document of its own, so that its `#/...` references keep their meaning.
    """
    documents = {_document(tool): tool.grammar.text for tool in tools}
    calls = [
        {
            "type": "object",
            "properties": {"name": {"const": tool.name}, "arguments": {"$ref": _document(tool)}},
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for tool in tools
    ]
    return JsonSchema(calls[0] if len(calls) == 1 else {"anyOf": calls}, resources=documents)


def read_call(tools: Sequence[Tool], text: str, generation: Any = None) -> ToolCall:
    """The call that a finished text stands for."""
    members = with_deep_stack(lambda: _members(text))
    called = json.loads(members["name"])
    tool = next(tool for tool in tools if tool.name == called)
    arguments_json = members["arguments"]
    return ToolCall(tool.name, tool.parse(arguments_json), arguments_json, tool, generation)


def _document(tool: Tool) -> str:
    return f"urn:tool:{tool.name}"


def _members(text: str) -> dict[str, str]:
    """The JSON text of each member of an object, as it was written (digits and escapes untouched)."""
    decoder = json.JSONDecoder(parse_int=str, parse_float=str)  # numbers of any length are only passed over
    members = {}
    position = _skip(text, text.index("{") + 1, " \t\r\n")
    while text[position] != "}":
        key, position = decoder.raw_decode(text, position)
        position = _skip(text, position, " \t\r\n:")
        _, end = decoder.raw_decode(text, position)
        members[key] = text[position:end]
        position = _skip(text, end, " \t\r\n,")
    return members


def _skip(text: str, position: int, characters: str) -> int:
    while text[position] in characters:
        position += 1
    return position
