"""References: pointers, anchors, bases, dynamic scope, remote documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from grammars import JsonSchema, SchemaError
from grammars.json_schema import root_value

Accepts = Callable[..., bool]
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/x~1y~0z%25", "$defs": {"x/y~z%": {"type": "null"}}},
        {"$ref": "#there", "$defs": {"a": {"$anchor": "there", "type": "null"}}},
        {"$id": "http://h/root.json", "$ref": "sub/one.json", "$defs": {"a": {"$id": "sub/one.json", "type": "null"}}},
        {"$id": "http://h/root.json", "$ref": "one.json#/$defs/b",
         "$defs": {"a": {"$id": "one.json", "$defs": {"b": {"type": "null"}}}}},
        {"$id": "urn:example:root", "$ref": "#/$defs/a", "$defs": {"a": {"type": "null"}}},
        {"$id": "http://h/r", "$ref": "#/$defs/a/$defs/b",
         "$defs": {"a": {"$id": "http://h/a", "$defs": {"b": {"$ref": "#/$defs/c"}, "c": {"type": "null"}}}}},
        {"id": "http://h/r", "$ref": "#named", "definitions": {"a": {"id": "#named", "type": "null"}}},
        {"$ref": "#/allOf/0", "allOf": [{"type": "null"}]},
        {"$ref": "#/components/schemas/A", "components": {"schemas": {"A": {"type": "null"}}}},
    ],
)  # fmt: skip
def test_references_lead_to_their_target(accepts: Accepts, schema: dict[str, Any]) -> None:
    assert accepts(schema, None)
    assert not accepts(schema, 3)


def test_remote_documents_come_from_resources_only(accepts: Accepts) -> None:
    schema = {"$ref": "http://h/other.json#/$defs/a"}
    with pytest.raises(SchemaError, match=r"http://h/other\.json") as caught:
        root_value(JsonSchema(schema)).alternatives()
    assert (caught.value.pointer, caught.value.keyword) == ("", "$ref")
    resources = {"http://h/other.json": {"$defs": {"a": {"$ref": "third.json"}}}, "http://h/third.json": False}
    assert not accepts(schema, None, resources=resources)
    resources["http://h/third.json"] = {"type": "null"}
    assert accepts(schema, None, resources=resources)
    assert not accepts(schema, 1, resources=resources)


def test_an_id_inside_a_resource_that_nobody_read_yet_is_found(accepts: Accepts) -> None:
    resources = {"http://h/box": {"$defs": {"a": {"$id": "http://elsewhere/a", "type": "null"}}}}
    assert accepts({"$ref": "http://elsewhere/a"}, None, resources=resources)


def test_metaschemas_are_at_hand(accepts: Accepts) -> None:
    schema = {"$ref": DRAFT_2020}
    assert accepts(schema, {"type": "string", "$defs": {"a": {"minLength": 3}}})
    assert not accepts(schema, {"$defs": {"a": {"minLength": -3}}})
    assert not accepts({"$ref": "http://json-schema.org/draft-07/schema#"}, {"items": [3]})


def test_dynamic_references_meet_the_outermost_anchor(accepts: Accepts) -> None:
    tree = {
        "$schema": DRAFT_2020, "$id": "http://h/tree", "$dynamicAnchor": "node", "type": "object",
        "properties": {"data": True, "children": {"type": "array", "items": {"$dynamicRef": "#node"}}},
    }  # fmt: skip
    strict = {
        "$schema": DRAFT_2020, "$id": "http://h/strict", "$dynamicAnchor": "node", "$ref": "tree",
        "unevaluatedProperties": False,
    }  # fmt: skip
    assert accepts(strict, {"children": [{"data": 1}]}, resources={"http://h/tree": tree})
    assert not accepts(strict, {"children": [{"daat": 1}]}, resources={"http://h/tree": tree})
    assert accepts(tree, {"children": [{"daat": 1}]})


def test_recursive_references_meet_the_outermost_recursive_anchor(accepts: Accepts) -> None:
    draft = "https://json-schema.org/draft/2019-09/schema"
    tree = {
        "$schema": draft, "$id": "http://h/tree", "$recursiveAnchor": True, "type": "object",
        "properties": {"data": True, "children": {"type": "array", "items": {"$recursiveRef": "#"}}},
    }  # fmt: skip
    strict = {
        "$schema": draft, "$id": "http://h/strict", "$recursiveAnchor": True, "$ref": "tree",
        "unevaluatedProperties": False,
    }  # fmt: skip
    assert not accepts(strict, {"children": [{"daat": 1}]}, resources={"http://h/tree": tree})
    assert accepts(tree, {"children": [{"daat": 1}]})


def test_nested_schemas_with_an_id_may_point_from_the_document_root(accepts: Accepts) -> None:
    nested = {"id": "schema/a", "properties": {"b": {"$ref": "#/definitions/b"}}}
    schema = {
        "properties": {"a": {"$ref": "#/definitions/a"}},
        "definitions": {"a": nested, "b": {"type": "null"}},
    }
    assert accepts(schema, {"a": {"b": None}})
    assert not accepts(schema, {"a": {"b": 1}})


@pytest.mark.parametrize("reference", ["#/$defs/none", "#none", "#/items/7", "#/type/x"])
def test_a_reference_to_nothing_is_named(reference: str) -> None:
    schema = {"properties": {"a": {"$ref": reference}}, "required": ["a"], "items": [True], "type": "object"}
    with pytest.raises(SchemaError, match="leads to nothing") as caught:
        root_value(JsonSchema(schema)).is_empty()
    assert (caught.value.pointer, caught.value.keyword) == ("/properties/a", "$ref")


@pytest.mark.parametrize("schema", [{"$ref": "#"}, {"anyOf": [{"$ref": "#"}, True]}, {"not": {"$ref": "#"}}])
def test_a_schema_that_is_itself_in_place_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match="refers to itself"):
        root_value(JsonSchema(schema)).alternatives()


def test_only_what_is_asked_for_is_looked_at() -> None:
    schema = {
        "properties": {"good": {"type": "null"}, "bad": {"$ref": "#/definitions/bad"}},
        "definitions": {"bad": {"$ref": "http://nowhere/", "minLength": "x"}},
    }
    shape = root_value(JsonSchema(schema)).alternatives().objects[0]
    good, bad = (prop.value for prop in shape.properties)
    assert good.alternatives().literals == {"null"}
    with pytest.raises(SchemaError):
        bad.alternatives()
