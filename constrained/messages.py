"""A conversation with tools as chat templates read it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from constrained.prompts import Message, Prompt, as_messages
from constrained.schema_sketch import sketch
from constrained.tools import Tool
from engine.text import Text
from grammars.tool_calls.formats import layout_of
from grammars.tool_calls.tagged import CLOSE, END, OPEN
from grammars.values import ToolCalls

_PURPOSE = {
    "required": "Answer the user by calling one of these functions, as JSON of its form:",
    "auto": "Answer in words, or by calling one of these functions, as JSON of its form and nothing else:",
    "none": "These functions exist, but are not to be called now:",
}

_EXAMPLES = {"pythonic": "ARGUMENT=VALUE", "qwen3_coder": f"{OPEN}ARGUMENT>\nVALUE{CLOSE}{END}"}
"""Arguments in the formats that write them otherwise than as a JSON object."""


def described_tools(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """The tools as templates expect them."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)},
        }
        for tool in tools
    ]


def plain_messages(prompt: Prompt) -> list[dict[str, Any]]:
    """The conversation with contents of text parts joined, and arguments of calls as objects, as templates want them.

    Raises:
        ValueError: a part that is no text.
        As `as_messages`.
    """
    messages = as_messages(prompt)
    for message in messages:
        content = message.get("content")
        if isinstance(content, list | tuple):
            message["content"] = "".join(_text_of(part) for part in content)
        if message.get("tool_calls"):
            message["tool_calls"] = [_with_object(call) for call in message["tool_calls"]]
    return messages


def known_roles(messages: Sequence[Message], text: Text) -> list[dict[str, Any]]:
    """The conversation with `developer` as `system` where the chat template does not know that role."""
    template = text.chat_templates.get("default")
    if template is not None and "developer" in template.source:
        return [dict(message) for message in messages]
    return [{**one, "role": "system"} if one["role"] == "developer" else dict(one) for one in messages]


def spelled_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The conversation for a template that knows no tools: calls are spelled out, results come from the user."""
    spelled: list[dict[str, Any]] = []
    for message in messages:
        calls = message.get("tool_calls")
        if calls:
            written = [
                json.dumps({"name": call["function"]["name"], "arguments": call["function"].get("arguments", {})})
                for call in calls
            ]
            said = str(message.get("content") or "")
            spelled.append({"role": "assistant", "content": "\n".join(filter(None, [said, *written]))})
        elif message["role"] in ("tool", "function"):
            name = message.get("name")
            what = f"Result of {name}" if name else "Result"
            spelled.append({"role": "user", "content": f"{what}: {message.get('content') or ''}"})
        else:
            spelled.append({**message, "content": message.get("content") or ""})
    return spelled


def instruction(tools: Sequence[Tool], value: ToolCalls, named: tuple[str, ...] | None) -> str:
    """What the system message says of the tools where the template says nothing.

    Args:
        named: the tools that may be called, where that is settled.
    """
    listed = [tool for tool in tools if named is None or tool.name in named]
    described = "\n".join(
        f'{{"name": {json.dumps(tool.name)}, "arguments": {sketch(tool.parameters)}}}'
        + (f" {tool.description}" if tool.description else "")
        for tool in listed
    )
    text = f"{_PURPOSE[value.tool_choice]}\n{described}"
    layout = layout_of(value)
    if value.format != "json" and value.tool_choice != "none":
        arguments = _EXAMPLES.get(value.format, '{"ARGUMENT": VALUE}')
        example = layout.before_name + "NAME" + layout.before_arguments + arguments + layout.after
        text += f"\nWrite a call like this: {layout.begin}{example}{layout.end}"
    return text


def _text_of(part: Any) -> str:
    if isinstance(part, str):
        return part
    for key in ("text", "refusal"):
        if isinstance(part, Mapping) and isinstance(part.get(key), str):
            return str(part[key])
    kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
    raise ValueError(f"a message holds a part of type {kind!r}; this model reads text alone")


def _with_object(call: Any) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise ValueError(f"a tool call needs a function with a name: {str(call)[:80]}")
    arguments = function.get("arguments", {})
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments) if arguments.strip() else {}
        except ValueError:
            raise ValueError(
                f"the arguments of the call to {function['name']!r} are not JSON: {arguments[:60]!r}"
            ) from None
    return {**call, "function": {**function, "arguments": arguments}}
