"""Every field of a request, streamed and not: both tell the same, and the field does what it says."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from fastapi.testclient import TestClient

from .conftest import NOW, PERSON, TOOL, alike, chat, chunks

SCHEMA = {"type": "json_schema", "json_schema": {"name": "p", "strict": True, "schema": PERSON}}
LARK, GBNF = 'start: "a" "b"~1..3', 'root ::= "a" "b"+'
NAMED = {"type": "function", "function": {"name": "now"}}
ALLOWED = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [NAMED]}}

FIELDS: dict[str, dict[str, Any]] = {
    "nothing": {"max_tokens": 12},
    "response_format text": {"response_format": {"type": "text"}, "max_tokens": 12},
    "response_format json_object": {"response_format": {"type": "json_object"}},
    "response_format json_schema": {"response_format": SCHEMA},
    "tools auto": {"tools": [TOOL, NOW], "tool_choice": "auto"},
    "tools required": {"tools": [TOOL, NOW], "tool_choice": "required"},
    "tools named": {"tools": [TOOL, NOW], "tool_choice": NAMED},
    "tools allowed": {"tools": [TOOL, NOW], "tool_choice": ALLOWED},
    "tools none": {"tools": [TOOL], "tool_choice": "none", "max_tokens": 12},
    "parallel_tool_calls": {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False},
    "tools and a schema": {"tools": [NOW], "response_format": SCHEMA},
    "n": {"n": 3, "response_format": SCHEMA},
    "n of calls": {"n": 2, "tools": [NOW], "tool_choice": "required", "parallel_tool_calls": False},
    "n and logprobs": {"n": 2, "logprobs": True, "top_logprobs": 3, "max_tokens": 6},
    "seed": {"seed": 77, "max_tokens": 12},
    "logprobs": {"logprobs": True, "max_tokens": 8},
    "logprobs of calls": {"logprobs": True, "top_logprobs": 1, "tools": [NOW], "tool_choice": "required"},
    "stop": {"stop": ["a", "e", "i", "o", "1", "2", "\u00fc"], "max_tokens": 60},
    "stop beside tools": {"stop": "a", "tools": [NOW], "tool_choice": "none", "max_tokens": 60},
    "max_completion_tokens": {"max_completion_tokens": 5, "max_tokens": None},
    "presence_penalty": {"presence_penalty": 1.5, "max_tokens": 12},
    "frequency_penalty": {"frequency_penalty": -1.5, "max_tokens": 12},
    "repetition_penalty": {"repetition_penalty": 1.3, "max_tokens": 12},
    "logit_bias": {"logit_bias": {"97": 100}, "max_tokens": 5},
    "temperature": {"temperature": 0, "max_tokens": 8},
    "top_p top_k min_p": {"top_p": 0.5, "top_k": 4, "min_p": 0.1, "max_tokens": 12},
    "guided_json": {"guided_json": PERSON},
    "guided_regex": {"guided_regex": "[ab]{3}", "guided_decoding_backend": "xgrammar:disable-any-whitespace"},
    "guided_choice": {"guided_choice": ["yes", "no"]},
    "guided_grammar": {"guided_grammar": LARK},
    "guided_grammar in GBNF": {"guided_grammar": GBNF},
    "guided_whitespace_pattern": {"guided_json": PERSON, "guided_whitespace_pattern": ""},
    "structured_outputs json": {"structured_outputs": {"json": json.dumps(PERSON), "disable_any_whitespace": True}},
    "structured_outputs regex": {"structured_outputs": {"regex": "a|b"}},
    "structured_outputs choice": {"structured_outputs": {"choice": ["x"]}},
    "structured_outputs grammar": {"structured_outputs": {"grammar": LARK}},
    "structured_outputs json_object": {"structured_outputs": {"json_object": True}},
    "reasoning": {"reasoning": {"max_tokens": 20}, "response_format": SCHEMA, "max_tokens": 120},
    "reasoning before calls": {"reasoning": {"max_tokens": 20}, "tools": [NOW], "tool_choice": "required", "max_tokens": 99},
    "priority user metadata": {"priority": 3, "user": "u", "metadata": {"a": "b"}, "max_tokens": 4},
}  # fmt: skip


def streamed_choices(client: TestClient, body: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The choices that the events of a stream add up to, and the usage."""
    events = chunks(client, stream_options={"include_usage": True}, **body)
    usage = events.pop()
    assert usage["choices"] == []
    assert len({(event["id"], event["created"], event["model"]) for event in [usage, *events]}) == 1
    choices: dict[int, dict[str, Any]] = {}
    for event in events:
        assert event["object"] == "chat.completion.chunk"
        assert event["usage"] is None
        [one] = event["choices"]
        choice = choices.setdefault(
            one["index"], {"content": "", "reasoning": "", "calls": [], "logprobs": [], "reason": None}
        )
        assert choice["reason"] is None  # nothing comes behind the reason
        delta = one["delta"]
        assert set(delta) <= {"role", "content", "reasoning_content", "tool_calls"}
        choice["content"] += delta.get("content") or ""
        choice["reasoning"] += delta.get("reasoning_content") or ""
        for call in delta.get("tool_calls", []):
            if "id" in call:
                assert call["index"] == len(choice["calls"])
                choice["calls"].append([call["function"]["name"], ""])
            choice["calls"][call["index"]][1] += call["function"]["arguments"]
        choice["logprobs"] += (one["logprobs"] or {"content": []})["content"]
        choice["reason"] = one["finish_reason"]
    return [choices[at] for at in range(len(choices))], usage["usage"]


