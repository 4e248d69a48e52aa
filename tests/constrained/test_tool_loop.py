from __future__ import annotations

import asyncio
import functools
import threading
from typing import Any

import pytest

from constrained import LLM, Sampling, SchemaError
from constrained.errors import ToolStepsExceeded
from constrained.replies import Reply
from constrained.tool_loop import run_tools, run_tools_async
from constrained.tools import checked_call, read_tools


def double(number: int) -> dict[str, int]:
    """Doubles."""
    return {"is": 2 * number}


class Scripted:
    """A model that answers as it is told."""

    def __init__(self, *replies: list[str] | str) -> None:
        self.replies = list(replies)
        self.seen: list[list[dict[str, Any]]] = []

    def reply(self, messages: Any, tools: Any, **options: Any) -> Reply:
        self.seen.append(list(messages))
        said = self.replies.pop(0)
        calls = [] if isinstance(said, str) else [checked_call(tools, "double", arguments) for arguments in said]
        return Reply(said if isinstance(said, str) else "", "", calls, None, None)  # type: ignore[arg-type]


def test_results_are_read_until_the_model_speaks() -> None:
    model = Scripted(['{"number": 2}', '{"number": 3}'], "4 and 6")
    run = run_tools(model, "go", [double], 4, {})  # type: ignore[arg-type]
    assert run.content == "4 and 6"
    assert len(run.replies) == 2
    _, asked, first, second, answer = run.messages
    assert [call["function"]["name"] for call in asked["tool_calls"]] == ["double", "double"]
    assert (first["content"], second["content"]) == ('{"is": 4}', '{"is": 6}')
    assert first["tool_call_id"] == asked["tool_calls"][0]["id"]
    assert answer == {"role": "assistant", "content": "4 and 6"}
    assert model.seen[1] == run.messages[:-1]


def test_a_model_that_never_speaks_is_stopped() -> None:
    with pytest.raises(ToolStepsExceeded, match="after 2 answers") as caught:
        run_tools(Scripted(*[['{"number": 2}']] * 3), "go", [double], 2, {})  # type: ignore[arg-type]
    assert len(caught.value.messages) == 5


def test_what_a_tool_raises_is_raised() -> None:
    def fails() -> None:
        raise KeyError("no")

    class Calls(Scripted):
        def reply(self, messages: Any, tools: Any, **options: Any) -> Reply:
            return Reply("", "", [checked_call(read_tools(tools), "fails", "{}")], None, None)  # type: ignore[arg-type]

    with pytest.raises(KeyError):
        run_tools(Calls(), "go", [fails], 2, {})  # type: ignore[arg-type]


def test_tools_that_cannot_be_carried_out_are_refused() -> None:
    with pytest.raises(SchemaError, match="cannot be carried out"):
        run_tools(Scripted(), "go", [{"name": "x"}], 2, {})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_steps"):
        run_tools(Scripted(), "go", [double], 0, {})  # type: ignore[arg-type]


def test_a_whole_run_with_a_model(random_llm: LLM) -> None:
    sampling = Sampling(temperature=1.0, seed=1, logit_bias={ord("{"): -50.0, ord("["): -50.0})
    run = random_llm.run_tools("go", [double], max_tokens=10, sampling=sampling)
    assert run.content
    assert run.messages[-1]["content"] == run.content


class AsyncScripted(Scripted):
    async def reply(self, messages: Any, tools: Any, **options: Any) -> Reply:  # type: ignore[override]
        return super().reply(messages, tools, **options)


def test_coroutine_functions_are_awaited_side_by_side() -> None:
    meeting = asyncio.Barrier(2)

    async def double(number: int) -> int:
        """Doubles, once two are at it."""
        await meeting.wait()
        return 2 * number

    async def run() -> Any:
        model = AsyncScripted(['{"number": 2}', '{"number": 3}'], "done")
        return await asyncio.wait_for(run_tools_async(model, "go", [double], 4, {}), 60)  # type: ignore[arg-type]

    found = asyncio.run(run())
    assert [message["content"] for message in found.messages if message["role"] == "tool"] == ["4", "6"]
    assert found.content == "done"


def test_other_functions_run_beside_the_loop() -> None:
    threads = set()

    def double(number: int) -> int:
        """Doubles."""
        threads.add(threading.current_thread())
        return 2 * number

    model = AsyncScripted(['{"number": 2}'], "done")
    found = asyncio.run(run_tools_async(model, "go", [double], 4, {}))  # type: ignore[arg-type]
    assert found.messages[2]["content"] == "4"
    assert threading.main_thread() not in threads


def test_coroutine_functions_need_a_loop() -> None:
    async def double(number: int) -> int:
        return 2 * number

    for tool in (double, functools.partial(double)):
        with pytest.raises(SchemaError, match="awaits those"):
            run_tools(Scripted("x"), "go", [tool], 4, {})  # type: ignore[arg-type]


def test_limits_of_steps_hold_for_both() -> None:
    with pytest.raises(ToolStepsExceeded, match="after 2 answers"):
        asyncio.run(run_tools_async(AsyncScripted(*[['{"number": 2}']] * 3), "go", [double], 2, {}))  # type: ignore[arg-type]
