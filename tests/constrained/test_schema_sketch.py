from __future__ import annotations

from typing import Any

import pytest

from constrained.schema_sketch import sketch

NODE: dict[str, Any] = {"$ref": "#/$defs/node", "$defs": {"node": {"properties": {"next": {"$ref": "#/$defs/node"}}}}}


@pytest.mark.parametrize(
    ("schema", "form"),
    [
        (True, "any"),
        ({}, "any"),
        ({"type": "string"}, "string"),
        ({"type": "string", "format": "date"}, "date as YYYY-MM-DD"),
        ({"type": "string", "format": "email"}, "email"),
        ({"type": "integer", "minimum": 1, "maximum": 5}, "integer"),
        ({"type": ["string", "null"]}, "string | null"),
        ({"enum": ["a", 1, None]}, '"a" | 1 | null'),
        ({"const": {"a": 1.5}}, '{"a": 1.5}'),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "integer | null"),
        ({"type": "array", "items": {"type": "boolean"}}, "[boolean, ...]"),
        ({"type": "array", "prefixItems": [{"type": "string"}, {}], "items": False}, "[string, any]"),
        ({"type": "object", "properties": {"a": {"type": "null"}}, "additionalProperties": False}, '{"a": null}'),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "{...: integer}"),
        ({"type": "object"}, "{...}"),
        ({"allOf": [{"type": "object", "properties": {"a": {}}}, {"required": ["a"]}]}, '{"a": any}'),
        ({"type": "integer", "description": "year of\n birth"}, "integer (year of birth)"),
        ({"$ref": "other.json"}, "other.json"),
        ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "string"}}}, "string"),
        (NODE, '{"next": ...}'),
    ],
)
def test_a_form_says_what_belongs_where(schema: Any, form: str) -> None:
    assert sketch(schema) == form


def test_long_lists_and_deep_nests_are_cut() -> None:
    assert sketch({"enum": list(range(1000))}).count("|") == 24
    assert sketch({"properties": {f"p{n}": {} for n in range(1000)}}).count("any") == 40
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(200):
        deep = {"type": "array", "items": deep}
    assert len(sketch(deep)) < 100
