from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from fastapi.testclient import TestClient

from .conftest import PERSON, refused

FORMAT = {"format": {"type": "json_schema", "name": "person", "schema": PERSON, "strict": True}}
KEEP = {"type": "function", "name": "keep", "parameters": PERSON, "strict": True}


def respond(client: TestClient, **body: Any) -> dict[str, Any]:
    given = {"model": "default", "input": "go", "seed": 1, "max_output_tokens": 90, **body}
    response = client.post("/v1/responses", json=given)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def test_a_text_is_one_message(client: TestClient) -> None:
    found = respond(client, max_output_tokens=4)
    assert (found["object"], found["status"]) == ("response", "incomplete")
    assert found["incomplete_details"] == {"reason": "max_output_tokens"}
    [message] = found["output"]
    assert message["content"][0]["type"] == "output_text"
    assert found["usage"]["output_tokens"] == 4


def test_a_schema_is_kept(client: TestClient) -> None:
    found = respond(client, text=FORMAT)
    assert found["status"] == "completed"
    jsonschema.validate(json.loads(found["output"][0]["content"][0]["text"]), PERSON)


def test_calls_are_items_and_their_results_are_read(client: TestClient) -> None:
    found = respond(client, tools=[KEEP], tool_choice="required", parallel_tool_calls=False)
    [call] = found["output"]
    assert call["type"] == "function_call"
    jsonschema.validate(json.loads(call["arguments"]), PERSON)
    conversation = [
        {"role": "user", "content": [{"type": "input_text", "text": "Keep Ada."}]},
        call,
        {"type": "function_call_output", "call_id": call["call_id"], "output": "kept"},
    ]
    assert respond(client, input=conversation, instructions="Be brief.", max_output_tokens=3)["output"]


LOGPROBS = {"include": ["message.output_text.logprobs"], "top_logprobs": 2}


def test_log_probabilities_spell_the_text_and_only_the_text(client: TestClient) -> None:
    for body in ({"text": FORMAT}, {"text": FORMAT, "reasoning": {"max_tokens": 20}}):
        found = respond(client, max_output_tokens=120, **LOGPROBS, **body)
        part = found["output"][-1]["content"][0]
        spelled = b"".join(bytes(entry["bytes"]) for entry in part["logprobs"])
        assert spelled.decode().strip() == part["text"].strip()
        assert found["top_logprobs"] == 2
        for entry in part["logprobs"]:
            assert entry["logprob"] <= 0 and 1 <= len(entry["top_logprobs"]) <= 2  # fewer where fewer are allowed
    assert respond(client, text=FORMAT)["output"][0]["content"][0]["logprobs"] == []
    alone = respond(client, text=FORMAT, include=LOGPROBS["include"])["output"][0]["content"][0]["logprobs"]
    assert alone and all(entry["top_logprobs"] == [] for entry in alone)


def test_calls_have_no_log_probabilities(client: TestClient) -> None:
    [call] = respond(client, tools=[KEEP], tool_choice="required", parallel_tool_calls=False, **LOGPROBS)["output"]
    assert "logprobs" not in call


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"top_logprobs": 21, "include": LOGPROBS["include"]}, "top_logprobs"),
        ({"include": ["file_search_call.results"]}, "include"),
        ({"stream_options": {"include_obfuscation": False}}, "stream_options"),
    ],
)
def test_what_else_might_be_included_is_refused(client: TestClient, body: dict[str, Any], param: str) -> None:
    assert refused(client, "/v1/responses", input="go", **body)["param"] == param


@pytest.mark.parametrize(
    "body",
    [
        {"text": FORMAT, **LOGPROBS},
        {"text": FORMAT, "reasoning": {"max_tokens": 20}},
        {"tools": [KEEP], "tool_choice": "required"},
    ],
)
def test_the_events_add_up_to_the_response(client: TestClient, body: dict[str, Any]) -> None:
    given = {"model": "default", "input": "go", "seed": 1, "max_output_tokens": 120, "stream": True, **body}
    with client.stream("POST", "/v1/responses", json=given) as response:
        lines = [line for line in response.iter_lines() if line]
    names = [line.removeprefix("event: ") for line in lines[::2]]
    events = [json.loads(line.removeprefix("data: ")) for line in lines[1::2]]
    assert [event["type"] for event in events] == names
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert names[:2] == ["response.created", "response.in_progress"]
    assert names[-1] == "response.completed"
    output = events[-1]["response"]["output"]
    for at, item in enumerate(output):
        deltas = [e["delta"] for e in events if e["type"].endswith(".delta") and e["output_index"] == at]
        whole = item["arguments"] if item["type"] == "function_call" else item["content"][0]["text"]
        assert "".join(deltas) == whole
        if item["type"] == "message":
            told = [
                e["logprobs"] for e in events if e["type"] == "response.output_text.delta" and e["output_index"] == at
            ]
            assert [one for delta in told for one in delta] == item["content"][0]["logprobs"]
            assert bool(item["content"][0]["logprobs"]) is ("include" in body)
        assert [e["item"] for e in events if e["type"] == "response.output_item.done" and e["output_index"] == at] == [
            item
        ]
    if "text" in body:
        jsonschema.validate(json.loads(output[-1]["content"][0]["text"]), PERSON)
        assert [item["type"] for item in output] in (["reasoning", "message"], ["message"])


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"input": [{"type": "image_generation_call"}]}, "input[0]"),
        ({"input": [{"type": "function_call_output"}]}, "input[0]"),
        ({"input": "go", "previous_response_id": "resp_1"}, None),
        ({"input": "go", "store": True}, None),
        ({"input": "go", "text": {"format": {"type": "json_schema", "schema": {"type": "x"}}}}, "text.format.schema#"),
        ({"input": "go", "tools": [{"type": "web_search"}]}, "tools[0]"),
        ({"input": "go", "max_output_tokens": 2, "text": FORMAT}, "max_output_tokens"),
    ],
)
def test_what_cannot_be_is_refused(client: TestClient, body: dict[str, Any], param: str | None) -> None:
    error = refused(client, "/v1/responses", **body)
    assert param is None or error["param"].startswith(param), error
