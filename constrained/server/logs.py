"""One line of the log for each request, and the log as JSON."""

from __future__ import annotations

import hashlib
import json
import logging
import time
import uuid
from collections.abc import MutableMapping
from typing import Any

from constrained.server.guard import Receive, Scope, Send
from constrained.server.metrics import ServerMetrics

log = logging.getLogger("constrained.server")


class RequestLog:
    """Gives each request an id, counts it, and logs it when its answer has ended.  No line holds a prompt or a key."""

    def __init__(self, app: Any, metrics: ServerMetrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin, number, status = time.perf_counter(), uuid.uuid4().hex, 499  # nobody was there to be answered

        async def noted(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", number.encode())]
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            seconds = time.perf_counter() - begin
            route = getattr(scope.get("route"), "path", "other")
            self._metrics.requests.labels(route, str(status)).inc()
            self._metrics.request_seconds.labels(route).observe(seconds)
            client = str(scope.get("state", {}).get("client", ""))
            fields = {
                "id": number,
                "method": scope["method"],
                "route": route,
                "status": status,
                "seconds": round(seconds, 4),
                "client": hashlib.sha256(client.encode()).hexdigest()[:8],
            }
            log.info("request", extra={"fields": fields})


class JsonLines(logging.Formatter):
    """Each record as one JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


class TextLines(logging.Formatter):
    """The same for people."""

    def format(self, record: logging.LogRecord) -> str:
        fields = " ".join(f"{name}={value}" for name, value in getattr(record, "fields", {}).items())
        text = f"constrained: {record.getMessage()}" + (f" {fields}" if fields else "")
        return text + ("\n" + self.formatException(record.exc_info) if record.exc_info else "")
