"""Where the drafts differ, and how a schema without a draft is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from grammars import JsonSchema, SchemaError
from grammars.json_schema import FormatWarning, format_asserted, root_value
from grammars.regular import ALL

Accepts = Callable[..., bool]
URI = {
    "4": "http://json-schema.org/draft-04/schema#", "6": "http://json-schema.org/draft-06/schema#",
    "7": "http://json-schema.org/draft-07/schema#", "2019-09": "https://json-schema.org/draft/2019-09/schema",
    "2020-12": "https://json-schema.org/draft/2020-12/schema",
}  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "document", "holding"),
    [
        # (drafts under which the document is valid; None is the schema without a draft)
        ({"const": 1}, 2, {"4"}),
        ({"if": True, "then": False}, 2, {"4", "6"}),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, {"4", "6", "7"}),
        ({"dependencies": {"a": ["b"]}}, {"a": 1}, set()),
        ({"prefixItems": [False]}, [1], {"4", "6", "7", "2019-09"}),
        ({"contains": False}, [1], {"4"}),
        ({"contains": True, "minContains": 0}, [], {"4", "2019-09", "2020-12", None}),
        ({"$ref": "#/$defs/a", "$defs": {"a": True}, "type": "null"}, 1, {"4", "6", "7"}),
        ({"type": "integer"}, 1.0, {"6", "7", "2019-09", "2020-12", None}),
        ({"minimum": 3, "exclusiveMinimum": 4}, 4, set()),
        ({"unevaluatedProperties": False}, {"a": 1}, {"4", "6", "7"}),
        ({"contains": {"const": 1}, "unevaluatedItems": False}, [1], {"4", "6", "7", "2020-12", None}),
        ({"propertyNames": False}, {"a": 1}, {"4"}),
    ],
)
@pytest.mark.parametrize("draft", [*URI, None])
def test_keywords_by_draft(
    accepts: Accepts, draft: str | None, schema: dict[str, Any], document: Any, holding: set[str | None]
) -> None:
    if draft == "4" and "exclusiveMinimum" in schema:
        pytest.skip("a number is malformed there")
    assert accepts(schema, document, draft=draft) == (draft in holding)
    if draft is not None:
        assert accepts({"$schema": URI[draft], **schema}, document) == (draft in holding)


def test_the_option_wins_over_the_marker(accepts: Accepts) -> None:
    assert accepts({"$schema": URI["7"], "const": 1}, 2, draft="4")


@pytest.mark.parametrize("draft", ["4", None])
def test_boolean_bounds_modify_the_other_bound(accepts: Accepts, draft: str | None) -> None:
    schema = {"minimum": 3, "exclusiveMinimum": True, "maximum": 5, "exclusiveMaximum": False}
    assert [accepts(schema, n, draft=draft) for n in (3, 4, 5, 6)] == [False, True, True, False]


@pytest.mark.parametrize("draft", ["4", "6", "7", "2019-09", None])
def test_tuple_items_and_additional_items(accepts: Accepts, draft: str | None) -> None:
    schema = {"items": [{"type": "null"}], "additionalItems": {"type": "boolean"}}
    assert accepts(schema, [None, True], draft=draft)
    assert not accepts(schema, [None, None], draft=draft)
    assert accepts({"additionalItems": False}, [1], draft=draft)


@pytest.mark.parametrize(
    ("draft", "schema"),
    [
        ("2020-12", {"items": [True]}),
        ("4", {"exclusiveMinimum": 3}),
        ("7", {"exclusiveMinimum": True}),
        ("7", {"minimum": 3, "exclusiveMaximum": False}),
    ],
)
def test_forms_of_other_drafts_are_malformed_where_a_draft_is_named(draft: str, schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaError):
        root_value(JsonSchema(schema, draft=draft)).alternatives()


def test_an_embedded_schema_may_have_a_draft_of_its_own(accepts: Accepts) -> None:
    schema = {
        "$schema": URI["2020-12"], "properties": {"a": {"$ref": "old"}},
        "$defs": {"old": {"$schema": URI["7"], "$id": "old", "allOf": [{"$ref": "#/definitions/x", "type": "null"}],
                          "definitions": {"x": {"type": "string"}}}},
    }  # fmt: skip
    assert accepts(schema, {"a": "text"})
    assert not accepts(schema, {"a": None})


def test_a_metaschema_may_leave_the_assertions_out(accepts: Accepts) -> None:
    metaschema = {
        "$schema": URI["2020-12"], "$id": "http://h/meta",
        "$vocabulary": {"https://json-schema.org/draft/2020-12/vocab/applicator": True},
    }  # fmt: skip
    schema = {"$schema": "http://h/meta", "properties": {"a": {"minimum": 10}, "b": False}}
    assert accepts(schema, {"a": 1}, resources={"http://h/meta": metaschema})
    assert not accepts(schema, {"b": 1}, resources={"http://h/meta": metaschema})


def _format_vocabulary(draft: str, name: str, required: bool) -> dict[str, Any]:
    base = f"https://json-schema.org/draft/{draft}/vocab"
    return {
        "$schema": URI[draft], "$id": "http://h/meta",
        "$vocabulary": {f"{base}/core": True, f"{base}/validation": True, f"{base}/{name}": required},
    }  # fmt: skip


@pytest.mark.parametrize("draft", [*URI, None])
def test_a_format_is_asserted_unless_what_the_draft_declares_is_asked_for(accepts: Accepts, draft: str | None) -> None:
    asserted = draft not in ("2019-09", "2020-12")
    marker = {"$schema": URI[draft]} if draft is not None else {}
    for schema, options in (({**marker, "format": "date"}, {}), ({"format": "date"}, {"draft": draft})):
        assert not accepts(schema, "today", **options)
        assert format_asserted(JsonSchema(schema, **options))
        assert accepts(schema, "today", formats="declared", **options) is not asserted
        assert format_asserted(JsonSchema(schema, formats="declared", **options)) is asserted
        assert accepts(schema, "today", formats="annotate", **options)
        assert accepts(schema, "2024-02-29", formats="strict", **options)


def test_a_format_that_stays_an_annotation_by_its_draft_is_warned_of() -> None:
    schema = {"$schema": URI["2020-12"], "properties": {"a": {"format": "date"}}}
    (members,) = root_value(JsonSchema(schema, formats="declared")).alternatives().objects
    with pytest.warns(FormatWarning, match="'date' at #/properties/a is an annotation in draft 2020-12"):
        assert members.properties[0].value.alternatives().string is ALL


@pytest.mark.parametrize(
    ("draft", "name", "required", "asserted"),
    [
        ("2020-12", "format-assertion", True, True),
        ("2020-12", "format-assertion", False, True),
        ("2020-12", "format-annotation", True, False),
        ("2019-09", "format", True, True),
        ("2019-09", "format", False, False),
    ],
)
def test_the_vocabulary_of_a_metaschema_decides_whether_formats_are_asserted(
    accepts: Accepts, draft: str, name: str, required: bool, asserted: bool
) -> None:
    resources = {"http://h/meta": _format_vocabulary(draft, name, required)}
    schema = {"$schema": "http://h/meta", "format": "date", "type": "string"}
    declared: Any = {"resources": resources, "formats": "declared"}
    assert accepts(schema, "today", **declared) is not asserted
    assert format_asserted(JsonSchema(schema, **declared)) is asserted
    assert not accepts(schema, 1, resources=resources)
