"""What a stream tells is at every moment the beginning of what it will have told."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from fastapi.testclient import TestClient

from constrained import LLM, JsonSchema, compile

from .conftest import NOW, PERSON, TOOL, chat, chunks

WEIRD = {
    "type": "object",
    "properties": {"text": {"type": "string", "pattern": '^[äß€😀"\\\\<\\[{]{8}$'}},
    "required": ["text"],
    "additionalProperties": False,
}


def calls_of(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []
    for event in events:
        for delta in event["choices"][0]["delta"].get("tool_calls", []):
            if "id" in delta:
                assert delta["index"] == len(calls)
                calls.append({"name": delta["function"]["name"], "pieces": []})
            calls[delta["index"]]["pieces"].append(delta["function"]["arguments"])
    return calls


@pytest.mark.parametrize("format", ["json", "hermes", "llama3_json", "pythonic", "mistral", "mistral_args"])
def test_every_delta_of_arguments_extends_a_beginning_of_json_that_fits(
    client: TestClient, random_llm: LLM, format: str
) -> None:
    tool = {"type": "function", "function": {"name": "keep", "parameters": WEIRD}}
    events = chunks(client, tools=[tool], tool_choice="required", tool_format=format, parallel_tool_calls=False)
    [call] = calls_of(events)
    matcher = compile(JsonSchema(WEIRD), random_llm.vocabulary).matcher()
    for piece in call["pieces"]:
        data = list(piece.encode())
        assert matcher.accept_many(data) == len(data)
    assert matcher.is_accepting()
    jsonschema.validate(json.loads("".join(call["pieces"])), WEIRD)
    assert events[-1]["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("seed", range(4))
def test_no_mark_leaks_into_the_content(client: TestClient, seed: int) -> None:
    bias = {str(ord("<")): 3}
    events = chunks(client, tools=[TOOL, NOW], tool_format="hermes", logit_bias=bias, seed=seed, max_tokens=120)
    content = "".join(event["choices"][0]["delta"].get("content") or "" for event in events)
    assert "<tool_call>" not in content
    for call in calls_of(events):
        jsonschema.validate(json.loads("".join(call["pieces"])), PERSON if call["name"] == "keep" else {})


def test_no_delta_ends_inside_a_character(client: TestClient) -> None:
    events = chunks(client, guided_regex="[äß€😀]{12}")
    pieces = [event["choices"][0]["delta"].get("content") or "" for event in events]
    assert "\ufffd" not in "".join(pieces)
    assert sum(map(len, pieces)) == 12
    assert all(len(piece) <= 1 for piece in pieces)


def test_a_stream_tells_what_would_have_come_whole(client: TestClient) -> None:
    body: dict[str, Any] = {
        "response_format": {"type": "json_schema", "json_schema": {"name": "p", "schema": PERSON}},
        "n": 2,
    }
    whole = chat(client, **body)["choices"]
    events = chunks(client, **body)
    for number, choice in enumerate(whole):
        own = [event["choices"][0] for event in events if event["choices"][0]["index"] == number]
        assert own[0]["delta"] == {"role": "assistant", "content": ""}
        assert "".join(one["delta"].get("content") or "" for one in own) == choice["message"]["content"]
        assert [one["finish_reason"] for one in own if one["finish_reason"]] == [choice["finish_reason"]]
