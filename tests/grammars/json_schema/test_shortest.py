"""Shortest documents, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from grammars import EmptyLanguage, JsonSchema, LimitExceeded
from grammars.json_schema import root_value, shortest_document, shortest_size
from grammars.json_schema.cheapest import cheapest_string
from grammars.regular import chars, literals, repeat, union


@pytest.mark.parametrize(
    ("schema", "size"),
    [
        (True, 1),
        ({"type": "null"}, 4),
        ({"type": "boolean"}, 4),
        ({"const": False}, 5),
        ({"type": "string"}, 2),
        ({"type": "string", "minLength": 3}, 5),
        ({"type": "string", "pattern": '^"$'}, 4),
        ({"type": "string", "pattern": "^(\\u0001\\u0002|\\u00e9{3})$"}, 8),
        ({"type": "number", "exclusiveMinimum": 9}, 2),
        ({"enum": ["abcdef", 12345]}, 5),
        ({"type": "array"}, 2),
        ({"type": "array", "minItems": 3}, 7),
        ({"type": "array", "minItems": 2, "prefixItems": [{"type": "null"}]}, 8),
        ({"type": "array", "minItems": 4, "uniqueItems": True, "items": {"type": "integer", "minimum": 8}}, 11),
        ({"type": "array", "minItems": 2, "uniqueItems": True, "items": {"type": "integer"},
          "prefixItems": [{"enum": [1, 100]}, {"enum": [1, 2000]}]}, 7),
        ({"type": "array", "items": {"minimum": 3, "type": "integer"}, "contains": {"const": 50}, "minContains": 2}, 7),
        ({"type": "array", "items": {"minimum": 10, "type": "integer"}, "not": {"uniqueItems": True}}, 7),
        ({"type": "array", "prefixItems": [{"type": "null"}], "contains": {"const": 7}}, 8),
        ({"type": "object"}, 2),
        ({"type": "object", "required": ["a", "b"]}, 13),
        ({"type": "object", "minProperties": 2}, 12),
        ({"type": "object", "minProperties": 1, "properties": {"key": {"const": 1}},
          "additionalProperties": {"type": "null"}}, 9),
        ({"type": "object", "not": {"additionalProperties": {"type": "number"}}}, 7),
        ({"oneOf": [{"type": "integer", "minimum": 100}, {"type": "array", "minItems": 2, "items": {"$ref": "#"}}]}, 3),
        ({"type": "array", "minItems": 10_000, "items": {"type": "integer"}}, 20_001),
    ],
)  # fmt: skip
def test_sizes(schema: Any, size: int) -> None:
    value = root_value(JsonSchema(schema))
    assert shortest_size(value) == size
    assert len(shortest_document(value)) == size


def test_properties_stand_in_the_order_of_the_schema() -> None:
    schema = {"properties": {"b": {"type": "null"}, "a": {"const": 1}}, "required": ["z", "a", "b"], "type": "object"}
    assert shortest_document(root_value(JsonSchema(schema))) == b'{"b":null,"a":1,"z":0}'


def test_an_empty_value_has_no_shortest_document() -> None:
    value = root_value(JsonSchema(False))
    assert shortest_size(value) is None
    with pytest.raises(EmptyLanguage):
        shortest_document(value)


def test_a_size_is_known_even_where_nobody_could_write_the_document() -> None:
    definitions: dict[str, Any] = {
        f"d{n}": {"type": "array", "minItems": 2, "items": {"$ref": f"#/$defs/d{n + 1}"}} for n in range(80)
    }
    value = root_value(JsonSchema({"$ref": "#/$defs/d0", "$defs": {**definitions, "d80": {"type": "integer"}}}))
    # s(0) = 1, s(n + 1) = 2 s(n) + 3
    assert shortest_size(value) == 4 * 2**80 - 3
    with pytest.raises(LimitExceeded):
        shortest_document(value)


def test_cheap_strings_avoid_escapes_and_long_characters() -> None:
    assert cheapest_string(literals(["\x01", "ab", "é"])) == "é"
    assert len(cheapest_string(repeat(chars([(0, 0x10FFFF)]), 2, None)).encode()) == 2
    assert cheapest_string(union(repeat(chars([(0x01, 0x01)]), 2, 2), repeat(chars([(0xE9, 0xE9)]), 3, 3))) == "ééé"
