"""The look at a subschema's text alone: what it calls inhabited, the whole decision calls so too."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grammars import JsonSchema
from grammars.errors import SchemaError
from grammars.json_schema import root_value
from grammars.json_schema.sure_instances import SureInstances

Schema = dict[str, Any] | bool
TYPES = ["null", "string", "object", "array", ["object"], ["object", "integer"]]


def some(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    names = st.sampled_from(["a", "b"])
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "type": st.sampled_from(TYPES), "required": st.lists(names, max_size=2, unique=True),
        "properties": st.dictionaries(names, inner, max_size=2), "additionalProperties": inner,
        "patternProperties": st.dictionaries(st.just("^a"), inner, max_size=1), "maxProperties": st.integers(0, 1),
        "anyOf": st.lists(inner, min_size=1, max_size=2), "enum": st.lists(st.sampled_from(["x", 1, {}]), min_size=1, max_size=2),
        "$ref": st.sampled_from(["#", "#/$defs/one", "#/$defs/none"]), "items": inner, "minItems": st.just(1),
    }  # fmt: skip
    return st.lists(st.sampled_from(list(keywords)), max_size=3, unique=True).flatmap(
        lambda chosen: st.fixed_dictionaries({name: keywords[name] for name in chosen})
    )


SCHEMAS = st.recursive(st.booleans(), some, max_leaves=6).filter(lambda schema: isinstance(schema, dict))


def surely(schema: Schema) -> bool:
    return root_value(JsonSchema(schema)).surely_inhabited()


@settings(max_examples=500, deadline=None)
@given(SCHEMAS, SCHEMAS, st.sampled_from(["http://json-schema.org/draft-07/schema#", None]))
def test_what_is_surely_inhabited_is_inhabited(schema: dict[str, Any], one: dict[str, Any], draft: str | None) -> None:
    whole = {**schema, "$defs": {"one": one, "none": False}, **({} if draft is None else {"$schema": draft})}
    try:
        sure = surely(whole)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SureInstances, "has", lambda *_: False)
            empty = root_value(JsonSchema(whole)).is_empty()
    except SchemaError as error:
        assert "refers to itself" in str(error)
        return
    assert not (sure and empty)


@pytest.mark.parametrize(
    ("schema", "sure"),
    [
        ({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}, True),
        ({"type": "object", "required": ["a"], "additionalProperties": False}, False),
        ({"type": ["object", "null"], "required": ["a"], "additionalProperties": False}, True),
        ({"type": "object", "required": ["a"], "patternProperties": {"^a": False}}, False),
        ({"type": "object", "required": ["a"], "maxProperties": 0}, False),
        ({"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}}, False),
        ({"type": 5, "required": ["a"]}, False),
        ({"type": "object", "required": {"a": 1}}, False),
        ({"type": "object", "required": ["a"], "properties": ["a"]}, False),
        ({"anyOf": {"a": True}}, False),
        ({"$ref": 5}, False),
        ({"anyOf": [False, {"maxLength": 3}]}, True),
        ({"anyOf": [False, {"maxLength": 3}], "type": "object"}, False),
        ({"$ref": "#/$defs/one", "$defs": {"one": {"type": "array"}}}, True),
        ({"$ref": "#/$defs/one", "type": "object", "$defs": {"one": {"type": "array"}}}, False),
        ({"$ref": "#/$defs/two", "$defs": {"one": {"type": "array"}}}, False),
        ({"$ref": "#/$defs/one", "$defs": {"one": {"$id": "http://e.org", "$schema": "http://e.org/d", "type": "array"}}}, False),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_told_by_the_text_alone(schema: Schema, sure: bool) -> None:
    assert surely(schema) == sure


def test_a_chain_of_references_is_not_followed_for_ever() -> None:
    around = {f"d{number}": {"$ref": f"#/$defs/d{(number + 1) % 50}"} for number in range(50)}
    assert not surely({"$ref": "#/$defs/d0", "$defs": around})
