"""Connections over which requests come: those that never finish one are ended, and what is no HTTP is told so."""

from __future__ import annotations

import json
from asyncio import TimerHandle, Transport
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from constrained.server.errors import ApiError


class BoundedConnection(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it; the head of a request has `head_seconds` to arrive, from its first byte on.

    Bodies are bounded by `Guard`, connections without a request by uvicorn's `timeout_keep_alive`.
    """

    head_seconds: ClassVar[float] = 60.0
    _head_timer: TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_serving():
            self._stop_waiting()
        elif self._head_timer is None and not self.transport.is_closing():
            self._wait_for_head()

    def send_400_response(self, msg: str) -> None:
        """Answers what is no HTTP request, or one whose head is too large."""
        if self._is_serving():  # what follows a request is broken, and its answer has begun
            self.transport.close()
            return
        body = json.dumps(ApiError(400, msg, code="invalid_http").body()).encode()
        headers = [("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close")]
        response = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
        for event in (response, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _is_serving(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait_for_head(self) -> None:
        self._head_timer = self.loop.call_later(self.head_seconds, self._head_is_late)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        if not self._is_serving():
            self.transport.close()
