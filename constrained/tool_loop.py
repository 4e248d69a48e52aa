"""Answers with the help of tools: call, carry out, read the result, until the model speaks."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from constrained.errors import SchemaError, ToolStepsExceeded
from constrained.prompts import Prompt, as_messages
from constrained.tools import Tool, read_tools

if TYPE_CHECKING:
    from constrained.async_llm import AsyncLLM
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
    offered = _runnable(tools, max_steps)
    for tool in offered:
        if _is_coroutine(tool):
            raise SchemaError(f"tool {tool.name!r} is a coroutine function; AsyncLLM.run_tools awaits those")
    conversation = as_messages(messages)
    replies: list[Reply] = []
    for _ in range(max_steps):
        reply = llm.reply(conversation, tools=offered, **options)
        replies.append(reply)
        if not reply.calls:
            return _answered(reply, conversation, replies)
        _tell(conversation, reply, [call.run() for call in reply.calls])
    raise _exceeded(max_steps, conversation)


async def run_tools_async(
    llm: AsyncLLM, messages: Prompt, tools: Sequence[Any], max_steps: int, options: Mapping[str, Any]
) -> ToolRun:
    """See `AsyncLLM.run_tools`."""
    offered = _runnable(tools, max_steps)
    conversation = as_messages(messages)
    replies: list[Reply] = []
    for _ in range(max_steps):
        reply = await llm.reply(conversation, tools=offered, **options)
        replies.append(reply)
        if not reply.calls:
            return _answered(reply, conversation, replies)
        runs = [call.run() if _is_coroutine(call.tool) else asyncio.to_thread(call.run) for call in reply.calls]
        _tell(conversation, reply, await asyncio.gather(*runs))
    raise _exceeded(max_steps, conversation)


def _runnable(tools: Sequence[Any], max_steps: int) -> list[Tool]:
    if not isinstance(max_steps, int) or isinstance(max_steps, bool) or max_steps < 1:
        raise ValueError(f"max_steps={max_steps!r} is not accepted; pass an integer of at least 1")
    offered = read_tools(tools)
    for tool in offered:
        if tool.function is None and tool.make is None:
            raise SchemaError(f"tool {tool.name!r} was given as a schema and cannot be carried out; pass a function")
    return offered


def _is_coroutine(tool: Tool) -> bool:
    called = tool.function
    return inspect.iscoroutinefunction(called) or inspect.iscoroutinefunction(type(called).__call__)


def _answered(reply: Reply, conversation: list[dict[str, Any]], replies: list[Reply]) -> ToolRun:
    conversation.append({"role": "assistant", "content": reply.content})
    return ToolRun(reply.content, conversation, replies)


def _tell(conversation: list[dict[str, Any]], reply: Reply, results: Sequence[Any]) -> None:
    """Adds the calls and what came of them."""
    calls = [call.as_message() for call in reply.calls]
    conversation.append({"role": "assistant", "content": reply.content or None, "tool_calls": calls})
    for call, result in zip(reply.calls, results, strict=True):
        conversation.append({"role": "tool", "tool_call_id": call.id, "name": call.name, "content": _written(result)})


def _exceeded(max_steps: int, conversation: list[dict[str, Any]]) -> ToolStepsExceeded:
    return ToolStepsExceeded(
        f"the model still calls tools after {max_steps} answers; raise max_steps, or ask for less", conversation
    )


def _written(result: Any) -> str:
    """A result as the model reads it: a text as it is, anything else as JSON."""
    if isinstance(result, str):
        return result
    if hasattr(result, "model_dump_json"):
        return str(result.model_dump_json())
    return json.dumps(result, ensure_ascii=False, default=str)
