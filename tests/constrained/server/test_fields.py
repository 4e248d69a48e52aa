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
    "guided_regex": {"guided_regex": "[ab]{3}"},
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
