"""Calls to tools, as they are handed over: checked, and ready to be carried out."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from constrained.errors import ResultError
from constrained.tool_sources import Tool, read_tools

__all__ = ["Tool", "ToolCall", "checked_call", "read_tools"]


@dataclass(frozen=True)
class ToolCall:
    """A call whose arguments fit the tool's schema.

    Attributes:
        name: the tool's name.
        arguments: the arguments by name; instances of the annotated types where the tool is a function or a class.
        arguments_json: the same as the model wrote them.
        tool: the tool.
        generation: how it came about: metrics, token ids, finish reason.
        id: tells it from other calls, so that results can be given to it.
    """

    name: str
    arguments: dict[str, Any]
    arguments_json: str
    tool: Tool = field(repr=False)
    generation: Any = field(default=None, repr=False, compare=False)
    id: str = field(default_factory=lambda: f"call_{uuid.uuid4().hex[:24]}", compare=False)

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

    def as_message(self) -> dict[str, Any]:
        """The call as it stands among the `tool_calls` of an assistant's message."""
        return {
            "id": self.id,
            "type": "function",
            "function": {"name": self.name, "arguments": self.arguments_json},
        }


def checked_call(tools: Sequence[Tool], name: str, arguments_json: str, generation: Any = None) -> ToolCall:
    """A call that was read from a finished text.

    Raises:
        ResultError: the type's own validators refuse what its schema allows; or no tool has the name.
    """
    for tool in tools:
        if tool.name == name:
            return ToolCall(name, tool.parse(arguments_json), arguments_json, tool, generation)
    raise ResultError(
        f"the text calls {name!r}; the tools are {', '.join(tool.name for tool in tools)}", arguments_json
    )
