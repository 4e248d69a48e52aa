"""`POST /v1/chat/completions`: answers whole, or as they come."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from constrained.replies import ReplyPlan
from constrained.server.answers import Part, merged
from constrained.server.chat_request import ChatRequest
from constrained.server.grammars import grammar_of
from constrained.server.jobs import Job, planned, queued
from constrained.server.logprobs import chat_logprobs
from constrained.server.sse import Chunks, together
from constrained.server.state import ServerState
from grammars.tool_calls import ArgumentsDelta, CallBegin, ContentDelta, Event, ReasoningDelta


async def chat_job(state: ServerState, request: ChatRequest) -> Job:
    """Plans and queues what a request asks for.

    Raises:
        ApiError: whatever is refused.
    """
    asked = grammar_of(request, request.response_format, state.settings.max_grammar_bytes)
    plan = await planned(
        state,
        [message.plain() for message in request.messages],
        tools=request.tools,
        tool_choice=request.tool_choice,
        parallel=request.parallel_tool_calls,
        tool_format=request.tool_format,
        content=asked,
        reasoning=request.thinking(),
        variables=request.template_variables(),
    )
    return await queued(
        state,
        plan,
        request,
        max_tokens=request.limit,
        default_max_tokens=state.settings.default_max_tokens,
        choices=request.n,
        logprobs=request.top,
        whole=_is_whole(plan, asked is not None),
        at_once=not request.stream,
        max_param="max_tokens" if request.max_completion_tokens is None else "max_completion_tokens",
    )


def _is_whole(plan: ReplyPlan, has_content: bool) -> bool:
    """Whether the content cannot end but as a sentence of the caller's grammar."""
    return has_content and plan.grammar is not None


async def whole_chat(job: Job, model: str) -> dict[str, Any]:
    """The `chat.completion` object."""
    events: list[list[Event]] = [[] for _ in job.answers]
    tokens: list[list[Any]] = [[] for _ in job.answers]
    async with aclosing(merged(job.answers)) as parts:
        async for number, part in parts:
            events[number].extend(part.events)
            if part.token is not None and part.token.logprob is not None:
                tokens[number].append(part.token.logprob)
    text = job.state.llm.llm.vocabulary
    choices = [
        {
            "index": number,
            "message": message_of(events[number]),
            "finish_reason": answer.finish_reason,
            "logprobs": chat_logprobs(text, tokens[number]) if tokens[number] else None,
        }
        for number, answer in enumerate(job.answers)
    ]
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": choices,
        "usage": job.usage(),
        "system_fingerprint": None,
    }


def message_of(events: list[Event]) -> dict[str, Any]:
    """The assistant's message that the parts add up to."""
    content = "".join(one.text for one in events if isinstance(one, ContentDelta))
    reasoning = "".join(one.text for one in events if isinstance(one, ReasoningDelta))
    calls = [
        {
            "id": call_id(),
            "type": "function",
            "function": {
                "name": begin.name,
                "arguments": "".join(
                    one.text for one in events if isinstance(one, ArgumentsDelta) and one.index == begin.index
                ),
            },
        }
        for begin in events
        if isinstance(begin, CallBegin)
    ]
    message: dict[str, Any] = {
        "role": "assistant",
        "content": content if content or not calls else None,
        "refusal": None,
    }
    if reasoning:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = calls
    return message


async def streamed_chat(job: Job, model: str, include_usage: bool) -> AsyncIterator[bytes]:
    """The `chat.completion.chunk` events."""
    chunks = Chunks(
        {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": model,
            "system_fingerprint": None,
        },
        include_usage,
    )
    vocabulary = job.state.llm.llm.vocabulary

    def chunk(number: int, delta: dict[str, Any], reason: str | None = None, logprobs: Any = None) -> bytes:
        return chunks.of({"index": number, "delta": delta, "finish_reason": reason, "logprobs": logprobs})

    async def told() -> AsyncIterator[tuple[bytes, bool]]:
        async with aclosing(merged(job.answers)) as parts:
            async for number, part in parts:
                logprobs = _part_logprobs(vocabulary, part)
                for delta in deltas(part.events) or ([{}] if logprobs else []):
                    yield chunk(number, delta, None, logprobs), True
                    logprobs = None
                yield (b"" if part.finish_reason is None else chunk(number, {}, part.finish_reason)), part.has_more

    for number in range(len(job.answers)):
        yield chunk(number, {"role": "assistant", "content": ""})
    async with aclosing(together(told())) as several:
        async for one in several:
            yield one
    if include_usage:
        yield chunks.last(job.usage())
    yield b"data: [DONE]\n\n"


def _part_logprobs(vocabulary: Any, part: Part) -> dict[str, Any] | None:
    if part.token is None or part.token.logprob is None:
        return None
    return chat_logprobs(vocabulary, [part.token.logprob])


def deltas(events: list[Event]) -> list[dict[str, Any]]:
    """The parts as `delta` objects."""
    found: list[dict[str, Any]] = []
    for one in events:
        if isinstance(one, ContentDelta):
            found.append({"content": one.text})
        elif isinstance(one, ReasoningDelta):
            found.append({"reasoning_content": one.text})
        elif isinstance(one, CallBegin):
            function = {"name": one.name, "arguments": ""}
            found.append(
                {"tool_calls": [{"index": one.index, "id": call_id(), "type": "function", "function": function}]}
            )
        elif isinstance(one, ArgumentsDelta) and one.text:
            found.append({"tool_calls": [{"index": one.index, "function": {"arguments": one.text}}]})
    return found


def call_id() -> str:
    """Tells a call from others."""
    return f"call_{uuid.uuid4().hex[:24]}"
