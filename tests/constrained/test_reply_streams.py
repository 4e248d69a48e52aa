"""Answers as they come, alone and among others: their parts add up to the whole."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from constrained import LLM, AsyncLLM, Sampling, SchemaError
from grammars.tool_calls import ArgumentsDelta, CallBegin, CallEnd, ContentDelta, Event, ReasoningDelta


class Verdict(BaseModel):
    ok: bool
    why: str = Field(max_length=4)


def weather(city: Literal["Oslo", "Bern"], days: int = 1) -> str:
    """Tells the weather."""
    return f"{days} dry days in {city}"


HOT = Sampling(temperature=1.2, seed=3)
CALLS: dict[str, Any] = {
    "tools": [weather],
    "tool_choice": "required",
    "tool_format": "hermes",
    "max_tokens": 150,
    "sampling": HOT,
}
THOUGHTS: dict[str, Any] = {"constraint": Verdict, "reasoning": True, "max_tokens": 120, "sampling": HOT}


def told(events: list[Event], kind: Any) -> str:
    return "".join(event.text for event in events if isinstance(event, kind))


def check(events: list[Event], reply: Any) -> None:
    assert told(events, ContentDelta) == reply.content
    assert told(events, ReasoningDelta) == reply.reasoning
    begins = [event for event in events if isinstance(event, CallBegin)]
    assert [event.name for event in begins] == [call.name for call in reply.calls]
    assert sum(isinstance(event, CallEnd) for event in events) == len(begins)
    for begin, call in zip(begins, reply.calls, strict=True):
        own = [event for event in events if isinstance(event, ArgumentsDelta) and event.index == begin.index]
        assert len(own) > 1
        assert told(own, ArgumentsDelta) == call.arguments_json
        assert json.loads(call.arguments_json)["city"] in ("Oslo", "Bern")


@pytest.mark.parametrize("options", [CALLS, THOUGHTS], ids=["calls", "thoughts"])
def test_the_parts_of_a_stream_add_up_to_the_reply(random_llm: LLM, options: dict[str, Any]) -> None:
    with random_llm.stream_reply("go", **options) as stream:
        events = list(stream)
        reply = stream.result()
    check(events, reply)
    again = random_llm.reply("go", **options)
    assert again.generation.text == reply.generation.text
    assert [call.arguments for call in again.calls] == [call.arguments for call in reply.calls]
    assert again.parsed == reply.parsed


def test_a_stream_that_is_left_ends_as_cancelled(random_llm: LLM) -> None:
    with random_llm.stream_reply("go", **CALLS) as stream:
        next(stream)
    reply = stream.result()
    assert reply.generation.finish_reason == "cancelled"
    assert reply.calls == []


@pytest.mark.parametrize("options", [CALLS, THOUGHTS], ids=["calls", "thoughts"])
def test_tasks_get_the_replies_that_they_get_alone(random_llm: LLM, options: dict[str, Any]) -> None:
    async def all_at_once() -> list[Any]:
        llm = AsyncLLM(random_llm)

        async def streamed(prompt: str) -> Any:
            async with llm.stream_reply(prompt, **options) as stream:
                events = [part async for part in stream]
                reply = await stream.result()
            check(events, reply)
            return reply

        return await asyncio.gather(
            streamed("go 0"), streamed("go 1"), *[llm.reply(f"go {at}", **options) for at in (2, 3)]
        )

    for at, reply in enumerate(asyncio.run(all_at_once())):
        alone = random_llm.reply(f"go {at}", **options)
        assert reply.generation.text == alone.generation.text
        assert [call.arguments for call in reply.calls] == [call.arguments for call in alone.calls]
        assert (reply.content, reply.reasoning, reply.parsed) == (alone.content, alone.reasoning, alone.parsed)


def test_tools_are_called_and_run_for_asyncio_too(random_llm: LLM) -> None:
    async def both() -> tuple[Any, Any, Any]:
        llm = AsyncLLM(random_llm)
        call = await llm.call_tool("go", [weather], max_tokens=80, sampling=HOT)
        spoken = {"sampling": Sampling(temperature=1.0, seed=2, logit_bias={ord("<"): -100.0}), "tool_format": "hermes"}
        none = await llm.call_tool("go", [weather], "auto", max_tokens=8, **spoken)
        run = await llm.run_tools("go", [weather], max_tokens=8, **spoken)
        return call, none, run

    call, none, run = asyncio.run(both())
    assert call.run().endswith(call.arguments["city"])
    assert none is None
    assert run.content
    assert len(run.replies) == 1


def test_what_is_refused_is_refused_before_the_first_part(random_llm: LLM) -> None:
    with pytest.raises(SchemaError, match="names 'x'"):
        random_llm.stream_reply("go", tools=[weather], tool_choice={"name": "x"})

    async def start() -> None:
        await AsyncLLM(random_llm).stream_reply("go", tools=[weather], tool_choice={"name": "x"}).start()

    with pytest.raises(SchemaError, match="names 'x'"):
        asyncio.run(start())


def test_a_task_that_is_cancelled_frees_its_blocks(random_llm: LLM) -> None:
    async def leave() -> None:
        async with AsyncLLM(random_llm).stream_reply("go", **THOUGHTS) as stream:
            await anext(stream)

    asyncio.run(leave())
    loop = random_llm.engine
    with loop._changed:
        assert loop._changed.wait_for(lambda: loop._thread is None, 300)
    assert loop.usage().used_blocks == 0
