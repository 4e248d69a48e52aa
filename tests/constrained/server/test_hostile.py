"""Bodies that are made to break something: each is answered, or refused in OpenAI's shape, and never with 500."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastapi.testclient import TestClient

from constrained.server.chat_request import ChatRequest
from constrained.server.completions import CompletionRequest
from constrained.server.parameters import GuidedParameters
from constrained.server.responses import ResponseRequest

CALLS = [{"role": "assistant", "tool_calls": [{"function": {"name": 1, "arguments": 2}}]}]
TEXT_PART = [{"role": "user", "content": [{"type": "text", "text": 1}]}]
FUNCTION = [{"type": "function", "function": {"name": "x", "parameters": []}}]
STRANGE_SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": []}}}
VALUES: list[Any] = [
    None, True, -1, 0, 1.5, 2**64, 10**400, float("nan"), float("inf"), "", "\ud800", "\x00", [], [None], ["a"], [{}], {}, {"a": 1},
    {"-1": 1}, {"99999": 1}, {"type": "x"}, STRANGE_SCHEMA, FUNCTION, CALLS, TEXT_PART,
]  # fmt: skip
ROUTES: dict[str, tuple[Any, dict[str, Any]]] = {
    "/v1/chat/completions": (ChatRequest, {"messages": [{"role": "user", "content": "go"}], "max_tokens": 2}),
    "/v1/completions": (CompletionRequest, {"prompt": "go", "max_tokens": 2}),
    "/v1/responses": (ResponseRequest, {"input": "go", "max_output_tokens": 2}),
}


def post(client: TestClient, path: str, data: bytes, kind: str = "application/json") -> int:
    """The status; an error has its shape."""
    response = client.post(path, content=data, headers={"Content-Type": kind})
    assert response.status_code < 500, (data[:200], response.text)
    if response.status_code >= 400:
        error = response.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert "\n" not in error["message"] and len(error["message"]) < 2_000
    return response.status_code


@pytest.mark.parametrize("path", ROUTES)
def test_no_value_of_no_parameter_breaks_a_route(client: TestClient, path: str) -> None:
    kind, base = ROUTES[path]
    statuses: set[int] = set()
    names = dict.fromkeys((*kind.model_fields, *kind.refused))
    if kind is not ChatRequest:  # what all routes have is read by the same code
        names = {name: None for name in names if name not in GuidedParameters.model_fields}
    assert len(names) > 5
    for name in names:
        for value in VALUES:
            statuses.add(post(client, path, json.dumps({"model": "default", **base, name: value}).encode()))
    assert {200, 400, 404} <= statuses


BODIES = {
    "nothing": b"",
    "a part of JSON": b"{",
    "no object": b"[]",
    "no UTF-8": b'{"model": "\xff"}',
    "another encoding": '{"model": "default"}'.encode("utf-16"),
    "deep arrays": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000,
    "deep messages": b'{"model": "default", "messages": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "a deep schema": b'{"model": "default", "messages": [{"role": "user", "content": "x"}], "guided_json": '
    + b'{"not": ' * 3_000 + b"{}" + b"}" * 3_000 + b"}",
    "many digits": b'{"model": "default", "messages": [{"role": "user", "content": "x"}], "seed": ' + b"9" * 5_000 + b"}",
    "infinity": b'{"model": "default", "messages": [{"role": "user", "content": "x"}], "temperature": 1e999}',
}  # fmt: skip


@pytest.mark.parametrize("body", BODIES)
def test_bodies_that_are_no_request_are_refused(client: TestClient, body: str) -> None:
    for path in ROUTES:
        for kind in ("application/json", "text/plain"):
            assert post(client, path, BODIES[body], kind) == 400
