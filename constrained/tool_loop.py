"""Answers with the help of tools: call, carry out, read the result, until the model speaks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from constrained.errors import SchemaError, ToolStepsExceeded
from constrained.prompts import Prompt, as_messages
from constrained.tools import read_tools

if TYPE_CHECKING:
    from constrained.llm import LLM
    from constrained.replies import Reply


@dataclass(frozen=True)
class ToolRun:
    """What came of a run.

    Attributes:
        content: the answer.
        messages: the whole conversation, the answer included, as it can be gone on from.
        replies: each answer of the model, calls among them.
    """

    content: str
    messages: list[dict[str, Any]] = field(repr=False)
    replies: list[Reply] = field(repr=False)


def run_tools(llm: LLM, messages: Prompt, tools: Sequence[Any], max_steps: int, options: Mapping[str, Any]) -> ToolRun:
    """See `LLM.run_tools`."""
    if not isinstance(max_steps, int) or isinstance(max_steps, bool) or max_steps < 1:
        raise ValueError(f"max_steps={max_steps!r} is not accepted; pass an integer of at least 1")
    offered = read_tools(tools)
    for tool in offered:
        if tool.function is None and tool.make is None:
            raise SchemaError(f"tool {tool.name!r} was given as a schema and cannot be carried out; pass a function")
    conversation = as_messages(messages)
    replies: list[Reply] = []
    for _ in range(max_steps):
        reply = llm.reply(conversation, tools=offered, **options)
        replies.append(reply)
        if not reply.calls:
            conversation.append({"role": "assistant", "content": reply.content})
            return ToolRun(reply.content, conversation, replies)
        conversation.append(
            {
                "role": "assistant",
                "content": reply.content or None,
                "tool_calls": [call.as_message() for call in reply.calls],
            }
        )
        for call in reply.calls:
            conversation.append(
                {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": _written(call.run())}
            )
    raise ToolStepsExceeded(
        f"the model still calls tools after {max_steps} answers; raise max_steps, or ask for less", conversation
    )


def _written(result: Any) -> str:
    """A result as the model reads it: a text as it is, anything else as JSON."""
    if isinstance(result, str):
        return result
    if hasattr(result, "model_dump_json"):
        return str(result.model_dump_json())
    return json.dumps(result, ensure_ascii=False, default=str)
