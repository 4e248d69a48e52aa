"""The front door for asyncio."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest
from pydantic import BaseModel, Field

from constrained import LLM, AsyncLLM, BudgetError, Choice, Regex, Sampling, SchemaError
from engine.errors import ContextError, EngineClosed

T = TypeVar("T")


class Person(BaseModel):
    name: str = Field(max_length=12)
    age: int = Field(ge=0, le=130)


HOT = Sampling(temperature=1.5, seed=11)


def _run(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(coroutine, 300))  # kernels may have to be compiled first


def _blocks_in_use(llm: LLM) -> int:
    """After the engine has come to rest."""
    loop = llm.engine
    with loop._changed:
        assert loop._changed.wait_for(lambda: loop._thread is None, 300)
    return loop.usage().used_blocks


def test_tasks_get_what_they_get_alone(random_llm: LLM) -> None:
    async def all_at_once() -> list[Any]:
        llm = AsyncLLM(random_llm)
        calls = [
            llm.generate(f"go {at}", Regex("[a-z]{6}"), max_tokens=12, sampling=Sampling(seed=at)) for at in range(9)
        ]
        return await asyncio.gather(*calls)

    for at, found in enumerate(_run(all_at_once())):
        alone = random_llm.generate(f"go {at}", Regex("[a-z]{6}"), max_tokens=12, sampling=Sampling(seed=at))
        assert (found.text, found.token_ids, found.finish_reason) == (alone.text, alone.token_ids, "stop")


def test_an_instance_of_the_type_comes_out(random_llm: LLM) -> None:
    async def one() -> Any:
        return await AsyncLLM(random_llm).generate_json("anything", Person, max_tokens=60, sampling=HOT)

    assert isinstance(_run(one()), Person)


def test_the_events_of_a_stream_join_to_its_text(random_llm: LLM) -> None:
    async def events() -> tuple[list[Any], Any, int]:
        async with AsyncLLM(random_llm).stream("go", Regex("[äöü€😀]{6}"), max_tokens=40, sampling=HOT) as stream:
            seen = [event async for event in stream]
            return seen, await stream.result(), stream.written

    seen, generation, written = _run(events())
    assert "".join(event.text for event in seen) == generation.text
    assert [event.token_id for event in seen] == generation.token_ids
    assert written == len(generation.text) == 6


def test_events_that_come_at_once_are_the_same_and_come_when_the_text_has_ended(random_llm: LLM) -> None:
    async def events(at_once: bool) -> tuple[list[Any], bool]:
        llm = AsyncLLM(random_llm)
        async with llm.stream("go", Regex("[a-z]{30}"), max_tokens=40, sampling=HOT, at_once=at_once) as stream:
            first = await anext(stream)
            all_there = stream._handle is not None and stream._handle.is_done
            return [first, *[event async for event in stream]], all_there

    one_by_one, _ = _run(events(False))
    together, all_there = _run(events(True))
    assert together == one_by_one and len(together) > 3
    assert all_there


def test_a_reader_who_is_behind_lets_other_tasks_go_on(random_llm: LLM) -> None:
    async def read() -> tuple[int, int]:
        stream = await AsyncLLM(random_llm).stream("go", Regex("[a-z]{60}"), max_tokens=61, sampling=HOT).start()
        assert stream._handle is not None
        await asyncio.to_thread(stream._handle.wait)
        await asyncio.sleep(0)  # all of it has come
        seen, seen_by_other = 0, []
        other = asyncio.create_task(_call(lambda: seen_by_other.append(seen)))
        async for _ in stream:
            seen += 1
        await other
        return seen, seen_by_other[0]

    count, at = _run(read())
    assert count > 20 and at < 20


async def _call(function: Callable[[], None]) -> None:
    function()


def test_a_task_that_is_cancelled_cancels_its_request(random_llm: LLM) -> None:
    async def cancelled() -> Any:
        stream = AsyncLLM(random_llm).stream("go", Regex("[a-z]{900}"), max_tokens=1000)
        await anext(stream)
        task = asyncio.ensure_future(stream.result())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return stream

    stream = _run(cancelled())
    assert _blocks_in_use(random_llm) == 0
    assert stream._handle.result().finish_reason == "cancelled"


def test_a_stream_that_is_left_or_forgotten_is_cancelled(random_llm: LLM) -> None:
    async def left() -> list[Any]:
        handles = []
        async with AsyncLLM(random_llm).stream("go", Regex("[a-z]{900}"), max_tokens=1000) as stream:
            await anext(stream)
            handles.append(stream._handle)
        stream = await AsyncLLM(random_llm).stream("go", Regex("[a-z]{900}"), max_tokens=1000).start()
        handles.append(stream._handle)
        del stream
        gc.collect()
        return handles

    handles = _run(left())
    assert [handle.result(300).finish_reason for handle in handles] == ["cancelled"] * 2
    assert _blocks_in_use(random_llm) == 0


@pytest.mark.parametrize(
    ("constraint", "options", "error"),
    [
        (Person, {"max_tokens": 5}, BudgetError),
        ({"type": "x"}, {}, SchemaError),
        (None, {"max_tokens": 5000}, ContextError),
        (None, {"max_tokens": 0}, ValueError),
        (None, {"temperature": 1.0}, TypeError),
    ],
)
def test_what_is_refused_is_refused_at_the_start(
    random_llm: LLM, constraint: Any, options: dict[str, Any], error: type[Exception]
) -> None:
    async def start() -> None:
        await AsyncLLM(random_llm).stream("go", constraint, **options).start()

    with pytest.raises(error):
        _run(start())


def test_a_closed_one_finishes_what_is_there_and_takes_no_more(random_llm: LLM) -> None:
    async def close() -> Any:
        async with AsyncLLM(random_llm.model) as llm:
            stream = await llm.stream("go", Choice(["abcdefg"]), max_tokens=12).start()
        generation = await stream.result()
        with pytest.raises(EngineClosed):
            await llm.generate("go", max_tokens=4)
        return generation

    assert _run(close()).text == "abcdefg"


def test_a_shared_llm_has_its_options_already(random_llm: LLM) -> None:
    with pytest.raises(ValueError, match="leave out max_sequences"):
        AsyncLLM(random_llm, max_sequences=3)
