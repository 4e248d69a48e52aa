from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from fastapi.testclient import TestClient

from .conftest import PERSON, chunks, refused


def complete(client: TestClient, **body: Any) -> dict[str, Any]:
    response = client.post("/v1/completions", json={"model": "default", "seed": 1, **body})
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def test_a_text_goes_on_from_its_prompt(client: TestClient) -> None:
    found = complete(client, prompt="abc")
    assert found["object"] == "text_completion"
    assert found["usage"]["completion_tokens"] <= 16
    assert found["usage"]["prompt_tokens"] == 3
    assert found["choices"][0]["text"]


def test_prompts_may_be_several_and_tokens(client: TestClient) -> None:
    found = complete(client, prompt=["a", "b"], n=2, guided_choice=["x", "y"])
    assert [choice["index"] for choice in found["choices"]] == [0, 1, 2, 3]
    assert found["usage"]["prompt_tokens"] == 2
    as_text, as_tokens = complete(client, prompt="ab"), complete(client, prompt=[97, 98])
    assert as_text["choices"] == as_tokens["choices"]
    assert len(complete(client, prompt=[[97], [98]])["choices"]) == 2


def test_grammars_hold_here_too(client: TestClient) -> None:
    for body in (
        {"guided_json": PERSON},
        {"response_format": {"type": "json_schema", "json_schema": {"schema": PERSON}}},
    ):
        found = complete(client, prompt="a", max_tokens=80, **body)
        jsonschema.validate(json.loads(found["choices"][0]["text"]), PERSON)


def test_the_prompt_is_told_again_where_it_is_asked_for(client: TestClient) -> None:
    found = complete(client, prompt="abc", echo=True, guided_choice=["xyz"], logprobs=1)["choices"][0]
    assert found["text"] == "abcxyz"
    assert found["logprobs"]["tokens"] == ["x", "y", "z"]
    assert found["logprobs"]["text_offset"] == [3, 4, 5]
    assert found["logprobs"]["token_logprobs"][0] <= 0


@pytest.mark.parametrize("echo", [False, True])
def test_a_stream_tells_what_would_have_come_whole(client: TestClient, echo: bool) -> None:
    body: dict[str, Any] = {"prompt": "abc", "echo": echo, "n": 2, "max_tokens": 12, "logprobs": 0}
    whole = complete(client, **body)
    events = chunks(client, "/v1/completions", **body, stream_options={"include_usage": True})
    assert events.pop()["usage"] == whole["usage"]
    for number, choice in enumerate(whole["choices"]):
        own = [event["choices"][0] for event in events if event["choices"][0]["index"] == number]
        assert "".join(one["text"] for one in own) == choice["text"]
        assert own[-1]["finish_reason"] == choice["finish_reason"]
        assert [t for one in own for t in (one["logprobs"] or {"tokens": []})["tokens"]] == choice["logprobs"]["tokens"]


@pytest.mark.parametrize(
    "body",
    [{"prompt": ""}, {"prompt": []}, {"prompt": [999_999]}, {"prompt": ["a"] * 17}, {"prompt": "a", "suffix": "b"},
     {"prompt": "a", "stop": "b", "guided_regex": "c"}, {"prompt": "a", "guided_regex": "("}],
)  # fmt: skip
def test_what_cannot_be_is_refused(client: TestClient, body: dict[str, Any]) -> None:
    refused(client, "/v1/completions", **body)
