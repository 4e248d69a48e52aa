"""Whether anything satisfies a schema: contradictions, counts, distinct items, recursion."""

from __future__ import annotations

from typing import Any

import pytest

from grammars import EmptyLanguage, JsonSchema
from grammars.json_schema import check_root, root_value

LIST = {"type": "object", "properties": {"next": {"$ref": "#/$defs/list"}}, "required": ["next"]}

EMPTY: list[Any] = [
    False,
    {"not": {}},
    {"enum": []},
    {"type": "string", "enum": [1, 2]},
    {"type": "string", "minLength": 3, "maxLength": 2},
    {"type": "string", "pattern": "^a", "maxLength": 0},
    {"allOf": [{"type": "string"}, {"type": "number"}]},
    {"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2},
    {"type": "integer", "minimum": 1, "maximum": 4, "multipleOf": 5},
    {"type": "object", "required": ["a"], "additionalProperties": False},
    {"type": "object", "required": ["a"], "propertyNames": {"maxLength": 0}},
    {"type": "object", "required": ["a"], "properties": {"a": False}},
    {"type": "object", "required": ["a", "b"], "maxProperties": 1},
    {"type": "object", "minProperties": 2, "properties": {"a": {}}, "additionalProperties": False},
    {"type": "object", "minProperties": 3, "propertyNames": {"enum": ["a", "b"]}},
    {"type": "object", "minProperties": 2, "properties": {"a": {}, "b": {"allOf": [{"type": "null"}, {"const": 1}]}},
     "additionalProperties": False},
    {"type": "object", "minProperties": 1, "additionalProperties": {"$ref": "#/$defs/list"}, "$defs": {"list": LIST}},
    {"type": "array", "minItems": 1, "items": False},
    {"type": "array", "minItems": 2, "prefixItems": [{}, False]},
    {"type": "array", "minItems": 4, "uniqueItems": True, "items": {"enum": [1, 2, 3, 1.0]}},
    {"type": "array", "minItems": 3, "uniqueItems": True, "items": {"type": "boolean"}},
    {"type": "array", "minItems": 3, "uniqueItems": True, "prefixItems": [{"enum": [1, 2]}, {"enum": [1, 2]}],
     "items": {"enum": [1, 2]}},
    {"type": "array", "contains": {"type": "null"}, "items": {"type": "string"}},
    {"type": "array", "contains": {"type": "null"}, "maxItems": 0},
    {"type": "array", "contains": {"const": 1}, "minContains": 2, "uniqueItems": True},
    {"type": "array", "contains": {"const": 1}, "minContains": 2, "prefixItems": [{"const": 0}], "maxItems": 2},
    {"type": "array", "items": {"const": 1}, "minItems": 3, "contains": {"const": 1}, "maxContains": 2},
    {"type": "array", "contains": {"const": 2}, "uniqueItems": True, "prefixItems": [{"const": 1}, {"const": 1}]},
    {"$ref": "#/$defs/list", "$defs": {"list": LIST}},
    {"type": "array", "minItems": 1, "items": {"$ref": "#"}},
    {"type": "array", "uniqueItems": True, "minItems": 2, "items": {"$ref": "#"}},
    {"type": "object", "not": {"additionalProperties": True}},
    {"type": "object", "additionalProperties": {"type": "string"}, "not": {"additionalProperties": {"type": "string"}}},
    {"oneOf": [{"type": "number"}, {"type": "integer"}, {"not": {"type": "integer"}}], "type": "number",
     "minimum": 0.25, "maximum": 0.75},
    {"if": {"type": "string"}, "then": False, "else": {"type": "string"}},
    {"type": "object", "required": ["a"], "dependentRequired": {"a": ["b"]}, "properties": {"b": False}},
    {"type": "object", "required": ["a"], "unevaluatedProperties": False, "anyOf": [{"properties": {"b": {}}}]},
]  # fmt: skip

INHABITED: list[Any] = [
    True,
    {"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 3},
    {"type": "object", "required": ["a"], "propertyNames": {"maxLength": 1}},
    {"type": "object", "minProperties": 2, "propertyNames": {"enum": ["a", "b"]}},
    {"type": "array", "minItems": 3, "uniqueItems": True, "items": {"enum": [1, 2, 3, 1.0]}},
    {"type": "array", "minItems": 2, "uniqueItems": True, "prefixItems": [{"enum": [1, 2]}, {"enum": [1]}]},
    {"type": "array", "minItems": 3, "uniqueItems": True,
     "items": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#/items"}, "uniqueItems": True}]}},
    {"type": "array", "contains": {"const": 1}, "minContains": 2, "prefixItems": [{"const": 0}], "maxItems": 3},
    {"type": "array", "items": {"$ref": "#"}},
    {"type": "object", "properties": {"next": {"$ref": "#"}}},
    {"type": "object", "properties": {"a": False}},
    {"type": "object", "additionalProperties": {"type": "string"}, "not": {"additionalProperties": {"const": "a"}}},
    {"$ref": "#/$defs/t", "$defs": {"t": {"anyOf": [{"type": "null"}, {"type": "array", "minItems": 2,
                                                                      "items": {"$ref": "#/$defs/t"}}]}}},
    {"type": "object", "unevaluatedProperties": False, "required": ["a"], "anyOf": [{"properties": {"a": {}}}]},
]  # fmt: skip


@pytest.mark.parametrize("schema", EMPTY, ids=str)
def test_contradictions_are_empty(schema: Any) -> None:
    value = root_value(JsonSchema(schema))
    assert value.is_empty()
    shapes = value.alternatives()
    assert not (shapes.literals or shapes.arrays or shapes.objects)
    with pytest.raises(EmptyLanguage):
        check_root(value)


@pytest.mark.parametrize("schema", INHABITED, ids=str)
def test_what_has_a_document_is_not_empty(schema: Any) -> None:
    value = root_value(JsonSchema(schema))
    assert not value.is_empty()
    check_root(value)


def test_shapes_without_instances_are_dropped_from_a_union() -> None:
    schema = {"anyOf": [{"type": "array", "items": False, "minItems": 1}, {"$ref": "#/$defs/list"}, {"type": "null"}],
              "$defs": {"list": LIST}}  # fmt: skip
    shapes = root_value(JsonSchema(schema)).alternatives()
    assert shapes.literals == {"null"}
    assert not shapes.arrays
    assert not shapes.objects


def test_mutual_recursion_is_empty_unless_someone_can_stop() -> None:
    def pair(last: Any) -> dict[str, Any]:
        return {
            "$ref": "#/$defs/a",
            "$defs": {
                "a": {"type": "object", "required": ["b"], "properties": {"b": {"$ref": "#/$defs/b"}}},
                "b": {"type": "array", "minItems": 1, "items": {"anyOf": [{"$ref": "#/$defs/a"}, last]}},
            },
        }

    assert root_value(JsonSchema(pair(False))).is_empty()
    assert not root_value(JsonSchema(pair({"type": "null"}))).is_empty()


def test_the_message_names_the_innermost_contradiction() -> None:
    schema = {"type": "object", "required": ["a", "b"], "properties": {"a": {}, "b": {
        "type": "array", "minItems": 1, "items": {"type": "string", "minLength": 2, "maxLength": 1}}}}  # fmt: skip
    with pytest.raises(EmptyLanguage) as caught:
        check_root(root_value(JsonSchema(schema)))
    assert caught.value.pointer == "/properties/b/items"


def test_optional_properties_are_not_looked_into() -> None:
    properties = {"a": {"$ref": "http://nowhere/"}, "b": {"type": "null"}}
    schema = {"type": "object", "properties": properties, "required": ["b"]}
    assert not root_value(JsonSchema(schema)).is_empty()


def test_long_chains_of_required_properties_are_decided() -> None:
    chain: dict[str, Any] = {
        f"d{n}": {"type": "object", "required": ["x"], "properties": {"x": {"$ref": f"#/$defs/d{n + 1}"}}}
        for n in range(3_000)
    }
    for last, empty in (({"type": "null"}, False), (False, True)):
        schema = {"$ref": "#/$defs/d0", "$defs": chain | {"d3000": last}}
        assert root_value(JsonSchema(schema)).is_empty() == empty


@pytest.mark.parametrize(
    "schema",
    [
        {"enum": [[None]], "items": False},
        {"enum": [{"a": 1}], "properties": {"a": False}},
        {"enum": ["\ud800"]},
        {"type": "string", "enum": ["\udc00", 1]},
    ],
)
def test_a_listed_value_that_other_keywords_forbid_is_no_instance(schema: dict[str, Any]) -> None:
    value = root_value(JsonSchema({"type": "object", "properties": {"x": schema}, "required": ["x"]}))
    assert value.is_empty()
    assert root_value(JsonSchema(schema)).is_empty()
