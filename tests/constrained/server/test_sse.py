"""Events as they are written, and what is sent together."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from constrained.server.sse import Chunks, event, together


def _sent(chunks: AsyncIterator[tuple[bytes, bool]]) -> list[bytes]:
    async def take() -> list[bytes]:
        return [one async for one in together(chunks)]

    return asyncio.run(take())


async def _of(*chunks: tuple[bytes, bool]) -> AsyncIterator[tuple[bytes, bool]]:
    for chunk in chunks:
        yield chunk


def test_chunks_that_are_there_at_the_same_time_are_sent_as_one_and_none_is_kept_waiting() -> None:
    assert _sent(_of((b"a", False), (b"b", True), (b"", True), (b"c", False), (b"", False), (b"d", False))) == [
        b"a", b"bc", b"d",
    ]  # fmt: skip
    assert _sent(_of((b"a", True), (b"b", True))) == [b"ab"]
    assert _sent(_of()) == []


def test_so_many_chunks_are_sent_as_one_and_no_more() -> None:
    assert [len(one) for one in _sent(_of(*[(b"x", True)] * 40))] == [16, 16, 8]


def test_what_came_before_an_error_is_sent_before_it_is_told() -> None:
    async def failing() -> AsyncIterator[tuple[bytes, bool]]:
        yield b"a", True
        yield b"b", True
        raise ValueError("no more")

    async def take() -> list[bytes]:
        sent = []
        with pytest.raises(ValueError, match="no more"):
            async for one in together(failing()):
                sent.append(one)
        return sent

    assert asyncio.run(take()) == [b"ab"]


@pytest.mark.parametrize("include_usage", [False, True])
def test_an_event_of_a_choice_says_what_the_whole_object_would(include_usage: bool) -> None:
    head: dict[str, Any] = {"id": 'a"b', "created": 3, "model": "Ü", "system_fingerprint": None}
    choice = {"index": 1, "delta": {"content": 'é"\n\u2028 \ud83d\ude00'}, "finish_reason": None}
    usage: dict[str, Any] = {"usage": None} if include_usage else {}
    found, whole = Chunks(head, include_usage).of(choice), event({**head, "choices": [choice], **usage})
    assert json.loads(found.removeprefix(b"data: ")) == json.loads(whole.removeprefix(b"data: "))
    assert found.endswith(b"}\n\n") and found.count(b"\n") == 2
    last = Chunks(head, include_usage).last({"total_tokens": 3})
    assert json.loads(last.removeprefix(b"data: ")) == {**head, "choices": [], "usage": {"total_tokens": 3}}
