"""A conversation as the model's own chat template takes it.

Templates differ in what they read: system messages or none, arguments as an object or as its text, no content as an empty text
or as none at all, ids of nine letters and digits, one call in a message.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from constrained.prompts import Message
from engine.errors import TextError
from engine.text import Text
from grammars.tool_calls import format_of_template

_NINE = re.compile(r"length\s*(?:!=|<)\s*9\b")


def encoded_chat(
    text: Text, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] | None, variables: Mapping[str, Any]
) -> list[int]:
    """The tokens of a conversation, in the first of the forms that the template takes.

    Raises:
        TextError: it takes none; what it says to the first.
    """
    refused: TextError | None = None
    for form in _forms(text, messages, bool(tools)):
        try:
            return text.encode_chat(form, tools, **variables)
        except TextError as error:
            refused = refused or error
    assert refused is not None
    raise refused


def takes_tools(text: Text) -> bool:
    """Whether the model's chat template describes tools itself."""
    return "tool_use" in text.chat_templates or "tools" in _source(text, False)


def takes_calls(text: Text) -> bool:
    """Whether it writes the calls of earlier answers."""
    return "tool_calls" in _source(text, True)


def is_one_call_all(text: Text) -> bool:
    """Whether it refuses a message with several calls."""
    return "single tool-call" in _source(text, True)


def _source(text: Text, with_tools: bool) -> str:
    template = (text.chat_templates.get("tool_use") if with_tools else None) or text.chat_templates.get("default")
    return "" if template is None else template.source


def _forms(text: Text, messages: Sequence[Message], with_tools: bool) -> Iterator[list[dict[str, Any]]]:
    plain = [dict(message) for message in messages]
    if any(message.get("tool_calls") for message in plain):
        yield from _forms_of_calls(_source(text, with_tools), plain, is_one_call_all(text))
        return
    yield plain
    if any(message["role"] == "system" for message in plain):
        yield _without_system(plain)


def _without_system(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the system says as the beginning of what the user says; no role comes twice in a row."""
    merged: list[dict[str, Any]] = []
    for message in messages:
        one = {**message, "role": "user"} if message["role"] == "system" else message
        if merged and merged[-1]["role"] == one["role"]:
            merged[-1] = {**merged[-1], "content": f"{merged[-1].get('content') or ''}\n\n{one.get('content') or ''}"}
        else:
            merged.append(one)
    return merged


def _forms_of_calls(source: str, plain: list[dict[str, Any]], one_call: bool) -> Iterator[list[dict[str, Any]]]:
    if _NINE.search(source):
        plain = [_with_short_ids(message) for message in plain]
    if one_call:
        plain = _one_call_each(plain)
    contents: tuple[str | None, ...] = ("", None)
    if (format_of_template(source) or "").startswith("deepseek"):  # an empty text begins a second message there
        contents = (None, "")
    for content in contents:
        for as_text in (False, True):
            yield [_with_calls(message, as_text, content) for message in plain]


def _with_calls(message: dict[str, Any], as_text: bool, content: str | None) -> dict[str, Any]:
    if not message.get("tool_calls"):
        return message
    calls = []
    for call in message["tool_calls"]:
        arguments = call["function"].get("arguments", {})
        written = json.dumps(arguments, ensure_ascii=False) if as_text else arguments
        calls.append({**call, "function": {**call["function"], "arguments": written}})
    return {**message, "content": message.get("content") or content, "tool_calls": calls}


def _with_short_ids(message: dict[str, Any]) -> dict[str, Any]:
    changed = dict(message)
    if changed.get("tool_call_id"):
        changed["tool_call_id"] = _short_id(changed["tool_call_id"])
    if changed.get("tool_calls"):
        changed["tool_calls"] = [{**call, "id": _short_id(call.get("id") or "")} for call in changed["tool_calls"]]
    return changed


def _short_id(number: str) -> str:
    """Nine letters and digits that stand for an id."""
    return number if re.fullmatch("[A-Za-z0-9]{9}", number) else hashlib.sha256(number.encode()).hexdigest()[:9]


def _one_call_each(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same, each call in a message of its own, before its result."""
    results = {one["tool_call_id"]: one for one in messages if one["role"] == "tool" and one.get("tool_call_id")}
    told: set[str] = set()
    split: list[dict[str, Any]] = []
    for message in messages:
        calls = message.get("tool_calls") or []
        if len(calls) < 2:
            if message.get("tool_call_id") not in told:
                split.append(message)
            continue
        for at, call in enumerate(calls):
            split.append({**message, "content": message.get("content") if at == 0 else None, "tool_calls": [call]})
            if call.get("id") in results:
                split.append(results[call["id"]])
                told.add(call["id"])
    return split
