"""What keywords are at their places: assertions, or annotations and why."""

from __future__ import annotations

from typing import Any

import pytest

from grammars import JsonSchema
from grammars.json_schema import Roles, roles

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"


def at(schema: Any, pointer: str = "", **options: Any) -> Roles:
    return next(place for place in roles(JsonSchema(schema, **options)) if place.pointer == pointer)


def test_assertions_and_annotations_are_told_apart() -> None:
    found = at({"title": "T", "type": "object", "x": 1, "$comment": "", "default": {}, "required": ["a"]})
    assert found == Roles("", ("type", "required"), (("title", ""), ("x", ""), ("$comment", ""), ("default", "")))


@pytest.mark.parametrize(
    ("schema", "keyword", "reason"),
    [
        ({"$schema": DRAFT_7, "$ref": "#", "type": "object"}, "type", "ignored beside $ref in draft 7"),
        ({"$schema": DRAFT_7, "dependentRequired": {}}, "dependentRequired", "not a keyword of draft 7"),
        ({"$schema": DRAFT_2020, "additionalItems": False}, "additionalItems", "not a keyword of draft 2020-12"),
        ({"format": "phone"}, "format", "'phone' is not known"),
        ({"then": False}, "then", "without if"),
        ({"if": {"type": "null"}}, "if", "without then and else"),
        ({"exclusiveMinimum": True}, "exclusiveMinimum", "without minimum"),
        ({"minContains": 2}, "minContains", "without contains"),
        ({"additionalItems": False, "items": {}}, "additionalItems", "items is no list"),
    ],
)
def test_an_annotation_that_may_surprise_has_a_reason(schema: dict[str, Any], keyword: str, reason: str) -> None:
    found = at(schema)
    assert keyword not in found.asserted
    assert dict(found.annotations)[keyword] == reason


def test_subschemas_of_keywords_that_say_nothing_are_not_listed() -> None:
    schema = {
        "$schema": DRAFT_7,
        "$ref": "#/definitions/a",
        "not": {"minimum": 1},
        "definitions": {"a": {"then": {"const": 1}}},
    }
    assert [place.pointer for place in roles(JsonSchema(schema))] == ["", "/definitions/a"]


def test_formats_are_what_the_option_makes_of_them() -> None:
    schema = {"$schema": DRAFT_2020, "format": "date"}
    assert at(schema).asserted == ("format",)
    assert dict(at(schema, formats="declared").annotations)["format"] == "by draft 2020-12"
    assert dict(at({"format": "date"}, formats="annotate").annotations)["format"] == 'formats="annotate"'
    assert at({"format": "date"}).asserted == ("format",)


def test_every_place_is_named_in_the_order_of_the_document_and_by_its_own_draft() -> None:
    schema = {
        "properties": {"a/b": {"items": [{"minimum": 1}, True]}},
        "$defs": {"old": {"$id": "old", "$schema": DRAFT_7, "unevaluatedProperties": {"type": "null"}}},
        "not": {"const": 1},
    }
    places = [place.pointer for place in roles(JsonSchema(schema))]
    assert places == ["", "/properties/a~1b", "/properties/a~1b/items/0", "/$defs/old", "/not"]
    assert at(schema, "/$defs/old").asserted == ()


def test_a_boolean_schema_has_no_keywords() -> None:
    assert list(roles(JsonSchema(True))) == []
