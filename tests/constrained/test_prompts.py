from __future__ import annotations

from typing import Any

import pytest

from constrained.prompts import as_messages, with_schema, with_tools
from constrained.tools import read_tools


def test_a_text_is_one_user_message() -> None:
    assert as_messages("hello") == [{"role": "user", "content": "hello"}]


@pytest.mark.parametrize(
    ("prompt", "error"), [([], ValueError), ([{"content": "x"}], ValueError), (3, TypeError), (["x"], TypeError)]
)
def test_what_is_no_prompt_is_refused(prompt: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        as_messages(prompt)


def test_the_form_goes_beside_the_text_of_the_user() -> None:
    [message] = with_schema("Ada was 36.", {"type": "object", "properties": {"age": {"type": "integer"}}})
    assert message["role"] == "user"
    assert '{"age": integer}' in message["content"]
    assert message["content"].startswith("Ada was 36.\n\n")


def test_the_rest_of_a_conversation_stays_as_it_is() -> None:
    given = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": "Yes?"},
        {"role": "user", "content": "Ada was 36."},
    ]
    messages = with_schema(given, True)
    assert messages[:3] == given[:3]
    assert "Ada was 36." in messages[3]["content"]
    assert given[3]["content"] == "Ada was 36."


def test_a_conversation_that_ends_otherwise_gets_the_form_in_its_system_message() -> None:
    parts = [{"type": "text", "text": "Ada"}]
    for given in ([{"role": "user", "content": parts}], [{"role": "tool", "content": "36"}]):
        system, last = with_schema(given, {"type": "integer"})
        assert system["role"] == "system"
        assert "integer" in system["content"]
        assert last == given[-1]
    system, _ = with_schema([{"role": "system", "content": "Be brief."}, {"role": "tool", "content": "36"}], True)
    assert system["content"].startswith("Be brief.\n\n")


def test_tools_are_described_by_name_purpose_and_parameters() -> None:
    tools = read_tools(
        [{"name": "now", "description": "The time.", "parameters": {"properties": {"zone": {"type": "string"}}}}]
    )
    content = with_tools("What time is it?", tools)[0]["content"]
    assert '{"name": "now", "arguments": {"zone": string}} The time.' in content
