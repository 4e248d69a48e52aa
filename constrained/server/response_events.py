"""A response as it grows: its items, and the events that tell of them."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from constrained.server.answers import Part, merged
from constrained.server.chat import call_id
from constrained.server.errors import as_api_error
from constrained.server.jobs import Job
from constrained.server.logprobs import UntoldTokens
from constrained.server.sse import event
from constrained.vocabulary import Vocabulary
from grammars.tool_calls import ArgumentsDelta, CallBegin, CallEnd, ContentDelta, Event, ReasoningDelta

if TYPE_CHECKING:
    from constrained.server.responses import ResponseRequest

Named = tuple[str, dict[str, Any]]


class Items:
    """The output items of a response; feeding it an event gives the events that tell a client of it."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.output: list[dict[str, Any]] = []
        self._open: str | None = None
        self._text = ""
        self._logprobs: list[dict[str, Any]] = []
        self._untold = UntoldTokens(vocabulary)

    def take(self, part: Part) -> Iterator[Named]:
        """Takes what a token, or the end, adds to the answer.

        Log-probabilities go with the text that their tokens spell; those of thoughts, calls and marks are not told.
        """
        if part.token is not None and part.token.logprob is not None:
            self._untold.add(part.token.logprob)
        if part.events and not any(isinstance(one, ContentDelta) for one in part.events):
            self._untold.clear()
        for one in part.events:
            yield from self._feed(one)

    def _feed(self, part: Event) -> Iterator[Named]:
        if isinstance(part, ContentDelta):
            yield from self._opened("message")
            self._text += part.text
            logprobs = self._untold.told(part.text)
            self._logprobs += logprobs
            yield (
                "response.output_text.delta",
                {**self._place(), "content_index": 0, "delta": part.text, "logprobs": logprobs},
            )
        elif isinstance(part, ReasoningDelta):
            yield from self._opened("reasoning")
            self._text += part.text
            yield "response.reasoning_text.delta", {**self._place(), "content_index": 0, "delta": part.text}
        elif isinstance(part, CallBegin):
            yield from self.end()
            item = {
                "id": f"fc_{uuid.uuid4().hex}", "type": "function_call", "status": "in_progress", "call_id": call_id(),
                "name": part.name, "arguments": "",
            }  # fmt: skip
            yield from self._added("function_call", item)
        elif isinstance(part, ArgumentsDelta):
            self._text += part.text
            yield "response.function_call_arguments.delta", {**self._place(), "delta": part.text}
        elif isinstance(part, CallEnd):
            yield from self.end()

    def end(self, status: str = "completed") -> Iterator[Named]:
        """Ends the item that is open, if one is."""
        kind, text = self._open, self._text
        if kind is None:
            return
        item = self.output[-1]
        item["status"] = status
        place = self._place()
        if kind == "function_call":
            item["arguments"] = text
            yield "response.function_call_arguments.done", {**place, "name": item["name"], "arguments": text}
        elif kind == "message":
            part = _text_part(text, self._logprobs)
            item["content"] = [part]
            yield "response.output_text.done", {**place, "content_index": 0, "text": text, "logprobs": self._logprobs}
            yield "response.content_part.done", {**place, "content_index": 0, "part": part}
        else:
            item["content"] = [{"type": "reasoning_text", "text": text}]
            yield "response.reasoning_text.done", {**place, "content_index": 0, "text": text}
        yield "response.output_item.done", {"output_index": len(self.output) - 1, "item": item}
        self._open, self._text = None, ""

    def _opened(self, kind: str) -> Iterator[Named]:
        if self._open == kind:
            return
        yield from self.end()
        if kind == "message":
            item: dict[str, Any] = {
                "id": f"msg_{uuid.uuid4().hex}", "type": "message", "role": "assistant", "status": "in_progress",
                "content": [],
            }  # fmt: skip
        else:
            item = {
                "id": f"rs_{uuid.uuid4().hex}",
                "type": "reasoning",
                "status": "in_progress",
                "summary": [],
                "content": [],
            }
        yield from self._added(kind, item)
        if kind == "message":
            yield "response.content_part.added", {**self._place(), "content_index": 0, "part": _text_part("", [])}

    def _added(self, kind: str, item: dict[str, Any]) -> Iterator[Named]:
        self.output.append(item)
        self._open, self._text, self._logprobs = kind, "", []
        yield "response.output_item.added", {"output_index": len(self.output) - 1, "item": dict(item)}

    def _place(self) -> dict[str, Any]:
        return {"item_id": self.output[-1]["id"], "output_index": len(self.output) - 1}


