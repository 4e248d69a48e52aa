"""What stands before the routes: size, host and key of a request."""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from constrained.server.errors import AUTHENTICATION, ApiError
from constrained.server.settings import LOOPBACK, ServerSettings

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

OPEN_PATHS = ("/", "/health", "/ready")
"""Need no key: they tell nothing but that the server is there."""


class Guard:
    """Refuses what no route is to see.

    - a body larger than may be, whether its length is told or not, or one that does not arrive in time;
    - on a loopback address, a `Host` that is none: a page elsewhere whose name was made to point here must not get in;
    - a missing or wrong key.
    """

    def __init__(self, app: Any, settings: ServerSettings) -> None:
        self._app, self._settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            self._check(scope, headers)
        except ApiError as error:
            await _refuse(send, error)
            return
        scope.setdefault("state", {})["client"] = self._client(scope, headers)
        taken, begun, is_whole = 0, False, False
        refusal: ApiError | None = None
        deadline = asyncio.get_running_loop().time() + self._settings.body_seconds

        async def counted() -> MutableMapping[str, Any]:
            nonlocal taken, is_whole, refusal
            try:
                async with asyncio.timeout_at(None if is_whole else deadline):
                    message = await receive()
            except TimeoutError:
                refusal = self._too_late()
                raise refusal from None
            if message["type"] == "http.request":
                taken += len(message.get("body", b""))
                is_whole = not message.get("more_body", False)
                if taken > self._settings.max_body_bytes:
                    refusal = self._too_large()
                    raise refusal
            return message

        async def noted(message: MutableMapping[str, Any]) -> None:
            nonlocal begun
            if refusal is None:
                await send(message)
            elif not begun:  # whatever the routes made of the error that cut their reading short
                begun = True
                await _refuse(send, refusal)

        await self._app(scope, counted, noted)

    def _too_large(self) -> ApiError:
        most = self._settings.max_body_bytes
        return ApiError(413, f"the body has more than {most} bytes", code="request_too_large")

    def _too_late(self) -> ApiError:
        return ApiError(
            408, f"the body did not arrive within {self._settings.body_seconds:g} s", code="request_timeout"
        )

    def _check(self, scope: Scope, headers: dict[str, str]) -> None:
        settings = self._settings
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > settings.max_body_bytes:
            raise self._too_large()
        if settings.host in LOOPBACK and host_of(headers.get("host", "")) not in LOOPBACK:
            raise ApiError(403, "this server listens on a loopback address and answers to that alone", code="bad_host")
        if settings.api_keys and scope["path"] not in OPEN_PATHS and scope["method"] != "OPTIONS":
            scheme, _, key = headers.get("authorization", "").partition(" ")
            given = key.strip().encode("latin-1")
            known = [hmac.compare_digest(given, one.encode()) for one in settings.api_keys]
            if scheme.lower() != "bearer" or not any(known):
                raise ApiError(
                    401, "no valid API key: send Authorization: Bearer KEY", kind=AUTHENTICATION, code="invalid_api_key"
                )

    def _client(self, scope: Scope, headers: dict[str, str]) -> str:
        """Whom a request is counted for."""
        if self._settings.api_keys:
            return headers.get("authorization", "")
        return str((scope.get("client") or ("unknown",))[0])


def host_of(header: str) -> str:
    """The name or address in a `Host` header, without the port."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.rpartition(":")[0] if ":" in header else header


async def _refuse(send: Send, error: ApiError) -> None:
    body = json.dumps(error.body()).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body)), **error.headers()}
    if error.status in (408, 413):  # the rest of the body is not waited for
        headers["connection"] = "close"
    await send(
        {
            "type": "http.response.start",
            "status": error.status,
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }
    )
    await send({"type": "http.response.body", "body": body})
