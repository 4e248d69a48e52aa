"""The clients that users have, against a server of its own process with the default model."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

openai = pytest.importorskip("openai")

KEY = "a-key-of-the-tests"


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
def address(default_model_file: Path) -> Iterator[str]:
    """Where `constrained serve` listens; it has ended well when the tests are through."""
    options = ["--port", "0", "--log-format", "json", "--api-key", KEY, "--kv-memory", "256MiB"]
    command = [sys.executable, "-m", "constrained", "serve", *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as server:
        assert server.stderr is not None
        found, ready = "", False
        log = []
        while not (found and ready):
            line = server.stderr.readline()
            assert line, "".join(log)
            log.append(line)
            if match := re.fullmatch(r"listening on (http://\S+)\n", line):
                found = match[1]
            ready = ready or '"event": "ready"' in line
        yield found
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0, server.stderr.read()


@pytest.fixture(scope="session")
def client(address: str) -> Any:
    return openai.OpenAI(base_url=f"{address}/v1", api_key=KEY, max_retries=0, timeout=120)


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


@pytest.mark.parametrize("mode", ["TOOLS", "JSON_SCHEMA"])
def test_instructor_makes_models(client: Any, mode: str) -> None:
    instructor = pytest.importorskip("instructor")
    patched = instructor.from_openai(client, mode=getattr(instructor.Mode, mode))
    person = patched.chat.completions.create(
        model="default", messages=TEXT, response_model=Person, max_tokens=70, max_retries=0, temperature=0
    )
    assert isinstance(person, Person)


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_langchain_makes_models_and_calls_tools(
    address: str, method: Literal["json_schema", "function_calling"]
) -> None:
    langchain = pytest.importorskip("langchain_openai")
    chat = langchain.ChatOpenAI(base_url=f"{address}/v1", api_key=KEY, model="default", max_retries=0, max_tokens=70)
    assert isinstance(chat.with_structured_output(Person, method=method).invoke("Ada Lovelace was 36."), Person)
    if method == "function_calling":
        [call] = chat.bind_tools([Weather], tool_choice="Weather").invoke("Weather in Oslo?").tool_calls
        Weather.model_validate(call["args"])


def test_litellm_makes_models(address: str) -> None:
    litellm = pytest.importorskip("litellm")
    found = litellm.completion(
        model="openai/default",
        api_base=f"{address}/v1",
        api_key=KEY,
        messages=TEXT,
        response_format=Person,
        max_tokens=60,
    )
    Person.model_validate_json(found.choices[0].message.content)
