"""What clients do to a socket: slowly, in pieces, in great numbers, or not at all any more."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the extra `server` is not installed")

import uvicorn

from constrained import LLM
from constrained.server import ServerSettings, make_app
from constrained.server.connections import BoundedConnection

from .test_serving import idle

WAIT = 60.0
BODY: dict[str, Any] = {"model": "default", "messages": [{"role": "user", "content": "go"}], "max_tokens": 3}


class Impatient(BoundedConnection):
    head_seconds = 1.0


@pytest.fixture(scope="module")
def server(random_llm: LLM) -> Iterator[uvicorn.Server]:
    ready = threading.Event()

    def load() -> LLM:
        return LLM(random_llm.model, max_sequences=8)

    app = make_app(load, ServerSettings(body_seconds=0.5))
    config = uvicorn.Config(app, port=0, http=Impatient, log_config=None, lifespan="on", timeout_keep_alive=60)

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            ready.set()

    running = Server(config)
    thread = threading.Thread(target=running.run)
    thread.start()
    assert ready.wait(WAIT)
    while get(running, "/ready")[0] != 200:
        pass
    yield running
    running.should_exit = True
    thread.join(WAIT)
    assert not thread.is_alive()


def connected(server: uvicorn.Server) -> socket.socket:
    host, port = server.servers[0].sockets[0].getsockname()[:2]
    return socket.create_connection((host, port), timeout=WAIT)


def head(length: int | str, *more: str) -> bytes:
    lines = ["POST /v1/chat/completions HTTP/1.1", "Host: localhost", "Content-Type: application/json", *more]
    return "\r\n".join([*lines, f"Content-Length: {length}", "", ""]).encode()


def answer(connection: socket.socket) -> tuple[int, Any]:
    """Status and body of an answer behind which the connection is closed; 0 where there is none."""
    received = b""
    while piece := connection.recv(1 << 16):
        received += piece
    if not received:
        return 0, None
    start, _, body = received.partition(b"\r\n\r\n")
    return int(start.split()[1]), json.loads(body)


def get(server: uvicorn.Server, path: str) -> tuple[int, Any]:
    with connected(server) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        return answer(connection)


def test_a_head_that_does_not_arrive_ends_its_connection(server: uvicorn.Server) -> None:
    for begun in (b"", b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nX-Slow: "):
        with connected(server) as connection:
            connection.sendall(begun)
            assert answer(connection) == (0, None)


def test_the_second_head_of_a_connection_has_no_more_time(server: uvicorn.Server) -> None:
    with connected(server) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
        connection.sendall(b"GET /hea")
        while piece := connection.recv(1 << 16):
            assert b"HTTP/1.1" not in piece


def test_a_body_that_does_not_arrive_is_refused(server: uvicorn.Server) -> None:
    with connected(server) as connection:
        connection.sendall(head(100) + b'{"model": ')
        status, body = answer(connection)
        assert (status, body["error"]["code"]) == (408, "request_timeout")


def test_a_body_in_small_pieces_is_read(server: uvicorn.Server) -> None:
    data = json.dumps(BODY).encode()
    with connected(server) as connection:
        connection.sendall(head(len(data), "Connection: close"))
        for at in range(len(data)):
            connection.sendall(data[at : at + 1])
        assert answer(connection)[0] == 200


@pytest.mark.parametrize(
    "data",
    [
        head(10, "X-Large: " + "x" * 100_000),
        head(10, *[f"X-{number}: {'x' * 100}" for number in range(2_000)]),
        b"no http at all\r\n\r\n",
        b"\xff\xfe\x00\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        head("much"),
        head(-1),
    ],
    ids=[
        "a large header",
        "many headers",
        "words",
        "bytes",
        "a path of bytes",
        "a length in words",
        "a length below 0",
    ],
)
def test_what_is_no_request_is_told_so(server: uvicorn.Server, data: bytes) -> None:
    with connected(server) as connection:
        try:
            connection.sendall(data)
            status, body = answer(connection)
        except ConnectionError:  # it was closed with the rest unread, as far as the client can tell
            pass
        else:
            assert status in (400, 408, 413)
            assert set(body["error"]) == {"message", "type", "param", "code"}
    assert get(server, "/health")[0] == 200


def test_a_body_that_is_told_to_be_too_large_is_not_read(server: uvicorn.Server) -> None:
    with connected(server) as connection:
        connection.sendall(head(1 << 40))
        status, body = answer(connection)
        assert (status, body["error"]["code"]) == (413, "request_too_large")


def test_many_connections_leave_others_their_place(server: uvicorn.Server) -> None:
    many = [connected(server) for _ in range(300)]
    try:
        assert get(server, "/health")[0] == 200
    finally:
        for one in many:
            one.close()


@pytest.mark.parametrize("streamed", [True, False])
def test_a_socket_that_is_closed_ends_its_request(server: uvicorn.Server, streamed: bool) -> None:
    app = server.config.loaded_app
    while not hasattr(app, "state"):
        app = app.app
    engine = app.state.server.engine.llm.engine
    data = json.dumps({**BODY, "max_tokens": 1_500, "logit_bias": {"256": -100}, "stream": streamed}).encode()
    with connected(server) as connection:
        connection.sendall(head(len(data)) + data)
        if streamed:
            assert connection.recv(10)
        while not engine.usage().running:
            pass
    assert idle(app)
    text = app.state.server.metrics.text().decode()
    assert 'constrained_answers_total{reason="cancelled"}' in text
