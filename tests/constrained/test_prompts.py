from __future__ import annotations

from typing import Any

import pytest

from constrained.prompts import as_messages, is_token_ids, with_schema


def test_a_text_is_one_user_message() -> None:
    assert as_messages("hello") == [{"role": "user", "content": "hello"}]


@pytest.mark.parametrize(
    ("prompt", "error"), [([], ValueError), ([{"content": "x"}], ValueError), (3, TypeError), (["x"], TypeError)]
)
def test_what_is_no_prompt_is_refused(prompt: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        as_messages(prompt)


@pytest.mark.parametrize(
    "prompt", ["", " \n", [{"role": "user", "content": ""}], [{"role": "user"}, {"role": "system", "content": " "}]]
)
def test_an_empty_prompt_is_refused_wherever_it_goes(prompt: Any) -> None:
    for read in (as_messages, lambda empty: with_schema(empty, True)):
        with pytest.raises(ValueError, match="empty"):
            read(prompt)


def test_a_conversation_may_hold_empty_messages() -> None:
    messages = [{"role": "assistant", "tool_calls": [{}]}, {"role": "user", "content": ""}]
    assert as_messages(messages) == messages


def test_the_form_goes_into_a_system_message() -> None:
    system, user = with_schema("Ada was 36.", {"type": "object", "properties": {"age": {"type": "integer"}}})
    assert system["role"] == "system"
    assert '{"age": integer}' in system["content"]
    assert user == {"role": "user", "content": "Text: Ada was 36."}


def test_a_conversation_of_the_callers_stays_whole() -> None:
    given = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Ada."}]
    system, user = with_schema(given, True)
    assert system["content"].startswith("Be brief.\n\n")
    assert user == given[1]
    assert given[0]["content"] == "Be brief."


def test_a_list_of_numbers_is_tokens() -> None:
    assert is_token_ids([1, 2])
    for prompt in ([], "12", [True], [{"role": "user"}], ["1"]):
        assert not is_token_ids(prompt)
