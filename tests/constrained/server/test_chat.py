from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from fastapi.testclient import TestClient

from .conftest import NOW, PERSON, TOOL, alike, chat, chunks, refused

FORMAT = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}
NO_CALL = {str(ord("{")): -100, str(ord("[")): -100}


def test_a_completion_has_the_shape_that_clients_read(client: TestClient) -> None:
    found = chat(client, max_tokens=5)
    assert found["object"] == "chat.completion"
    [choice] = found["choices"]
    assert choice["message"]["role"] == "assistant"
    assert choice["finish_reason"] == "length"
    assert found["usage"]["completion_tokens"] == 5
    assert found["usage"]["total_tokens"] == found["usage"]["prompt_tokens"] + 5


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("max_tokens", [34, 80])
def test_a_schema_is_kept_and_whole_within_its_budget(client: TestClient, seed: int, max_tokens: int) -> None:
    [choice] = chat(client, response_format=FORMAT, seed=seed, max_completion_tokens=max_tokens, max_tokens=None)[
        "choices"
    ]
    jsonschema.validate(json.loads(choice["message"]["content"]), PERSON)
    assert choice["finish_reason"] == "stop"


@pytest.mark.parametrize(
    ("body", "check"),
    [
        ({"response_format": {"type": "json_object"}}, lambda text: isinstance(json.loads(text), dict)),
        ({"structured_outputs": {"json": PERSON}}, lambda text: jsonschema.validate(json.loads(text), PERSON) is None),
        ({"guided_json": json.dumps(PERSON)}, lambda text: jsonschema.validate(json.loads(text), PERSON) is None),
        ({"guided_json": PERSON, "guided_whitespace_pattern": ""}, lambda text: '","age":' in text),
        ({"structured_outputs": {"regex": "[ab]{3}"}}, lambda text: len(text) == 3 and set(text) <= {"a", "b"}),
        ({"guided_regex": "x|yy"}, lambda text: text in ("x", "yy")),
        ({"structured_outputs": {"choice": ["left", "right"]}}, lambda text: text in ("left", "right")),
        ({"guided_choice": ["left", "right"]}, lambda text: text in ("left", "right")),
        ({"structured_outputs": {"grammar": 'start: "a" "b"+'}}, lambda text: set(text[1:]) == {"b"}),
        ({"guided_grammar": 'root ::= "c" | "dd"'}, lambda text: text in ("c", "dd")),
        ({"response_format": {"type": "text"}, "max_tokens": 3}, lambda text: text),
    ],
)
def test_every_kind_of_grammar_is_kept_under_the_names_that_clients_send(
    client: TestClient, body: dict[str, Any], check: Any
) -> None:
    assert check(chat(client, **body)["choices"][0]["message"]["content"])


def test_a_grammar_is_never_read_as_the_path_of_a_file(client: TestClient, tmp_path: Any) -> None:
    path = tmp_path / "x.lark"
    path.write_text('start: "secret"')
    assert refused(client, guided_grammar=str(path))["param"] == "guided_grammar"


def test_n_answers_have_seeds_of_their_own_and_come_again_with_the_same_seed(client: TestClient) -> None:
    first, second = (chat(client, n=3, seed=7, max_tokens=8) for _ in range(2))
    texts = [choice["message"]["content"] for choice in first["choices"]]
    assert [choice["index"] for choice in first["choices"]] == [0, 1, 2]
    assert len(set(texts)) > 1
    assert texts == [choice["message"]["content"] for choice in second["choices"]]
    assert first["usage"]["completion_tokens"] == sum(map(len, texts)) or first["usage"]["completion_tokens"] <= 24


def test_calls_come_with_arguments_that_fit(client: TestClient) -> None:
    [choice] = chat(client, tools=[TOOL, NOW], tool_choice="required")["choices"]
    assert choice["finish_reason"] == "tool_calls"
    message = choice["message"]
    assert message["content"] is None
    assert len({call["id"] for call in message["tool_calls"]}) == len(message["tool_calls"])
    for call in message["tool_calls"]:
        schema = PERSON if call["function"]["name"] == "keep" else {"maxProperties": 0}
        jsonschema.validate(json.loads(call["function"]["arguments"]), schema)


def test_one_call_where_calls_are_not_parallel_and_the_named_one_where_one_is_named(client: TestClient) -> None:
    for seed in range(3):
        choice = {"type": "function", "function": {"name": "now"}}
        [call] = chat(client, tools=[TOOL, NOW], tool_choice=choice, seed=seed)["choices"][0]["message"]["tool_calls"]
        assert call["function"] == {"name": "now", "arguments": call["function"]["arguments"]}
        found = chat(client, tools=[TOOL, NOW], tool_choice="required", parallel_tool_calls=False, seed=seed)
        assert len(found["choices"][0]["message"]["tool_calls"]) == 1


