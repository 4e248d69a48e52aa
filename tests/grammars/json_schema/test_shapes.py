"""What shapes look like: order, sharing, keys, malformed keywords, options."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from grammars import JsonSchema, LimitExceeded, SchemaError, UnsupportedFeature
from grammars.json_schema import FormatWarning, ObjectShape, Value, root_value
from grammars.json_schema.algebra import EVERYTHING
from grammars.regular import ALL, is_subset, matches

Accepts = Callable[..., bool]


def root(schema: Any, **options: Any) -> Value:
    return root_value(JsonSchema(schema, **options))


def only_object(schema: Any) -> ObjectShape:
    (shape,) = root(schema).alternatives().objects
    return shape


def names(shape: ObjectShape) -> list[str]:
    return [prop.name for prop in shape.properties]


def test_declared_properties_come_first_then_names_that_are_only_required() -> None:
    assert names(only_object({"required": ["z", "b"], "properties": {"b": {}, "a": {}}})) == ["b", "a", "z"]


def test_names_that_one_subschema_asks_for_and_another_declares_stand_where_they_are_declared() -> None:
    file = {"properties": {"name": {}}, "required": ["name", "type", "extra"]}
    owner, kind = {"properties": {"user": {}}}, {"properties": {"mode": {}, "type": {}}}
    assert names(only_object({"allOf": [file, owner, kind]})) == ["name", "user", "mode", "type", "extra"]
    assert names(only_object({"allOf": [kind, owner, file]})) == ["mode", "type", "user", "name", "extra"]
    shape = only_object({"required": ["type"], "$ref": "#/$defs/kind", "$defs": {"kind": kind}})
    assert [(prop.name, prop.required) for prop in shape.properties] == [("mode", False), ("type", True)]


def test_required_names_go_behind_what_other_subschemas_declare() -> None:
    schema = {"required": ["z", "b"], "properties": {"c": {}}, "allOf": [{"properties": {"a": {}, "b": {}}}]}
    shape = only_object(schema)
    assert names(shape) == ["c", "a", "b", "z"]
    assert [prop.required for prop in shape.properties] == [False, False, True, True]


def test_the_empty_schema_is_everything() -> None:
    assert root({}).alternatives() == root(True).alternatives() == EVERYTHING
    assert root({"title": "x", "x-unknown": 3}).alternatives() == EVERYTHING


def test_groups_of_keys_are_disjoint() -> None:
    schema = {
        "patternProperties": {"^a": {"type": "null"}, "b$": {"type": "boolean"}, "^.$": {}},
        "additionalProperties": {"type": "string"},
    }
    groups = only_object(schema).groups
    for index, group in enumerate(groups):
        for other in groups[index + 1 :]:
            assert not any(matches(group.names, word) and matches(other.names, word) for word in ("", "a", "b", "ab"))
    for word in ("", "a", "b", "ab", "ax", "xb", "xy"):
        assert sum(matches(group.names, word) for group in groups) == 1


def test_a_closed_object_has_no_groups() -> None:
    assert only_object({"properties": {"a": {}}, "additionalProperties": False}).groups == ()


def test_property_names_forbid_declared_keys_too(accepts: Accepts) -> None:
    schema = {"properties": {"abc": {}}, "propertyNames": {"maxLength": 2}}
    assert not accepts(schema, {"abc": 1})
    assert accepts(schema, {"ab": 1})


def test_equal_small_subschemas_are_one_position_across_schemas() -> None:
    first = only_object({"properties": {"a": {"type": "string", "maxLength": 3, "title": "one"}, "b": {"$ref": "#"}}})
    second = only_object({"properties": {"x": {"title": "two", "type": "string", "maxLength": 3}}})
    assert first.properties[0].value is second.properties[0].value


def test_positions_in_schemas_of_different_drafts_are_apart() -> None:
    new = only_object({"properties": {"a": {"const": 3}}})
    old = only_object({"$schema": "http://json-schema.org/draft-04/schema#", "properties": {"a": {"const": 3}}})
    assert new.properties[0].value is not old.properties[0].value
    assert old.properties[0].value.alternatives() == EVERYTHING


def test_one_subschema_is_one_position() -> None:
    schema = {
        "properties": {"a": {"$ref": "#/definitions/x"}, "b": {"$ref": "#/definitions/x"}},
        "definitions": {"x": {"properties": {"y": {"$ref": "#"}}, "required": ["y"], "type": "object"}},
    }
    a, b = (prop.value.alternatives().objects[0].properties[0].value for prop in only_object(schema).properties)
    assert a is b


def test_disjoint_branches_of_one_of_cost_no_complement() -> None:
    kinds = ["circle", "square", "line"]
    branches = [
        {"type": "object", "properties": {"kind": {"const": kind}, "size": {"type": "number"}}, "required": ["kind"]}
        for kind in kinds
    ]
    assert len(root({"oneOf": branches}).alternatives().objects) == 3


def test_an_enum_holds_values_of_all_types(accepts: Accepts) -> None:
    schema = {"enum": [None, True, 1, "x", [1, {"a": 2.0}], {"b": []}]}
    for document in (None, True, 1, 1.0, "x", [1.0, {"a": 2}], {"b": []}):
        assert accepts(schema, document)
    for document in (False, 2, "y", [1], [1, {"a": True}], {"b": [], "c": 1}, {}):
        assert not accepts(schema, document)


def test_strings_are_measured_in_code_points(accepts: Accepts) -> None:
    assert accepts({"type": "string", "maxLength": 1}, "😀")
    assert not accepts({"type": "string", "minLength": 2}, "😀")


def test_lone_lengths_are_plain_repeats() -> None:
    string = root({"type": "string", "minLength": 2}).alternatives().string
    assert is_subset(string, ALL)
    assert not matches(string, "a")
    assert matches(string, "ab")


@pytest.mark.parametrize(
    ("schema", "pointer", "keyword"),
    [
        ({"type": "strin"}, "", "type"),
        ({"type": []}, "", "type"),
        ({"items": {"minLength": -1, "pattern": "a"}, "type": "array", "minItems": 1}, "/items", "minLength"),
        ({"minItems": 1.5}, "", "minItems"),
        ({"required": "a"}, "", "required"),
        ({"required": [1]}, "", "required"),
        ({"properties": []}, "", "properties"),
        ({"properties": {"a/b": 3}}, "/properties/a~1b", None),
        ({"allOf": []}, "", "allOf"),
        ({"oneOf": {}}, "", "oneOf"),
        ({"anyOf": [True, 3]}, "/anyOf/1", None),
        ({"enum": "a"}, "", "enum"),
        ({"pattern": "("}, "", "pattern"),
        ({"pattern": 3}, "", "pattern"),
        ({"patternProperties": {"[": {}}}, "", "patternProperties"),
        ({"minimum": "1"}, "", "minimum"),
        ({"maximum": True}, "", "maximum"),
        ({"multipleOf": 0}, "", "multipleOf"),
        ({"dependentRequired": {"a": "b"}}, "", "dependentRequired"),
        ({"uniqueItems": "yes"}, "", "uniqueItems"),
        ({"format": 3}, "", "format"),
        ({"$ref": 3}, "", "$ref"),
    ],
)
def test_malformed_keywords_are_named(schema: dict[str, Any], pointer: str, keyword: str | None) -> None:
    with pytest.raises(SchemaError) as caught:
        root(schema).is_empty()
        root(schema).alternatives()
    assert (caught.value.pointer, caught.value.keyword) == (pointer, keyword)


def test_malformed_keywords_are_errors_at_every_place_that_has_them() -> None:
    for place in ("a", "b"):
        value = only_object({"properties": {place: {"type": "strin"}}}).properties[0].value
        with pytest.raises(SchemaError) as caught:
            value.alternatives()
        assert caught.value.pointer == f"/properties/{place}"


def test_whole_numbers_with_a_fraction_count_as_lengths(accepts: Accepts) -> None:
    assert accepts({"maxLength": 2.0}, "ab")
    assert not accepts({"maxLength": 2.0}, "abc")


def test_an_unknown_format_warns_or_is_refused() -> None:
    with pytest.warns(FormatWarning, match="phone"):
        assert root({"type": "string", "format": "phone"}).alternatives().string is ALL
    with pytest.raises(UnsupportedFeature) as caught:
        root({"type": "string", "format": "phone"}, formats="strict").alternatives()
    assert (caught.value.pointer, caught.value.keyword) == ("", "format")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert root({"type": "string", "format": "phone"}, formats="annotate").alternatives().string is ALL


def test_formats_are_asserted_or_annotated(accepts: Accepts) -> None:
    schema = {"properties": {"a": {"type": "string", "format": "date"}}}
    assert not accepts(schema, {"a": "today"})
    assert accepts(schema, {"a": "today"}, formats="annotate")


def test_too_many_combinations_are_a_limit_with_a_place() -> None:
    def branch(letter: str) -> dict[str, Any]:
        return {"properties": {f"{letter}{n}": {"type": "string"} for n in range(6)}}

    schema = {"properties": {"x": {"oneOf": [branch(letter) for letter in "abcdefgh"]}}}
    value = only_object(schema).properties[0].value
    with pytest.raises(LimitExceeded) as caught:
        value.alternatives()
    assert caught.value.pointer == "/properties/x"


def test_long_chains_of_references_are_a_limit() -> None:
    definitions = {f"d{n}": {"$ref": f"#/definitions/d{n + 1}"} for n in range(400)} | {"d400": {}}
    with pytest.raises(LimitExceeded):
        root({"$ref": "#/definitions/d0", "definitions": definitions}).alternatives()


def _branch(constants: list[Any], more: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": ["kind"], "properties": {"kind": {"enum": constants}, **more}}


def test_branches_that_share_a_discriminator_are_told_apart_and_others_left_alone(accepts: Accepts) -> None:
    branches = [_branch([f"k{n}", n, None if n == 3 else f"only {n}"], {}) for n in range(12)]
    branches.append(_branch(["k5", 7, None], {"more": {"type": "string"}}))
    schema = {"oneOf": branches}
    assert accepts(schema, {"kind": "k4"}) and accepts(schema, {"kind": 4.0}) and accepts(schema, {"kind": "only 5"})
    assert not accepts(schema, {"kind": "k5"}) and not accepts(schema, {"kind": 7, "more": ""})
    assert accepts(schema, {"kind": "k5", "more": 1}) and accepts(schema, {"kind": 7, "more": 1})
    assert not accepts(schema, {"kind": None}) and not accepts(schema, {"kind": "k99"})


def test_branches_without_a_required_discriminator_are_compared_one_by_one(accepts: Accepts) -> None:
    branches: list[dict[str, Any]] = [_branch([f"k{n}"], {}) for n in range(8)]
    branches.append({"type": "object", "required": ["other"], "properties": {"kind": {"const": "k2"}}})
    schema = {"oneOf": branches}
    assert accepts(schema, {"kind": "k2"}) and accepts(schema, {"other": 1})
    assert not accepts(schema, {"kind": "k2", "other": 1})
    assert accepts(schema, {"kind": "k3", "other": 1})
