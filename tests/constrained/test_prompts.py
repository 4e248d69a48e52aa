from __future__ import annotations

from typing import Any

import pytest

from constrained.prompts import as_messages, compact_schema, with_schema, with_tools
from constrained.tools import read_tools


def test_a_text_is_one_user_message() -> None:
    assert as_messages("hello") == [{"role": "user", "content": "hello"}]


@pytest.mark.parametrize(
    ("prompt", "error"), [([], ValueError), ([{"content": "x"}], ValueError), (3, TypeError), (["x"], TypeError)]
)
def test_what_is_no_prompt_is_refused(prompt: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        as_messages(prompt)


def test_the_schema_goes_into_a_system_message() -> None:
    system, user = with_schema("Ada was 36.", {"title": "Person", "type": "object"})
    assert system["role"] == "system"
    assert '{"type": "object"}' in system["content"]
    assert user == {"role": "user", "content": "Ada was 36."}


def test_a_system_message_of_the_callers_stays_first_and_whole() -> None:
    given = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Ada."}]
    messages = with_schema(given, True)
    assert len(messages) == 2
    assert messages[0]["content"].startswith("Be brief.\n\n")
    assert given[0]["content"] == "Be brief."


def test_annotations_are_left_out_but_properties_of_those_names_stay() -> None:
    schema = {
        "$schema": "x",
        "title": "T",
        "properties": {
            "title": {"type": "string", "title": "Title", "description": "kept"},
            "default": {"const": {"title": 1}},
        },
        "$defs": {"title": {"enum": [{"default": 1}]}},
        "default": 3,
    }
    assert compact_schema(schema) == (
        '{"properties": {"title": {"type": "string", "description": "kept"}, "default": {"const": {"title": 1}}}, '
        '"$defs": {"title": {"enum": [{"default": 1}]}}}'
    )


def test_tools_are_described_by_name_purpose_and_parameters() -> None:
    tools = read_tools([{"name": "now", "description": "The time."}])
    content = with_tools("What time is it?", tools)[0]["content"]
    assert '"name": "now"' in content
    assert "The time." in content
