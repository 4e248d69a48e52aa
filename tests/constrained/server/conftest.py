"""A server in this process, on the tiny random model; one of its own process, with the default model; and what clients do by
hand."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra `server` is not installed")

from fastapi.testclient import TestClient

from constrained import LLM
from constrained.server import ServerSettings, make_app

KEY = "a-key-of-the-tests"
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 6},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "keep", "description": "Keeps.", "parameters": PERSON}}
NOW = {"type": "function", "function": {"name": "now"}}


@pytest.fixture(scope="session")
def serve(random_llm: LLM) -> Callable[..., Any]:
    """Makes a client of a server with these settings; to be used in a `with` block."""

    def made(settings: ServerSettings = ServerSettings(), headers: Any = None, **options: Any) -> TestClient:  # noqa: B008
        app = make_app(lambda: LLM(random_llm.model, max_sequences=8, **options), settings)
        client = TestClient(app, base_url="http://127.0.0.1:8000", headers=headers, raise_server_exceptions=False)
        return client

    return made


@pytest.fixture(scope="session")
def client(serve: Callable[..., TestClient]) -> Iterator[TestClient]:
    with serve() as made:
        wait_until_ready(made)
        yield made


@pytest.fixture(scope="session")
def address(default_model_file: Path) -> Iterator[str]:
    """Where `constrained serve` listens; it has ended well when the tests are through."""
    options = ["--port", "0", "--log-format", "json", "--api-key", KEY, "--kv-memory", "256MiB"]
    command = [sys.executable, "-m", "constrained", "serve", *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as server:
        assert server.stderr is not None
        found, ready = "", False
        log = []
        while not (found and ready):
            line = server.stderr.readline()
            assert line, "".join(log)
            log.append(line)
            if match := re.fullmatch(r"listening on (http://\S+)\n", line):
                found = match[1]
            ready = ready or '"event": "ready"' in line
        yield found
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0, server.stderr.read()


def wait_until_ready(client: TestClient) -> None:
    for _ in range(10_000):
        if client.get("/ready").status_code == 200:
            return
        if client.app.state.server.failure is not None:  # type: ignore[attr-defined]
            raise client.app.state.server.failure  # type: ignore[attr-defined]
    raise AssertionError("the server never was ready")


def chat(client: TestClient, expect: int = 200, **body: Any) -> dict[str, Any]:
    """A chat completion that is not streamed."""
    given = {"model": "default", "messages": [{"role": "user", "content": "go"}], "max_tokens": 80, "seed": 1, **body}
    response = client.post("/v1/chat/completions", json=given)
    assert response.status_code == expect, response.text
    found: dict[str, Any] = response.json()
    return found


def refused(client: TestClient, path: str = "/v1/chat/completions", status: int = 400, **body: Any) -> dict[str, Any]:
    """The error that a request is refused with, in the shape that OpenAI's clients read."""
    messages = {} if "input" in body or "prompt" in body else {"messages": [{"role": "user", "content": "go"}]}
    response = client.post(path, json={"model": "default", **messages, **body})
    assert response.status_code == status, response.text
    error: dict[str, Any] = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert "\n" not in error["message"]
    return error


def chunks(client: TestClient, path: str = "/v1/chat/completions", **body: Any) -> list[dict[str, Any]]:
    """The events of a stream, which ends as it should."""
    given = {"model": "default", "max_tokens": 80, "seed": 1, "stream": True, **body}
    if path.endswith("chat/completions"):
        given.setdefault("messages", [{"role": "user", "content": "go"}])
    with client.stream("POST", path, json=given) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in response.iter_lines() if line]
    assert lines.pop() == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def alike(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> None:
    """The same tokens, and log-probabilities that differ by no more than batches of another shape make them."""
    assert [entry["bytes"] for entry in one] == [entry["bytes"] for entry in other]
    for first, second in zip(one, other, strict=True):
        for a, b in zip([first, *first["top_logprobs"]], [second, *second["top_logprobs"]], strict=True):
            assert a["token"] == b["token"]
            assert a["logprob"] == pytest.approx(b["logprob"], abs=1e-4)
