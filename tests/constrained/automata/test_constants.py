"""Constants and how many a value has."""

from __future__ import annotations

import pytest

from constrained.automata.constants import has_more
from grammars import JsonSchema
from grammars.json_schema import root_value


@pytest.mark.parametrize("format_name", ["email", "idn-email", "hostname", "uri", "regex", "date-time"])
def test_formats_have_many_texts_which_is_told_without_looking_for_the_longest(format_name: str) -> None:
    assert has_more(root_value(JsonSchema({"type": "string", "format": format_name})), 100)


def test_a_few_words_are_counted() -> None:
    value = root_value(JsonSchema({"type": "string", "pattern": "^[ab]{2}$"}))
    assert has_more(value, 3)
    assert not has_more(value, 4)