@pytest.mark.parametrize("name", FIELDS)
def test_a_stream_and_a_whole_answer_tell_the_same(client: TestClient, name: str) -> None:
    body = FIELDS[name]
    found = chat(client, **body)
    streamed, usage = streamed_choices(client, body)
    assert len(streamed) == len(found["choices"]) == body.get("n", 1)
    for one, choice in zip(streamed, found["choices"], strict=True):
        message = choice["message"]
        assert one["content"] == (message["content"] or "")
        assert one["reasoning"] == message.get("reasoning_content", "")
        calls = [[call["function"]["name"], call["function"]["arguments"]] for call in message.get("tool_calls", [])]
        assert one["calls"] == calls
        alike(one["logprobs"], (choice["logprobs"] or {"content": []})["content"])
        assert one["reason"] == choice["finish_reason"]
        assert (choice["logprobs"] is not None) == bool(body.get("logprobs"))
        _fits(body, message, choice["finish_reason"])
    for count in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert usage[count] == found["usage"][count]
    limit = body.get("max_completion_tokens") or body.get("max_tokens", 80)
    assert usage["completion_tokens"] <= limit * len(streamed)
    details = "completion_tokens_details"
    assert usage[details] == found["usage"][details]
    assert (usage[details]["reasoning_tokens"] > 0) == any(one["reasoning"] for one in streamed)


def _fits(body: dict[str, Any], message: dict[str, Any], reason: str) -> None:
    schema = body.get("guided_json") or (PERSON if body.get("response_format") == SCHEMA else None)
    for call in message.get("tool_calls", []):
        jsonschema.validate(
            json.loads(call["function"]["arguments"]), PERSON if call["function"]["name"] == "keep" else {}
        )
    if message.get("tool_calls"):
        assert reason == "tool_calls"
    elif schema is not None:
        assert reason == "stop"
        jsonschema.validate(json.loads(message["content"]), schema)
    if "logit_bias" in body:
        assert message["content"] == "aaaaa"
    if "stop" in body:
        assert not any(stop in message["content"] for stop in body["stop"])


COMPLETIONS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "max_tokens": {"max_tokens": 3},
    "n": {"n": 2, "max_tokens": 5},
    "prompts and n": {"prompt": ["ab", "cd"], "n": 2, "guided_regex": "[ab]{4}"},
    "logprobs": {"logprobs": 2, "max_tokens": 5},
    "echo": {"echo": True, "logprobs": 0, "max_tokens": 5},
    "stop": {"stop": ["a", "e", "1", "2"], "max_tokens": 60},
    "logit_bias": {"logit_bias": {"97": 100}, "max_tokens": 5},
    "penalties": {"presence_penalty": 1.5, "frequency_penalty": 0.5, "repetition_penalty": 1.2, "max_tokens": 12},
    "sampling": {"temperature": 0.7, "top_p": 0.9, "top_k": 9, "min_p": 0.01, "typical_p": 0.95, "max_tokens": 12},
    "response_format": {"response_format": SCHEMA, "max_tokens": 80},
    "structured_outputs": {"structured_outputs": {"json": PERSON}, "max_tokens": 80},
    "structural_tag": {"response_format": {"type": "structural_tag", "format": {"type": "const_string", "value": "x y"}}},
    "guided_choice": {"guided_choice": ["yes", "no"]},
    "guided_grammar": {"guided_grammar": GBNF},
    "seed user priority": {"seed": 5, "user": "u", "priority": -1, "max_tokens": 5},
}  # fmt: skip


