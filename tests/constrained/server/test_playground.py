from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from fastapi.testclient import TestClient

from constrained.server import ServerSettings

from .conftest import PERSON


def run(client: TestClient, **body: Any) -> list[dict[str, Any]]:
    with client.stream(
        "POST", "/playground/run", json={"prompt": "go", "seed": 1, "temperature": 1, **body}
    ) as response:
        assert response.status_code == 200, response.read()
        lines = [line for line in response.iter_lines() if line]
    assert lines.pop() == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def test_the_page_is_one_file_that_fetches_nothing_from_elsewhere(client: TestClient) -> None:
    response = client.get("/")
    assert response.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert "connect-src 'self'" in response.headers["content-security-policy"]
    for outside in ("http://", "https://", "src=", "@import"):
        assert outside not in response.text


def test_the_page_can_be_left_out(serve: Callable[..., TestClient]) -> None:
    with serve(ServerSettings(playground=False)) as client:
        assert client.get("/").status_code == 404


def test_a_run_tells_of_each_token_what_the_mask_left(client: TestClient) -> None:
    steps = run(client, kind="schema", grammar=json.dumps(PERSON))
    jsonschema.validate(json.loads("".join(step["text"] for step in steps)), PERSON)
    for step in steps:
        assert 1 <= step["allowed"] <= step["of"]
        assert 0 <= step["removed"] <= 1.001
        came = [one for one in step["candidates"] if one["token_id"] == step["token_id"]]
        assert len(came) == 1
        assert came[0]["allowed"]
    assert any(not one["allowed"] for step in steps for one in step["candidates"])
    assert steps[0]["allowed"] == 1


@pytest.mark.parametrize(
    ("kind", "grammar", "texts"),
    [
        ("regex", "[ab]{2}", {"aa", "ab", "ba", "bb"}),
        ("lark", 'start: "x"', {"x"}),
        ("gbnf", 'root ::= "y"', {"y"}),
        ("choice", "left\nright", {"left", "right"}),
    ],
)
def test_every_kind_of_grammar_can_be_tried(client: TestClient, kind: str, grammar: str, texts: set[str]) -> None:
    assert "".join(step["text"] for step in run(client, kind=kind, grammar=grammar)) in texts


def test_free_text_removes_nothing(client: TestClient) -> None:
    for step in run(client, kind="none", max_tokens=3):
        assert step["removed"] == 0


def test_check_and_explain_are_built_in(client: TestClient) -> None:
    found = client.post("/playground/check", json={"kind": "schema", "grammar": json.dumps(PERSON)}).json()
    assert found["supported"]
    assert any(one["verdict"] == "asserted" for one in found["findings"])
    bad = client.post("/playground/check", json={"kind": "schema", "grammar": '{"minimum": "x"}'}).json()
    assert not bad["supported"]
    told = client.post("/playground/explain", json={"kind": "regex", "grammar": "ab+", "text": "ax"}).json()
    assert (told["read"], told["refused"], told["next"]) == ("a", "x", ["b"])
    told = client.post("/playground/explain", json={"kind": "regex", "grammar": "ab+", "text": "ab"}).json()
    assert told["is_sentence"]
    assert told["shortest_end"] == ""


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("run", {"kind": "regex", "grammar": "(", "prompt": "x"}),
        ("run", {"kind": "schema", "grammar": json.dumps(PERSON), "prompt": "x", "max_tokens": 3}),
        ("run", {"kind": "none", "prompt": ""}),
        ("explain", {"kind": "none"}),
        ("check", {"kind": "schema", "grammar": "{"}),
        ("check", {"kind": "yaml"}),
    ],
)
def test_what_cannot_be_is_refused_in_the_shape_of_the_other_routes(client: TestClient, path: str, body: Any) -> None:
    response = client.post(f"/playground/{path}", json=body)
    assert response.status_code == 400
    assert response.json()["error"]["message"]
    assert run(client, kind="choice", grammar="a")  # and the next one finds its place free
