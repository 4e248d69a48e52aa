"""What cannot be had is refused in OpenAI's shape, with the parameter and the place; nothing is ignored."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from constrained.server.chat_request import ChatRequest
from constrained.server.completions import CompletionRequest
from constrained.server.parameters import NO_EFFECT
from constrained.server.responses import ResponseRequest

from .conftest import NOW, PERSON, TOOL, chat, refused

SCHEMA = "response_format.json_schema.schema"


def schema(body: Any) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": body}}}


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        (schema({"properties": {"a": {"type": "strin"}}}), f"{SCHEMA}#/properties/a/type", "invalid_grammar"),
        (schema({"properties": {"a": {"minimum": "x"}}}), f"{SCHEMA}#/properties/a/minimum", "invalid_grammar"),
        (schema(False), f"{SCHEMA}#", "invalid_grammar"),
        (schema({"$ref": "https://example.org/x.json"}), f"{SCHEMA}#/$ref", "invalid_grammar"),
        ({"response_format": {"type": "yaml"}}, "response_format.type", "invalid_value"),
        ({"response_format": {"type": "json_schema"}}, "response_format.schema", "missing_required_parameter"),
        ({"response_format": {"type": "text", "x": 1}}, "response_format.x", "unknown_parameter"),
        ({"guided_regex": "("}, "guided_regex", "invalid_grammar"),
        ({"guided_grammar": "start: nothing"}, "guided_grammar", "invalid_grammar"),
        ({"guided_choice": []}, "guided_choice", "invalid_grammar"),
        ({"guided_regex": "a", "guided_choice": ["b"]}, "guided_choice", None),
        ({"structured_outputs": {"json": PERSON, "regex": "a"}}, "structured_outputs.regex", None),
        ({"structured_outputs": {"xml": 1}}, "structured_outputs.xml", "unknown_parameter"),
        ({"guided_choice": ["a"], "stop": "b"}, "stop", None),
        ({"tools": [{"type": "function", "function": {"name": "t", "parameters": {"type": "array"}}}]},
         "tools[0].function.parameters", "invalid_grammar"),
        ({"tools": [NOW, {"type": "function", "function": {"name": "t", "parameters": {"properties": {"a": {"pattern": "("}}}}}]},
         "tools[1].function.parameters", "invalid_grammar"),
        ({"tools": [NOW, NOW]}, "tools", "invalid_grammar"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type", "invalid_value"),
        ({"tools": [NOW, {"type": "custom", "custom": {"name": "x"}}]}, "tools[1].type", "invalid_value"),
        ({"tool_choice": "required"}, "tool_choice", "invalid_value"),
        ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs", "invalid_value"),
        ({"chat_template_kwargs": {"add_generation_prompt": False}}, "chat_template_kwargs", "invalid_value"),
        ({"reasoning": {"max_tokens": 2}, "max_tokens": 30}, "reasoning.max_tokens", "max_tokens_too_small"),
        ({"reasoning": {"max_tokens": 40}, "max_tokens": 30}, "max_tokens", "max_tokens_too_small"),
        ({"stream": "yes"}, "stream", "invalid_value"),
        ({"n": "2"}, "n", "invalid_value"),
        ({"logprobs": 1}, "logprobs", "invalid_value"),
        ({"max_tokens": 5, "max_completion_tokens": 6}, "max_tokens", "invalid_value"),
        ({"tools": [NOW], "tool_choice": {"type": "function", "function": {"name": "x"}}}, "tool_choice", "invalid_value"),
        ({"tools": [NOW], "tool_choice": {"type": "custom", "custom": {"name": "now"}}}, "tool_choice", "invalid_value"),
        ({"tools": [NOW], "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}},
         "tool_choice", "invalid_value"),
        ({"max_tokens": 3, **schema(PERSON)}, "max_tokens", "max_tokens_too_small"),
        ({"max_completion_tokens": 3, **schema(PERSON)}, "max_completion_tokens", "max_tokens_too_small"),
        ({"max_tokens": 5000}, "messages", "context_length_exceeded"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages", "invalid_value"),
        ({"messages": []}, "messages", "invalid_value"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages.0.role", "invalid_value"),
        ({"temperature": 3}, "temperature", "invalid_value"),
        ({"n": 17}, "n", "invalid_value"),
        ({"n": 0}, "n", "invalid_value"),
        ({"top_logprobs": 3}, "top_logprobs", "invalid_value"),
        ({"logit_bias": {"99999": 1}}, "logit_bias", "invalid_value"),
        ({"guided_decoding_backend": "mine"}, "guided_decoding_backend", "invalid_value"),
        ({"colour": "red"}, "colour", "unknown_parameter"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "invalid_value"),
        ({"stop": [""]}, "stop", "invalid_value"),
    ],
)  # fmt: skip
def test_each_refusal_names_its_parameter(
    client: TestClient, body: dict[str, Any], param: str | None, code: str | None
) -> None:
    error = refused(client, **body)
    assert error["type"] == "invalid_request_error"
    if param is not None:
        assert (error["param"] or "").startswith(param), error
    if code is not None:
        assert error["code"] == code, error


@pytest.mark.parametrize(
    ("model", "needed"),
    [(ChatRequest, {"messages": [{"role": "user", "content": "x"}]}), (CompletionRequest, {"prompt": "x"}),
     (ResponseRequest, {"input": "x"})],
)  # fmt: skip
def test_null_says_the_same_as_nothing(model: Any, needed: dict[str, Any]) -> None:
    names = [info.alias or name for name, info in model.model_fields.items() if not info.is_required()]
    nothing = model.model_validate({"model": "m", **needed})
    assert model.model_validate({"model": "m", **needed, **dict.fromkeys([*names, *model.refused])}) == nothing


@pytest.mark.parametrize(
    ("model", "path"),
    [
        (ChatRequest, "/v1/chat/completions"),
        (CompletionRequest, "/v1/completions"),
        (ResponseRequest, "/v1/responses"),
    ],
)
def test_what_is_known_and_not_to_be_had_is_refused_with_the_reason(client: TestClient, model: Any, path: str) -> None:
    base = {"/v1/completions": {"prompt": "go"}, "/v1/responses": {"input": "go"}}.get(path, {})
    for name, (neutral, why) in model.refused.items():
        error = refused(client, path, **base, **{name: {"some": "value"}})
        assert error["message"] == f"{name} is not supported: {why}"
        assert error["param"] == name
        given = {"messages": [{"role": "user", "content": "x"}]} if model is ChatRequest else base
        for value in (None, *neutral):
            model.model_validate({"model": "m", **given, name: value})


def test_what_says_nothing_of_the_answer_is_taken(client: TestClient) -> None:
    values = {"metadata": {"a": "b"}, "service_tier": "auto"}
    chat(client, guided_choice=["a"], **{name: values.get(name, "x") for name in NO_EFFECT})


@pytest.mark.parametrize(
    ("name", "value"), [("tool_choice", 1), ("tool_choice", []), ("stop", 1), ("stop", [1]), ("stop", True)]
)
def test_a_parameter_of_several_types_is_named_without_them(client: TestClient, name: str, value: Any) -> None:
    assert refused(client, **{name: value})["param"] in (name, f"{name}.0")


def test_parameters_of_openai_are_all_known() -> None:
    openai = pytest.importorskip("openai")
    from openai.types import completion_create_params as text
    from openai.types.chat import completion_create_params as chats
    from openai.types.responses import response_create_params as responses

    for theirs, ours in (
        (chats.CompletionCreateParamsStreaming, ChatRequest),
        (text.CompletionCreateParamsStreaming, CompletionRequest),
        (responses.ResponseCreateParamsStreaming, ResponseRequest),
    ):
        known = {*ours.model_fields, *ours.refused}
        assert theirs.__required_keys__ | theirs.__optional_keys__ <= known, openai.__version__


def test_null_means_what_leaving_out_means(client: TestClient) -> None:
    names = ["temperature", "top_p", "n", "stream", "seed", "stop", "logit_bias", "tools", "tool_choice", "logprobs",
             "response_format", "parallel_tool_calls", "presence_penalty", "max_completion_tokens"]  # fmt: skip
    chat(client, **dict.fromkeys(names), max_tokens=2)


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (b"{", 400, "invalid_json"),
        (b"[" * 100_000, 400, None),
        (b'{"model": "default"}', 400, "missing_required_parameter"),
        (b"", 400, None),
    ],
)
def test_a_body_that_is_no_request_is_refused(
    client: TestClient, content: bytes, status: int, code: str | None
) -> None:
    headers = {"Content-Type": "application/json"}
    response = client.post("/v1/chat/completions", content=content, headers=headers)
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert code is None or error["code"] == code


def test_a_form_of_another_page_is_no_request(client: TestClient) -> None:
    body = b'{"model": "default", "messages": [{"role": "user", "content": "x"}]}'
    response = client.post("/v1/chat/completions", content=body, headers={"Content-Type": "text/plain"})
    assert response.status_code == 400


def test_a_model_that_is_not_served_and_a_path_that_is_not_there_are_404(client: TestClient) -> None:
    error = refused(client, status=404, model="gpt-9")
    assert (error["param"], error["code"]) == ("model", "model_not_found")
    assert client.get("/v1/models/gpt-9").status_code == 404
    assert client.get("/v1/nothing").json()["error"]["code"] == "not_found"
    assert client.get("/v1/chat/completions").status_code == 405


def test_a_refused_tool_is_the_one_that_is_named(client: TestClient) -> None:
    bad = {"type": "function", "function": {"name": "bad", "parameters": {"properties": {"x": {"type": "y"}}}}}
    error = refused(client, tools=[TOOL, bad])
    assert error["param"] == "tools[1].function.parameters#/properties/x/type"


@pytest.mark.parametrize(
    "body",
    [
        '{"model": "default", "messages": [{"role": "user", "content": "\\ud800"}]}',
        '{"model": "\\ud800", "messages": [{"role": "user", "content": "x"}]}',
        '{"model": "default", "\\ud800": 1, "messages": [{"role": "user", "content": "x"}]}',
        '{"model": "default", "guided_regex": "\\ud800", "messages": [{"role": "user", "content": "x"}]}',
        '{"model": "default", "guided_json": {"const": "\\ud800"}, "messages": [{"role": "user", "content": "x"}]}',
        '{"model": "default", "stop": "\\ud800", "guided_choice": ["\\ud800"], "messages": [{"role": "user", "content": "x"}]}',
        '{"model": "default", "logit_bias": {"1": 1e400}, "messages": [{"role": "user", "content": "x"}]}',
        '{"model": "default", "seed": 1e400, "messages": [{"role": "user", "content": "x"}]}',
    ],
)
def test_halves_of_surrogate_pairs_and_huge_numbers_break_nothing(client: TestClient, body: str) -> None:
    headers = {"Content-Type": "application/json"}
    response = client.post("/v1/chat/completions", content=body.encode(), headers=headers)
    assert response.status_code in (400, 404), response.text
    assert response.json()["error"]["message"]
