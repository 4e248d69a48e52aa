"""Answers as they come: parts of words, thoughts and calls, the checked answer at the end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Self

from constrained.async_stream import AsyncTextStream
from constrained.replies import Reply, ReplyPlan
from constrained.streaming import TextStream
from grammars.tool_calls import Event


class _Parts:
    """What was read so far, and what of it was handed out."""

    def __init__(self, plan: ReplyPlan) -> None:
        self.plan = plan
        self.reader = plan.reader()
        self.events: list[Event] = []
        self.waiting: deque[Event] = deque()
        self.is_closed = False

    def add(self, events: list[Event]) -> None:
        self.events += events
        self.waiting += events

    def close(self, rest: str) -> None:
        """The text is at its end; `rest` is what no event of it held."""
        if not self.is_closed:
            self.is_closed = True
            self.add(self.reader.close(rest))


class ReplyStream(Iterator[Event]):
    """Parts of one answer, each as soon as it is settled; what came so far of a call's arguments is the beginning of JSON.

    Leaving the `with` block, or `close`, cancels what is left.  `result` takes what is left and hands back the whole.
    """

    def __init__(self, plan: ReplyPlan, stream: TextStream) -> None:
        self._parts, self._stream = _Parts(plan), stream

    def __next__(self) -> Event:
        """The next part.

        Raises:
            StopIteration: the answer is finished.
            Otherwise as `LLM.stream`'s events.
        """
        parts = self._parts
        while not parts.waiting:
            if parts.is_closed:
                raise StopIteration
            try:
                parts.add(parts.reader.push(next(self._stream)))
            except StopIteration:
                parts.close(self._stream.result().text[self._stream.written :])
        return parts.waiting.popleft()

    def result(self) -> Reply:
        """Takes what is left; the whole answer, checked.

        Raises:
            ResultError: a tool's type, or the schema's, refuses what its schema allows.
            Otherwise as `next`.
        """
        for _ in self:
            pass
        return self._parts.plan.finished(self._parts.events, self._stream.result())

    def close(self) -> None:
        """Cancels what is left and frees the cache."""
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class AsyncReplyStream(AsyncIterator[Event]):
    """The same for asyncio, in the batch engine.

    Leaving its `async with` block, `aclose`, or cancelling the task that waits for it cancels the request.
    """

    def __init__(self, plan: Callable[[], ReplyPlan], text: Callable[[ReplyPlan], AsyncTextStream]) -> None:
        """
        Args:
            plan: made in a thread, when the first part is waited for.
            text: the generation of a plan.
        """
        self._plan, self._text = plan, text
        self._parts: _Parts | None = None
        self._stream: AsyncTextStream | None = None

    async def start(self) -> Self:
        """Plans and queues the request, unless that is done; everything that can be refused is refused here."""
        if self._parts is None:
            plan = await asyncio.to_thread(self._plan)
            self._stream = await self._text(plan).start()
            self._parts = _Parts(plan)
        return self

    async def __anext__(self) -> Event:
        """The next part.

        Raises:
            StopAsyncIteration: the answer is finished.
            Otherwise as `start`, and what ended the generation.
        """
        await self.start()
        parts, stream = self._parts, self._stream
        assert parts is not None and stream is not None
        while not parts.waiting:
            if parts.is_closed:
                raise StopAsyncIteration
            try:
                parts.add(parts.reader.push(await anext(stream)))
            except StopAsyncIteration:
                parts.close((await stream.result()).text[stream.written :])
        return parts.waiting.popleft()

    async def result(self) -> Reply:
        """Waits for what is left; the whole answer, checked; raises as `ReplyStream.result`."""
        async for _ in self:
            pass
        assert self._parts is not None and self._stream is not None
        return self._parts.plan.finished(self._parts.events, await self._stream.result())

    async def aclose(self) -> None:
        """Cancels what is left."""
        if self._stream is not None:
            await self._stream.aclose()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()
