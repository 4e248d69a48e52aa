"""Server-sent events, and answers that end with their client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse

from constrained.server.errors import as_api_error

T = TypeVar("T")


class ClientGone(Exception):
    """Nobody waits for the answer any more."""


_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_MOST_TOGETHER = 16
"""Chunks that are sent as one at most, and tokens that a stream takes without letting others go on."""


def written(data: Any) -> bytes:
    """The data as JSON in UTF-8; halves of surrogate pairs, which a request may hold and UTF-8 cannot, as escapes."""
    text = _COMPACT.encode(data)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(data, separators=(",", ":")).encode()


class Json(JSONResponse):
    """A JSON response."""

    def render(self, content: Any) -> bytes:
        return written(content)


def event(data: Any, name: str | None = None) -> bytes:
    """One event; `name` for routes whose events have one."""
    head = f"event: {name}\n".encode() if name is not None else b""
    return b"".join((head, b"data: ", written(data), b"\n\n"))


class Chunks:
    """Events of one stream of choices; what all of them hold is written once."""

    def __init__(self, head: dict[str, Any], include_usage: bool) -> None:
        self._begin = b"data: " + written(head)[:-1] + b',"choices":['
        self._end = b'],"usage":null}\n\n' if include_usage else b"]}\n\n"

    def of(self, choice: dict[str, Any]) -> bytes:
        """The event of one choice."""
        return b"".join((self._begin, written(choice), self._end))

    def last(self, usage: dict[str, Any]) -> bytes:
        """The event of the usage, without a choice."""
        return b"".join((self._begin, b'],"usage":', written(usage), b"}\n\n"))


async def together(chunks: AsyncIterator[tuple[bytes, bool]]) -> AsyncGenerator[bytes]:
    """Chunks as they come, those that are there at the same time as one: to send takes longer than to write.

    Args:
        chunks: each with whether the next is there already.
    """
    held: list[bytes] = []
    try:
        async for chunk, has_more in chunks:
            if chunk:
                held.append(chunk)
            if held and (not has_more or len(held) >= _MOST_TOGETHER):
                yield b"".join(held)
                held.clear()
    except Exception:
        if held:
            yield b"".join(held)
        raise
    if held:
        yield b"".join(held)


class EventStream(StreamingResponse):
    """The chunks as they come; an error becomes the last event, since the status has been sent.

    `end` is called however it ends, also where nobody reads it from the beginning.
    """

    def __init__(
        self,
        chunks: AsyncIterator[bytes],
        on_error: Callable[[BaseException], None],
        end: Callable[[], Awaitable[None]],
    ) -> None:
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        super().__init__(self._body(chunks, on_error), media_type="text/event-stream", headers=headers)
        self._end = end

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._end()

    @staticmethod
    async def _body(chunks: AsyncIterator[bytes], on_error: Callable[[BaseException], None]) -> AsyncIterator[bytes]:
        try:
            async for chunk in chunks:
                yield chunk
        except Exception as error:
            on_error(error)
            yield event(as_api_error(error).body())


async def while_connected(request: Request, work: Awaitable[T]) -> T:
    """What `work` gives; it is cancelled when the client goes away.

    Raises:
        ClientGone: the client did.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise ClientGone
        return task.result()
    finally:
        gone.cancel()
        if not task.done():
            task.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