@pytest.mark.parametrize("name", COMPLETIONS)
def test_completions_tell_the_same_streamed_and_whole(client: TestClient, name: str) -> None:
    body = {"model": "default", "prompt": "ab", "seed": 1, **COMPLETIONS[name]}
    response = client.post("/v1/completions", json=body)
    assert response.status_code == 200, response.text
    whole = response.json()
    events = chunks(client, "/v1/completions", stream_options={"include_usage": True}, **{"max_tokens": None, **body})
    assert events.pop()["usage"] == whole["usage"]
    for choice in whole["choices"]:
        own = [event["choices"][0] for event in events if event["choices"][0]["index"] == choice["index"]]
        text = "".join(one["text"] for one in own)
        assert text == choice["text"]
        assert [one["finish_reason"] for one in own if one["finish_reason"]] == [choice["finish_reason"]]
        told = [one["logprobs"] for one in own if one["logprobs"]]
        assert bool(told) == (choice["logprobs"] is not None) == ("logprobs" in body)
        if told:
            assert [token for one in told for token in one["tokens"]] == choice["logprobs"]["tokens"]
            assert [at for one in told for at in one["text_offset"]] == choice["logprobs"]["text_offset"]
        if "response_format" in body and body["response_format"] == SCHEMA:
            jsonschema.validate(json.loads(text), PERSON)
            assert choice["finish_reason"] == "stop"
        if "logit_bias" in body:
            assert text == "aaaaa"
        if "stop" in body:
            assert not any(stop in text for stop in body["stop"])
        if "echo" in body:
            assert text.startswith("ab")


FORMAT = {"type": "json_schema", "name": "p", "strict": True, "schema": PERSON}
KEEP = {"type": "function", "name": "keep", "parameters": PERSON, "strict": True}
AT_ALL = {"type": "function", "name": "now"}
RESPONSES: dict[str, dict[str, Any]] = {
    "nothing": {"max_output_tokens": 9},
    "text": {"text": {"format": {"type": "text"}}, "max_output_tokens": 9},
    "json_object": {"text": {"format": {"type": "json_object"}}},
    "json_schema": {"text": {"format": FORMAT}},
    "structural_tag": {"text": {"format": {"type": "structural_tag", "format": {"type": "const_string", "value": "x y"}}}},
    "tools required": {"tools": [KEEP, AT_ALL], "tool_choice": "required"},
    "tools named": {"tools": [KEEP, AT_ALL], "tool_choice": {"type": "function", "name": "now"}},
    "tools allowed": {"tools": [KEEP, AT_ALL], "tool_choice": {"type": "allowed_tools", "mode": "required", "tools": [AT_ALL]}},
    "tools none": {"tools": [KEEP], "tool_choice": "none", "max_output_tokens": 9},
    "parallel_tool_calls": {"tools": [KEEP], "tool_choice": "required", "parallel_tool_calls": False},
    "reasoning": {"reasoning": {"max_tokens": 20}, "text": {"format": FORMAT}, "max_output_tokens": 120},
    "reasoning and tools": {"reasoning": {"max_tokens": 20}, "tools": [KEEP], "tool_choice": "required", "max_output_tokens": 150},
    "instructions": {"instructions": "Be brief.", "max_output_tokens": 5},
    "sampling": {"temperature": 0.5, "top_p": 0.9, "max_output_tokens": 9},
    "guided_regex": {"guided_regex": "[ab]{3}", "guided_decoding_backend": "xgrammar:disable-any-whitespace"},
    "stop": {"stop": ["a", "e", "1"], "max_output_tokens": 40},
    "metadata": {"metadata": {"a": "b"}, "user": "u", "store": False, "truncation": "disabled", "max_output_tokens": 3},
}  # fmt: skip


def without_ids(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in item.items() if key not in ("id", "call_id")} for item in items]


@pytest.mark.parametrize("name", RESPONSES)
def test_responses_tell_the_same_streamed_and_whole(client: TestClient, name: str) -> None:
    body = {"model": "default", "input": "go", "seed": 1, "max_output_tokens": 90, **RESPONSES[name]}
    response = client.post("/v1/responses", json=body)
    assert response.status_code == 200, response.text
    whole = response.json()
    with client.stream("POST", "/v1/responses", json={**body, "stream": True}) as stream:
        events = [json.loads(line[6:]) for line in stream.iter_lines() if line.startswith("data: ")]
    ended = events[-1]["response"]
    assert events[-1]["type"] == f"response.{whole['status']}"
    assert without_ids(ended["output"]) == without_ids(whole["output"])
    assert ended["incomplete_details"] == whole["incomplete_details"]
    for count in ("input_tokens", "output_tokens", "total_tokens", "output_tokens_details"):
        assert ended["usage"][count] == whole["usage"][count]
    assert (ended["metadata"], ended["user"]) == (body.get("metadata", {}), body.get("user"))
    for item in whole["output"]:
        if item["type"] == "function_call":
            jsonschema.validate(json.loads(item["arguments"]), PERSON if item["name"] == "keep" else {})
        elif item["type"] == "message" and body.get("text") == {"format": FORMAT}:
            jsonschema.validate(json.loads(item["content"][0]["text"]), PERSON)
    kinds = {item["type"] for item in whole["output"]}
    assert ("function_call" in kinds) == (body.get("tool_choice", "none") != "none")
