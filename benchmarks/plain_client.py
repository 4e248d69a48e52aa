"""Requests over plain connections, with next to no computing: on a machine of few cores the server is what is measured."""

from __future__ import annotations

import asyncio
import json
import re
import time
from typing import Any
from urllib.parse import urlsplit

ROUTE = "/v1/chat/completions"
_TEXT = re.compile(rb'"delta":\{"content":"')
_USAGE = re.compile(rb'"completion_tokens":(\d+)')


class Answer(asyncio.Protocol):
    """One request on a connection of its own, and what has come of its answer.

    Attributes:
        times: when each piece of text came, by `time.perf_counter`.
        ended: done when the server has closed the connection; its result is the number of tokens.
    """

    def __init__(self, address: str, body: dict[str, Any]) -> None:
        self.times: list[float] = []
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        # Of a stream nobody waits for, which is left in the middle.
        self.ended.add_done_callback(lambda future: future.cancelled() or future.exception())
        self._address, self._body = address, json.dumps(body).encode()
        self._head = b""
        self._last = b""
        self._transport: asyncio.Transport | None = None

    async def send(self) -> Answer:
        place = urlsplit(self._address)
        await asyncio.get_running_loop().create_connection(lambda: self, place.hostname, place.port)
        return self

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        # By HTTP/1.0 an answer ends with its connection and comes as it is.
        head = (
            f"POST {ROUTE} HTTP/1.0\r\nHost: {urlsplit(self._address).netloc}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(self._body)}\r\n\r\n"
        )
        transport.write(head.encode() + self._body)

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        if len(self._head) < 1_000:
            self._head += data
        joined = self._last + data
        before = len(_TEXT.findall(self._last))
        self.times += [now] * (len(_TEXT.findall(joined)) - before)
        self._last = joined[-400:]

    def connection_lost(self, error: Exception | None) -> None:
        if self.ended.done():
            return
        status = self._head[:12].partition(b" ")[2][:3]
        usage = _USAGE.findall(self._last) or _USAGE.findall(self._head)
        if status == b"200" and usage:
            self.ended.set_result(int(usage[-1]))
        else:
            self.ended.set_exception(RuntimeError(f"{error!r}: {self._head.decode(errors='replace')}"))

    def leave(self) -> None:
        """Goes away in the middle."""
        if self._transport is not None:
            self._transport.abort()

    async def has(self, texts: int) -> None:
        """Waits until so many pieces of text have come.

        Raises:
            RuntimeError: the answer has ended before.
        """
        while len(self.times) < texts:
            if self.ended.done():
                self.ended.result()
                raise RuntimeError(f"the answer has ended after {len(self.times)} of {texts} pieces of text")
            await asyncio.sleep(0.0005)
