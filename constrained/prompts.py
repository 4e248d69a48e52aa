"""From what users pass as a prompt to the chat messages that a model sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from constrained.schema_sketch import sketch

Message = Mapping[str, Any]
Prompt = str | Sequence[Message] | Sequence[int]
"""A text, which is one user message; a conversation of `{"role": ..., "content": ...}` messages; or token ids."""


def is_token_ids(prompt: Prompt) -> TypeGuard[Sequence[int]]:
    """Whether the prompt is given as tokens."""
    return (
        isinstance(prompt, Sequence)
        and not isinstance(prompt, str | bytes)
        and len(prompt) > 0
        and all(isinstance(token, int) and not isinstance(token, bool) for token in prompt)
    )


def as_messages(prompt: Prompt) -> list[dict[str, Any]]:
    """The conversation that a prompt stands for.

    Raises:
        TypeError: neither a text nor a sequence of messages.
        ValueError: an empty text, an empty conversation, or one of empty messages.
    """
    if isinstance(prompt, str):
        if not prompt.strip():
            raise ValueError("the prompt is empty; pass the text that the model is to read")
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
    if not any(_says_something(message) for message in messages):
        raise ValueError("every message of the conversation is empty; give at least one of them a content")
    return messages


def _says_something(message: Message) -> bool:
    content = message.get("content")
    return bool(content.strip() if isinstance(content, str) else content) or bool(message.get("tool_calls"))


def with_schema(prompt: Prompt, schema: Any) -> list[dict[str, Any]]:
    """The conversation with the task, "fill in this form as JSON", in its system message.

    The mask holds the form whatever the prompt says; the instruction is there for the values, so that the model knows
    which field it is filling.  The wording is the one of fourteen under which the default model copied most values
    right; "Text:" before a bare text is part of that.
    """
    messages = as_messages(prompt)
    if isinstance(prompt, str):
        messages = as_messages(f"Text: {prompt}")
    return with_instruction(messages, f"Fill in this form with values from the text, as JSON: {sketch(schema)}")


def with_instruction(messages: list[dict[str, Any]], instruction: str) -> list[dict[str, Any]]:
    """The conversation with a text more in its system message."""
    first = messages[0]
    if first["role"] in ("system", "developer") and isinstance(first.get("content"), str):
        return [{**first, "content": f"{first['content']}\n\n{instruction}"}, *messages[1:]]
    return [{"role": "system", "content": instruction}, *messages]
