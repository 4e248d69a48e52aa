"""Tokens on their way from the engine's thread to the tasks of an event loop."""

from __future__ import annotations

import asyncio
import gc
from threading import Thread
from weakref import ref

import pytest

from constrained.mailbox import Tokens, mailbox_of
from engine.generation import Token


class _Counting(asyncio.SelectorEventLoop):
    calls = 0

    def call_soon_threadsafe(self, *arguments, **options):  # type: ignore[no-untyped-def]
        self.calls += 1
        return super().call_soon_threadsafe(*arguments, **options)


def test_all_that_has_come_arrives_in_order_for_one_call() -> None:
    events = _Counting()

    async def read() -> list[list[Token | None]]:
        mailbox = mailbox_of(asyncio.get_running_loop())
        assert mailbox_of(asyncio.get_running_loop()) is mailbox
        queues: list[Tokens] = [asyncio.Queue() for _ in range(3)]

        def step() -> None:
            for number in range(5):
                for queue in queues:
                    mailbox.post(queue, Token(number, None))
            for queue in queues:
                mailbox.post(queue, None)

        before = events.calls
        engine = Thread(target=step)
        engine.start()
        engine.join()
        assert events.calls == before + 1
        return [[await queue.get() for _ in range(6)] for queue in queues]

    try:
        found = events.run_until_complete(read())
    finally:
        events.close()
    assert found == [[*(Token(number, None) for number in range(5)), None]] * 3


def test_what_is_posted_while_others_are_handed_out_arrives_too() -> None:
    async def read() -> list[int]:
        mailbox, queue = mailbox_of(asyncio.get_running_loop()), Tokens()
        engine = Thread(target=lambda: [mailbox.post(queue, Token(number, None)) for number in range(2_000)])
        engine.start()
        found = [await asyncio.wait_for(queue.get(), 60) for _ in range(2_000)]
        engine.join()
        return [token.token_id for token in found if token is not None]

    assert asyncio.run(read()) == list(range(2_000))


def test_a_loop_that_is_closed_takes_nothing_and_is_not_kept_alive() -> None:
    events = asyncio.new_event_loop()
    mailbox, queue = mailbox_of(events), Tokens()
    events.close()
    for _ in range(2):
        with pytest.raises(RuntimeError):
            mailbox.post(queue, Token(1, None))
    gone = ref(events)
    del events
    gc.collect()
    assert gone() is None
    with pytest.raises(RuntimeError, match="gone"):
        mailbox.post(queue, Token(1, None))
