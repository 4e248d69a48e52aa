"""`POST /v1/completions`: texts that go on from a prompt."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any, ClassVar

from pydantic import Field, Strict

from constrained.compile import check_grammar, compile
from constrained.replies import ReplyPlan
from constrained.server.answers import Answer, merged
from constrained.server.errors import ApiError, as_api_error
from constrained.server.grammars import grammar_of
from constrained.server.jobs import Job, in_time, queued
from constrained.server.logprobs import completion_logprobs
from constrained.server.parameters import UNSUPPORTED, Count, Flag, GuidedParameters, StreamOptions
from constrained.server.sse import Chunks, together
from constrained.server.state import ServerState
from grammars.tool_calls import ContentDelta

_DEFAULT_MAX_TOKENS = 16
"""OpenAI's own default for this route."""


class CompletionRequest(GuidedParameters):
    """What a text completion is asked for."""

    model: str
    prompt: str | list[str] | list[int] | list[list[int]]
    max_tokens: Count | None = None
    n: Count = 1
    stream: Flag = False
    stream_options: StreamOptions | None = None
    logprobs: Annotated[int, Strict(), Field(ge=0, le=20)] | None = None
    echo: Flag = False
    response_format: dict[str, Any] | None = None
    user: str | None = None

    refused: ClassVar = {
        **UNSUPPORTED,
        "suffix": (("",), "texts go on from their prompt; nothing is filled in"),
        "return_token_ids": ((False,), "the tokens of an answer are in its logprobs"),
    }

    def prompts(self) -> list[str | list[int]]:
        """One or several."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        tokens: list[int] = []
        several: list[str | list[int]] = []
        for one in self.prompt:
            if isinstance(one, int):
                tokens.append(one)
            else:
                several.append(one)
        return [tokens] if tokens else several


async def completion_jobs(state: ServerState, request: CompletionRequest) -> list[Job]:
    """A job for each prompt, all queued or none.

    Raises:
        ApiError: whatever is refused.
    """
    prompts = request.prompts()
    if not prompts or any(len(prompt) == 0 for prompt in prompts):
        raise ApiError(400, "prompt is empty; give the text to go on from", param="prompt", code="invalid_value")
    if len(prompts) * request.n > state.settings.max_choices:
        raise ApiError(
            400, f"{len(prompts)} prompts and n={request.n} make more answers than {state.settings.max_choices}",
            param="prompt", code="invalid_value",
        )  # fmt: skip
    asked = grammar_of(request, request.response_format, state.settings.max_grammar_bytes)
    grammar = None if asked is None else asked.grammar
    llm = state.llm.llm

    def plan(prompt: str | list[int]) -> ReplyPlan:
        ids = llm.text.encode(prompt) if isinstance(prompt, str) else prompt
        if not all(0 <= token < llm.model.config.vocab_size for token in ids):
            raise ApiError(400, "prompt holds a token id outside the vocabulary", param="prompt", code="invalid_value")
        try:
            if asked is not None:
                asked.check_places()
                check_grammar(asked.grammar)
            constraint = None if grammar is None else compile(grammar, llm.vocabulary, llm.limits)
        except ValueError as error:
            raise as_api_error(error, None if asked is None else asked.param) from error
        return ReplyPlan(ids, grammar, constraint, (), llm.vocabulary)

    jobs: list[Job] = []
    try:
        for prompt in prompts:
            jobs.append(
                await queued(
                    state,
                    await in_time(state, partial(plan, prompt)),
                    request,
                    max_tokens=request.max_tokens,
                    default_max_tokens=_DEFAULT_MAX_TOKENS,
                    choices=request.n,
                    logprobs=request.logprobs,
                    whole=grammar is not None,
                    at_once=not request.stream,
                )
            )
    except BaseException:
        for job in jobs:
            for answer in job.answers:
                await answer.close()
        raise
    return jobs


def _all_answers(jobs: Sequence[Job]) -> list[Answer]:
    return [answer for job in jobs for answer in job.answers]


def _usage(jobs: Sequence[Job]) -> dict[str, Any]:
    usages = [job.usage() for job in jobs]
    return {
        **{name: sum(one[name] for one in usages) for name in ("prompt_tokens", "completion_tokens", "total_tokens")},
        "prompt_tokens_details": {
            "cached_tokens": sum(one["prompt_tokens_details"]["cached_tokens"] for one in usages)
        },
    }


def _head(model: str) -> dict[str, Any]:
    return {
        "id": f"cmpl-{uuid.uuid4().hex}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": model,
        "system_fingerprint": None,
    }


def _echoes(state: ServerState, request: CompletionRequest) -> list[str]:
    """What each answer begins with."""
    if not request.echo:
        return [""] * (len(request.prompts()) * request.n)
    text = state.llm.llm.text
    prompts = [prompt if isinstance(prompt, str) else text.decode(prompt) for prompt in request.prompts()]
    return [prompt for prompt in prompts for _ in range(request.n)]


async def whole_completion(jobs: Sequence[Job], request: CompletionRequest, model: str) -> dict[str, Any]:
    """The `text_completion` object."""
    answers = _all_answers(jobs)
    state = jobs[0].state
    texts = _echoes(state, request)
    tokens: list[list[tuple[Any, int]]] = [[] for _ in answers]
    async with aclosing(merged(answers)) as parts:
        async for number, part in parts:
            if part.token is not None and part.token.logprob is not None:
                tokens[number].append((part.token.logprob, len(texts[number])))
            texts[number] += "".join(one.text for one in part.events if isinstance(one, ContentDelta))
    vocabulary = state.llm.llm.vocabulary
    choices = [
        {
            "index": number,
            "text": texts[number],
            "finish_reason": answer.finish_reason,
            "logprobs": completion_logprobs(vocabulary, tokens[number]) if tokens[number] else None,
        }
        for number, answer in enumerate(answers)
    ]
    return {**_head(model), "choices": choices, "usage": _usage(jobs)}


async def streamed_completion(jobs: Sequence[Job], request: CompletionRequest, model: str) -> AsyncIterator[bytes]:
    """The same as it comes."""
    answers = _all_answers(jobs)
    state = jobs[0].state
    include_usage = request.stream_options is not None and request.stream_options.include_usage
    chunks = Chunks(_head(model), include_usage)
    texts = _echoes(state, request)
    offsets = [len(text) for text in texts]

    def chunk(number: int, text: str, reason: str | None = None, logprobs: Any = None) -> bytes:
        return chunks.of({"index": number, "text": text, "finish_reason": reason, "logprobs": logprobs})

    async def told() -> AsyncIterator[tuple[bytes, bool]]:
        async with aclosing(merged(answers)) as parts:
            async for number, part in parts:
                text = "".join(one.text for one in part.events if isinstance(one, ContentDelta))
                logprobs = None
                if part.token is not None and part.token.logprob is not None:
                    logprobs = completion_logprobs(state.llm.llm.vocabulary, [(part.token.logprob, offsets[number])])
                offsets[number] += len(text)
                is_told = text or logprobs or part.finish_reason
                yield (chunk(number, text, part.finish_reason, logprobs) if is_told else b""), part.has_more

    for number, text in enumerate(texts):
        if text:
            yield chunk(number, text)
    async with aclosing(together(told())) as several:
        async for one in several:
            yield one
    if include_usage:
        yield chunks.last(_usage(jobs))
    yield b"data: [DONE]\n\n"
