"""From what users pass as a prompt to the chat messages that a model sees."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from constrained.tools import Tool

Message = Mapping[str, Any]
Prompt = str | Sequence[Message]
"""A text, which is one user message, or a conversation of `{"role": ..., "content": ...}` messages."""

_ANNOTATIONS = frozenset({"$schema", "$id", "$comment", "title", "default", "examples", "deprecated"})


def as_messages(prompt: Prompt) -> list[dict[str, Any]]:
    """The conversation that a prompt stands for.

    Raises:
        TypeError: neither a text nor a sequence of messages.
        ValueError: an empty conversation.
    """
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    if not isinstance(prompt, Sequence) or not all(isinstance(message, Mapping) for message in prompt):
        raise TypeError(
            f'a prompt is a text or a list of {{"role": ..., "content": ...}} messages, not {type(prompt).__name__}'
        )
    messages = [dict(message) for message in prompt if isinstance(message, Mapping)]
    for message in messages:
        if not isinstance(message.get("role"), str):
            raise ValueError(f"a message needs a role and a content: {message!r}")
    if not messages:
        raise ValueError("the conversation is empty; pass at least one message")
    return messages


def with_schema(prompt: Prompt, schema: Any) -> list[dict[str, Any]]:
    """The conversation with the task, "answer as JSON of this schema", in its system message.

    The mask holds the form whatever the prompt says; the instruction is there for the values, so that the model knows
    which field it is filling.
    """
    instruction = (
        "Extract the data from the user's text. Answer with one JSON value that fits this JSON Schema, "
        f"with values taken from the text:\n{compact_schema(schema)}"
    )
    return _with_instruction(as_messages(prompt), instruction)


def with_tools(prompt: Prompt, tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """The conversation with the tools described in its system message."""
    described = "\n".join(
        json.dumps(
            {"name": tool.name, "description": tool.description, "parameters": _without_annotations(tool.parameters)},
            ensure_ascii=False,
            default=float,
        )
        for tool in tools
    )
    instruction = (
        "Answer the user by calling one of these functions, "
        f'with {{"name": ..., "arguments": ...}} as JSON:\n{described}'
    )
    return _with_instruction(as_messages(prompt), instruction)


def compact_schema(schema: Any) -> str:
    """The schema as one line, without what says nothing about values (titles, identifiers)."""
    return json.dumps(_without_annotations(schema), ensure_ascii=False, separators=(", ", ": "), default=float)


def _with_instruction(messages: list[dict[str, Any]], instruction: str) -> list[dict[str, Any]]:
    first = messages[0]
    if first["role"] in ("system", "developer") and isinstance(first.get("content"), str):
        return [{**first, "content": f"{first['content']}\n\n{instruction}"}, *messages[1:]]
    return [{"role": "system", "content": instruction}, *messages]


def _without_annotations(schema: Any, is_schema: bool = True) -> Any:
    """A copy without annotations; below `properties` and the like, names are names and stay."""
    if isinstance(schema, list):
        return [_without_annotations(item, is_schema) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if not is_schema:
        return {name: _without_annotations(value) for name, value in schema.items()}
    kept = {}
    for keyword, value in schema.items():
        if keyword in _ANNOTATIONS:
            continue
        if keyword in ("enum", "const"):
            kept[keyword] = value
        else:
            named = keyword in ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
            kept[keyword] = _without_annotations(value, not named)
    return kept