def test_only_allowed_tools_are_called(client: TestClient) -> None:
    allowed = {"mode": "required", "tools": [{"type": "function", "function": {"name": "now"}}]}
    choice = {"type": "allowed_tools", "allowed_tools": allowed}
    for seed in range(3):
        message = chat(client, tools=[TOOL, NOW], tool_choice=choice, seed=seed)["choices"][0]["message"]
        assert {call["function"]["name"] for call in message["tool_calls"]} == {"now"}
    auto = {"type": "allowed_tools", "allowed_tools": {**allowed, "mode": "auto"}}
    message = chat(client, tools=[TOOL, NOW], tool_choice=auto, logit_bias={str(ord("[")): 100})["choices"][0][
        "message"
    ]
    assert {call["function"]["name"] for call in message["tool_calls"]} == {"now"}


def test_no_call_is_made_where_none_is_asked_for(client: TestClient) -> None:
    message = chat(client, tools=[TOOL], tool_choice="none", max_tokens=20)["choices"][0]["message"]
    assert "tool_calls" not in message
    spoken = chat(client, tools=[TOOL], logit_bias=NO_CALL, max_tokens=20)["choices"][0]
    assert spoken["message"]["content"]
    assert spoken["finish_reason"] in ("stop", "length")


def test_a_whole_round_with_tools_is_read(client: TestClient) -> None:
    asked = chat(client, tools=[NOW], tool_choice="required", parallel_tool_calls=False)["choices"][0]["message"]
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "What time?"}]},
        asked,
        {"role": "tool", "tool_call_id": asked["tool_calls"][0]["id"], "content": "noon"},
    ]
    assert chat(client, messages=messages, tools=[NOW], logit_bias=NO_CALL, max_tokens=4)["choices"][0]["message"][
        "content"
    ]


def test_thoughts_are_a_field_of_their_own(client: TestClient) -> None:
    message = chat(client, response_format=FORMAT, reasoning={"max_tokens": 30}, max_tokens=120)["choices"][0][
        "message"
    ]
    jsonschema.validate(json.loads(message["content"]), PERSON)
    assert len(message.get("reasoning_content", "")) < 30
    events = chunks(client, response_format=FORMAT, reasoning={"enabled": True}, max_tokens=120)
    content = "".join(event["choices"][0]["delta"].get("content") or "" for event in events)
    jsonschema.validate(json.loads(content), PERSON)


def test_a_schema_of_objects_beside_the_json_mode_is_held(client: TestClient) -> None:
    for body in ({"guided_json": PERSON}, {"structured_outputs": {"json": PERSON}}):
        found = chat(client, response_format={"type": "json_object"}, **body)
        jsonschema.validate(json.loads(found["choices"][0]["message"]["content"]), PERSON)
    error = refused(client, response_format={"type": "json_object"}, guided_json={"type": "array"})
    assert "exclude each other" in error["message"]


def test_stop_texts_cut_and_are_not_told(client: TestClient) -> None:
    whole = chat(client, max_tokens=40)["choices"][0]["message"]["content"]
    stop = whole[5:7]
    found = chat(client, max_tokens=40, stop=[stop])
    [choice] = found["choices"]
    assert found["usage"]["prompt_tokens_details"]["cached_tokens"] > 0  # known, although it was cut
    assert choice["message"]["content"] == whole[: whole.index(stop)]
    assert choice["finish_reason"] == "stop"
    streamed = chunks(client, max_tokens=40, stop=stop)
    assert "".join(one["choices"][0]["delta"].get("content") or "" for one in streamed) == choice["message"]["content"]
    assert streamed[-1]["choices"][0]["finish_reason"] == "stop"


def test_log_probabilities_are_those_of_the_tokens(client: TestClient) -> None:
    found = chat(client, guided_regex="[ab]{4}", logprobs=True, top_logprobs=2)["choices"][0]
    entries = found["logprobs"]["content"]
    assert "".join(entry["token"] for entry in entries) == found["message"]["content"]
    for entry in entries:
        assert entry["logprob"] <= 0
        assert entry["bytes"] == list(entry["token"].encode())
        assert {one["token"] for one in entry["top_logprobs"]} == {"a", "b"}
    streamed = chunks(client, guided_regex="[ab]{4}", logprobs=True, top_logprobs=2)
    told = [e for one in streamed for e in (one["choices"][0]["logprobs"] or {"content": []})["content"]]
    alike(told, entries)


def test_penalties_and_bias_reach_the_sampler(client: TestClient) -> None:
    biased = chat(client, guided_regex="[ab]{9}", logit_bias={str(ord("b")): 100})["choices"][0]["message"]["content"]
    assert biased == "b" * 9
    forbidden = chat(client, guided_regex="[ab]{9}", logit_bias={str(ord("b")): -100})["choices"][0]
    assert forbidden["message"]["content"] == "a" * 9
    refused(client, presence_penalty=3)
    refused(client, frequency_penalty=-2.5)


def test_usage_comes_last_where_it_is_asked_for(client: TestClient) -> None:
    events = chunks(client, guided_choice=["ab"], stream_options={"include_usage": True})
    assert all(event["usage"] is None for event in events[:-1])
    assert events[-1]["choices"] == []
    assert events[-1]["usage"]["completion_tokens"] == 2
    assert all("usage" not in event for event in chunks(client, guided_choice=["ab"]))
