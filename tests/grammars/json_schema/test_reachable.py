"""Errors far down in a schema are found without a text that leads there."""

from __future__ import annotations

import pytest

from grammars import JsonSchema, SchemaError
from grammars.json_schema import check_reachable, root_value

DEEP = {"type": "object", "properties": {"a": {"items": {"anyOf": [{"type": "null"}, {"type": "nothing"}]}}}}


def test_a_malformed_keyword_is_found_wherever_it_stands() -> None:
    with pytest.raises(SchemaError) as caught:
        check_reachable(root_value(JsonSchema(DEEP)))
    assert caught.value.pointer == "/properties/a/items/anyOf/1"
    assert caught.value.keyword == "type"


def test_a_recursive_schema_is_looked_at_once() -> None:
    assert check_reachable(root_value(JsonSchema({"properties": {"next": {"$ref": "#"}}})))


def test_the_look_ends_after_so_many_positions() -> None:
    wide = {"properties": {f"p{number}": {"type": "string", "maxLength": number} for number in range(50)}}
    assert not check_reachable(root_value(JsonSchema(wide)), most=10)
