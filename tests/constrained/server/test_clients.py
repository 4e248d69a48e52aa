"""The clients that users have, against a server of its own process with the default model."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any, Literal

import jsonschema
import pytest
from pydantic import BaseModel, Field

from .conftest import KEY

openai = pytest.importorskip("openai")


class Person(BaseModel):
    name: str = Field(max_length=30)
    age: int = Field(ge=0, le=130)


class Weather(BaseModel):
    """Tells the weather in a city."""

    city: Literal["Oslo", "Bern"]


TEXT = [{"role": "user", "content": "Ada Lovelace was 36 years old."}]
QUESTION = [{"role": "user", "content": "What is the weather like in Oslo?"}]
TOOL = {
    "type": "function",
    "function": {
        "name": "Weather",
        "description": "Tells the weather in a city.",
        "parameters": Weather.model_json_schema(),
    },
}


@pytest.fixture(scope="session")
def client(address: str) -> Any:
    return openai.OpenAI(base_url=f"{address}/v1", api_key=KEY, max_retries=0, timeout=120)


def test_openai_creates_texts_and_objects(client: Any) -> None:
    found = client.chat.completions.create(model="default", messages=TEXT, max_tokens=5, temperature=0, seed=3)
    assert found.choices[0].message.content
    assert found.usage.total_tokens == found.usage.prompt_tokens + found.usage.completion_tokens
    schema = {
        "type": "json_schema",
        "json_schema": {"name": "person", "schema": Person.model_json_schema(), "strict": True},
    }
    for form in (schema, {"type": "json_object"}):
        found = client.chat.completions.create(
            model="default", messages=TEXT, max_tokens=60, temperature=0, response_format=form
        )
        value = json.loads(found.choices[0].message.content)
        jsonschema.validate(value, Person.model_json_schema() if form is schema else {"type": "object"})
    chunks = list(client.chat.completions.create(
        model="default", messages=TEXT, max_tokens=60, temperature=0, response_format=schema, stream=True,
        stream_options={"include_usage": True},
    ))  # fmt: skip
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    jsonschema.validate(json.loads(text), Person.model_json_schema())
    assert chunks[-1].usage.completion_tokens > 0


def test_openai_goes_a_whole_round_with_a_tool(client: Any) -> None:
    options: dict[str, Any] = {"model": "default", "tools": [TOOL], "max_tokens": 60, "temperature": 0}
    asked = client.chat.completions.create(messages=QUESTION, tool_choice="required", **options).choices[0]
    assert asked.finish_reason == "tool_calls"
    [call, *_] = asked.message.tool_calls
    Weather.model_validate_json(call.function.arguments)
    results = [{"role": "tool", "tool_call_id": one.id, "content": "12 degrees"} for one in asked.message.tool_calls]
    answer = client.chat.completions.create(
        messages=[*QUESTION, asked.message, *results], tool_choice="none", **options
    )
    assert answer.choices[0].message.content
    assert answer.choices[0].message.tool_calls is None


def test_openai_parses_a_model(client: Any) -> None:
    found = client.chat.completions.parse(
        model="default", messages=TEXT, response_format=Person, max_tokens=60, temperature=0
    )
    person = found.choices[0].message.parsed
    assert isinstance(person, Person)
    assert found.usage.completion_tokens <= 60


def test_openai_streams_a_model(client: Any) -> None:
    with client.chat.completions.stream(
        model="default", messages=TEXT, response_format=Person, max_tokens=60
    ) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()
    assert "content.delta" in kinds
    assert isinstance(final.choices[0].message.parsed, Person)


def test_openai_calls_tools_whole_and_streamed(client: Any) -> None:
    options: dict[str, Any] = {
        "model": "default", "messages": QUESTION, "tools": [openai.pydantic_function_tool(Weather)], "tool_choice": "required",
        "parallel_tool_calls": False, "max_tokens": 60,
    }  # fmt: skip
    [call] = client.chat.completions.parse(**options).choices[0].message.tool_calls
    assert isinstance(call.function.parsed_arguments, Weather)
    with client.chat.completions.stream(**options) as stream:
        names = [event.type for event in stream]
        final = stream.get_final_completion()
    assert "tool_calls.function.arguments.done" in names
    assert isinstance(final.choices[0].message.tool_calls[0].function.parsed_arguments, Weather)


def test_openai_sends_what_vllm_takes_in_extra_body(client: Any) -> None:
    for extra in ({"guided_choice": ["yes", "no"]}, {"structured_outputs": {"regex": "yes|no"}}):
        found = client.chat.completions.create(model="default", messages=TEXT, max_tokens=9, extra_body=extra)
        assert found.choices[0].message.content in ("yes", "no")


def test_openai_completes_and_lists(client: Any) -> None:
    assert client.completions.create(model="default", prompt="One, two,", max_tokens=3, temperature=0).choices[0].text
    assert [model.id for model in client.models.list()] == ["SmolLM2-135M-Instruct", "default"]


def test_openai_responses_whole_and_streamed(client: Any) -> None:
    options: dict[str, Any] = {"model": "default", "input": "Ada Lovelace was 36 years old.", "max_output_tokens": 60}
    assert isinstance(client.responses.parse(text_format=Person, **options).output_parsed, Person)
    with client.responses.stream(text_format=Person, **options) as stream:
        types = [event.type for event in stream]
        assert isinstance(stream.get_final_response().output_parsed, Person)
    assert types[-1] == "response.completed"
    tool = {"type": "function", "name": "Weather", "parameters": Weather.model_json_schema(), "strict": True}
    found = client.responses.create(
        model="default", input="Weather in Oslo?", tools=[tool], tool_choice="required", max_output_tokens=60
    )
    assert {item.type for item in found.output} == {"function_call"}


def test_openai_raises_its_own_errors(client: Any, address: str) -> None:
    with pytest.raises(openai.BadRequestError) as bad:
        client.chat.completions.create(model="default", messages=TEXT, extra_body={"guided_regex": "("})
    assert bad.value.param == "guided_regex"
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="gpt-9", messages=TEXT)
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=f"{address}/v1", api_key="wrong", max_retries=0).models.list()


@pytest.mark.parametrize("mode", ["TOOLS", "JSON", "JSON_SCHEMA", "MD_JSON"])
def test_instructor_makes_models(client: Any, mode: str) -> None:
    instructor = pytest.importorskip("instructor")
    patched = instructor.from_openai(client, mode=getattr(instructor.Mode, mode))
    # In these two modes the schema stands in the prompt alone, unless it is sent along.
    extra = {"guided_json": Person.model_json_schema()} if mode in ("JSON", "MD_JSON") else None
    person = patched.chat.completions.create(
        model="default", messages=TEXT, response_model=Person, max_tokens=70, max_retries=0, temperature=0, extra_body=extra
    )  # fmt: skip
    assert isinstance(person, Person)


def test_instructor_streams_what_is_known_so_far(client: Any) -> None:
    instructor = pytest.importorskip("instructor")
    patched = instructor.from_openai(client, mode=instructor.Mode.TOOLS)
    partial = list(patched.chat.completions.create_partial(
        model="default", messages=TEXT, response_model=Person, max_tokens=70, max_retries=0, temperature=0
    ))  # fmt: skip
    assert isinstance(partial[-1].age, int)
    names = [one.name for one in partial if one.name]
    assert all(partial[-1].name.startswith(name) for name in names)


Method = Literal["json_schema", "function_calling", "json_mode"]


@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
def test_langchain_makes_models_and_calls_tools(address: str, method: Method) -> None:
    langchain = pytest.importorskip("langchain_openai")
    chat = langchain.ChatOpenAI(base_url=f"{address}/v1", api_key=KEY, model="default", max_retries=0, max_tokens=70)
    if method == "json_mode":  # any object: whether it is a person is not asked of the server
        found = chat.with_structured_output(None, method=method).invoke("Ada Lovelace was 36. Answer in JSON.")
        assert isinstance(found, dict)
        return
    structured = chat.with_structured_output(Person, method=method)
    assert isinstance(structured.invoke("Ada Lovelace was 36."), Person)
    assert isinstance(list(structured.stream("Ada Lovelace was 36."))[-1], Person)
    if method == "function_calling":
        [call] = chat.bind_tools([Weather], tool_choice="Weather").invoke("Weather in Oslo?").tool_calls
        Weather.model_validate(call["args"])


def test_litellm_makes_models_calls_tools_and_streams(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # it would ask another host for prices
    litellm = pytest.importorskip("litellm")
    options: dict[str, Any] = {
        "model": "openai/default", "api_base": f"{address}/v1", "api_key": KEY, "max_tokens": 60, "temperature": 0,
    }  # fmt: skip
    found = litellm.completion(messages=TEXT, response_format=Person, **options)
    Person.model_validate_json(found.choices[0].message.content)
    pieces = litellm.completion(messages=TEXT, response_format=Person, stream=True, **options)
    Person.model_validate_json("".join(piece.choices[0].delta.content or "" for piece in pieces))
    called = litellm.completion(messages=QUESTION, tools=[TOOL], tool_choice="required", **options)
    for call in called.choices[0].message.tool_calls:
        Weather.model_validate_json(call.function.arguments)


def curl(address: str, path: str, *options: str, body: Any = None) -> str:
    if shutil.which("curl") is None:
        pytest.skip("no curl on this machine")
    data = [] if body is None else ["-d", json.dumps(body), "-H", "Content-Type: application/json"]
    command = ["curl", "-sS", "--max-time", "60", "-H", f"Authorization: Bearer {KEY}", *options, *data, address + path]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_curl_gets_objects_whole_and_streamed(address: str) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": Person.model_json_schema()}}
    body = {"model": "default", "messages": TEXT, "max_tokens": 60, "response_format": form}
    whole = json.loads(curl(address, "/v1/chat/completions", body=body))
    Person.model_validate_json(whole["choices"][0]["message"]["content"])
    streamed = curl(address, "/v1/chat/completions", "-N", body={**body, "stream": True})
    lines = [line.removeprefix("data: ") for line in streamed.split("\n\n") if line]
    assert lines.pop() == "[DONE]"
    deltas = [json.loads(line)["choices"][0]["delta"] for line in lines]
    Person.model_validate_json("".join(delta.get("content") or "" for delta in deltas))


def test_curl_is_told_what_is_wrong_by_the_status(address: str) -> None:
    body = {"model": "default", "messages": TEXT, "guided_regex": "("}
    found = curl(address, "/v1/chat/completions", "-w", "%{http_code} %{content_type}", body=body)
    assert found.endswith("}400 application/json")
    assert (
        curl(address, "/v1/models", "-o", "/dev/null", "-w", "%{http_code}", "-H", "Authorization: Bearer no") == "401"
    )
    assert curl(address, "/health") == '{"status":"ok"}'
