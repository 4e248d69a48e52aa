"""The drafts of JSON Schema and what differs between them.

A schema says its draft with `$schema`; without it the newest draft is read tolerantly, so that idioms of older
drafts (tuple `items`, `dependencies`, boolean `exclusiveMinimum`, `id` anchors) keep their meaning.
"""

from __future__ import annotations

from dataclasses import dataclass

_DRAFT_4 = frozenset({
    "type", "enum", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength",
    "maxLength", "pattern", "format", "items", "additionalItems", "minItems", "maxItems", "uniqueItems", "properties",
    "patternProperties", "additionalProperties", "required", "minProperties", "maxProperties", "dependencies", "allOf",
    "anyOf", "oneOf", "not", "$ref",
})  # fmt: skip
_DRAFT_6 = _DRAFT_4 | {"const", "contains", "propertyNames"}
_DRAFT_7 = _DRAFT_6 | {"if", "then", "else"}
# `dependencies` was split in 2019-09, which lets implementations keep it.
_DRAFT_2019 = _DRAFT_7 | {
    "dependentRequired", "dependentSchemas", "minContains", "maxContains", "unevaluatedProperties",
    "unevaluatedItems", "$recursiveRef",
}  # fmt: skip
_DRAFT_2020 = (_DRAFT_2019 | {"prefixItems", "$dynamicRef"}) - {"$recursiveRef", "additionalItems"}


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """One draft.

    Attributes:
        name: as `draft=` takes it.
        keywords: assertions and applicators that this draft knows; any other keyword is an annotation.
        id_keywords: where a schema gives its own URI; the first that is present counts.
        ref_alone: siblings of `$ref` are ignored (before 2019-09).
        tuple_items: an array as `items` describes the first items.
        boolean_bounds: `exclusiveMinimum` and `exclusiveMaximum` may be booleans that modify the other bound.
        numeric_bounds: they may be numbers.
        boolean_schemas: `true` and `false` are schemas.
        strict_integers: an integer is written without fraction and exponent (draft 4 defines it by its text).
        fragment_ids: `"$id": "#name"` is an anchor rather than a base.
        contains_evaluates: items that `contains` accepts count as evaluated.
    """

    name: str
    keywords: frozenset[str]
    id_keywords: tuple[str, ...] = ("$id",)
    ref_alone: bool = False
    tuple_items: bool = False
    boolean_bounds: bool = False
    numeric_bounds: bool = True
    boolean_schemas: bool = True
    strict_integers: bool = False
    fragment_ids: bool = False
    contains_evaluates: bool = False

    def __repr__(self) -> str:
        return f"Draft({self.name!r})"


DRAFT_4 = Draft(
    "4", _DRAFT_4, ("id",), ref_alone=True, tuple_items=True, boolean_bounds=True, numeric_bounds=False,
    strict_integers=True, fragment_ids=True,
)  # fmt: skip
DRAFT_6 = Draft("6", _DRAFT_6, ref_alone=True, tuple_items=True, fragment_ids=True)
DRAFT_7 = Draft("7", _DRAFT_7, ref_alone=True, tuple_items=True, fragment_ids=True)
DRAFT_2019_09 = Draft("2019-09", _DRAFT_2019, tuple_items=True)
DRAFT_2020_12 = Draft("2020-12", _DRAFT_2020, contains_evaluates=True)
UNMARKED = Draft(
    "unmarked", _DRAFT_2019 | _DRAFT_2020, ("$id", "id"), tuple_items=True, boolean_bounds=True, fragment_ids=True,
    contains_evaluates=True,
)  # fmt: skip

DRAFTS = {draft.name: draft for draft in (DRAFT_4, DRAFT_6, DRAFT_7, DRAFT_2019_09, DRAFT_2020_12)}

_BY_URI = {
    "json-schema.org/draft-04/schema": DRAFT_4,
    "json-schema.org/draft-06/schema": DRAFT_6,
    "json-schema.org/draft-07/schema": DRAFT_7,
    "json-schema.org/draft/2019-09/schema": DRAFT_2019_09,
    "json-schema.org/draft/2020-12/schema": DRAFT_2020_12,
    "json-schema.org/schema": DRAFT_2020_12,
}


def draft_of_uri(uri: str) -> Draft | None:
    """The draft whose metaschema has this URI (http or https, with or without an empty fragment); else `None`."""
    return _BY_URI.get(uri.removesuffix("#").partition("://")[2])