def _text_part(text: str, logprobs: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}


def response_object(job: Job, request: ResponseRequest, model: str, number: str, created: int) -> dict[str, Any]:
    """The `response` object before anything has come."""
    text = {"format": {"type": "text"}}
    if request.text is not None and request.text.format is not None:
        text = {"format": request.text.format}
    return {
        "id": number,
        "object": "response",
        "created_at": created,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": request.instructions,
        "max_output_tokens": request.max_output_tokens,
        "model": model,
        "output": [],
        "parallel_tool_calls": request.parallel_tool_calls,
        "previous_response_id": None,
        "reasoning": None if request.reasoning is None else request.reasoning.model_dump(include={"effort", "summary"}),
        "store": False,
        "temperature": request.temperature,
        "text": text,
        "tool_choice": request.tool_choice or "auto",
        "tools": request.tools or [],
        "top_logprobs": request.top_logprobs or 0,
        "top_p": request.top_p,
        "truncation": "disabled",
        "usage": None,
        "user": request.user,
        "metadata": request.metadata or {},
    }


def _ended(found: dict[str, Any], job: Job, items: Items) -> dict[str, Any]:
    usage = job.usage()
    cut = job.answers[0].finish_reason == "length"
    return {
        **found,
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "output": items.output,
        "usage": {
            "input_tokens": usage["prompt_tokens"],
            "input_tokens_details": usage["prompt_tokens_details"],
            "output_tokens": usage["completion_tokens"],
            "output_tokens_details": usage["completion_tokens_details"],
            "total_tokens": usage["total_tokens"],
        },
    }


async def whole_response(job: Job, request: ResponseRequest, model: str) -> dict[str, Any]:
    """The finished `response` object."""
    items = Items(job.state.llm.llm.vocabulary)
    async with aclosing(merged(job.answers)) as parts:
        async for _, part in parts:
            for _told in items.take(part):
                pass
    for _told in items.end("incomplete" if job.answers[0].finish_reason == "length" else "completed"):
        pass
    found = response_object(job, request, model, f"resp_{uuid.uuid4().hex}", int(time.time()))
    return _ended(found, job, items)


async def streamed_response(job: Job, request: ResponseRequest, model: str) -> AsyncIterator[bytes]:
    """The events of a response, numbered."""
    found = response_object(job, request, model, f"resp_{uuid.uuid4().hex}", int(time.time()))
    items, count = Items(job.state.llm.llm.vocabulary), 0

    def told(name: str, data: dict[str, Any]) -> bytes:
        nonlocal count
        count += 1
        return event({"type": name, "sequence_number": count - 1, **data}, name)

    yield told("response.created", {"response": found})
    yield told("response.in_progress", {"response": found})
    try:
        async with aclosing(merged(job.answers)) as parts:
            async for _, part in parts:
                for name, data in items.take(part):
                    yield told(name, data)
    except Exception as error:
        problem = as_api_error(error)
        failed = {"code": problem.code or "server_error", "message": problem.message}
        yield told("response.failed", {"response": {**found, "status": "failed", "error": failed}})
        return
    for name, data in items.end("incomplete" if job.answers[0].finish_reason == "length" else "completed"):
        yield told(name, data)
    ended = _ended(found, job, items)
    yield told(f"response.{ended['status']}", {"response": ended})
