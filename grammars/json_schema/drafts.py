"""The drafts of JSON Schema and what differs between them.

A schema says its draft with `$schema`; without it the newest draft is read tolerantly, so that idioms of older
drafts (tuple `items`, `dependencies`, boolean `exclusiveMinimum`, `id` anchors) keep their meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from grammars.values import Formats

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
        format_asserts: `format` is an assertion unless the caller says otherwise; from 2019-09 on it is an annotation
            by default (2020-12 Validation, section 7.2), which a metaschema's `$vocabulary` may change.
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
    format_asserts: bool = True

    def __repr__(self) -> str:
        return f"Draft({self.name!r})"


DRAFT_4 = Draft(
    "4", _DRAFT_4, ("id",), ref_alone=True, tuple_items=True, boolean_bounds=True, numeric_bounds=False,
    strict_integers=True, fragment_ids=True,
)  # fmt: skip
DRAFT_6 = Draft("6", _DRAFT_6, ref_alone=True, tuple_items=True, fragment_ids=True)
DRAFT_7 = Draft("7", _DRAFT_7, ref_alone=True, tuple_items=True, fragment_ids=True)
DRAFT_2019_09 = Draft("2019-09", _DRAFT_2019, tuple_items=True, format_asserts=False)
DRAFT_2020_12 = Draft("2020-12", _DRAFT_2020, contains_evaluates=True, format_asserts=False)
UNMARKED = Draft(
    "unmarked", _DRAFT_2019 | _DRAFT_2020, ("$id", "id"), tuple_items=True, boolean_bounds=True, fragment_ids=True,
    contains_evaluates=True,
)  # fmt: skip

DRAFTS = {draft.name: draft for draft in (DRAFT_4, DRAFT_6, DRAFT_7, DRAFT_2019_09, DRAFT_2020_12)}

_VOCABULARY = "https://json-schema.org/draft/{}/vocab/{}"
_ASSERTIONS = frozenset({
    "type", "enum", "const", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength",
    "maxLength", "pattern", "minItems", "maxItems", "uniqueItems", "minContains", "maxContains", "required",
    "minProperties", "maxProperties", "dependentRequired",
})  # fmt: skip

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


def asserts_formats(draft: Draft, formats: Formats) -> bool:
    """Whether `format` is an assertion for schemas of this draft under the caller's treatment of formats."""
    return draft.format_asserts if formats == "declared" else formats != "annotate"


def with_vocabulary(draft: Draft, vocabulary: Mapping[str, Any]) -> Draft:
    """The draft as a custom metaschema's `$vocabulary` has it (2020-12 Core, section 8.1.2).

    Without the validation vocabulary its assertions are annotations.  `format` is asserted under 2020-12's
    format-assertion vocabulary, required or not, and where 2019-09's format vocabulary is required.
    """
    if draft.name not in ("2019-09", "2020-12"):
        return draft
    draft = DRAFTS[draft.name]
    validates = _VOCABULARY.format(draft.name, "validation") in vocabulary
    asserted = _VOCABULARY.format(draft.name, "format-assertion") in vocabulary
    return _variant(draft, validates, asserted or vocabulary.get(_VOCABULARY.format("2019-09", "format")) is True)


@cache
def _variant(draft: Draft, validates: bool, format_asserts: bool) -> Draft:
    keywords = draft.keywords if validates else draft.keywords - _ASSERTIONS
    if keywords is draft.keywords and format_asserts == draft.format_asserts:
        return draft
    return replace(draft, keywords=keywords, format_asserts=format_asserts)
