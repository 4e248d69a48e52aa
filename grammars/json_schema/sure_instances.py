"""A cheap sufficient test that a subschema has instances: by its text alone, no position of a child is made for it."""

from __future__ import annotations

from typing import Any

from grammars.errors import GrammarError
from grammars.json_schema.drafts import Draft
from grammars.json_schema.references import Registry, Resource

_MOST_LOOKS, _MOST_DEPTH = 32, 4

# Under these keywords alone there is always a value: the empty object, the empty array or any scalar.
_INHABITED = frozenset({
    "type", "properties", "patternProperties", "additionalProperties", "items", "additionalItems", "prefixItems",
    "uniqueItems",
})  # fmt: skip

# Any one of these leaves some value of every type, alone and beside those above.
_HARMLESS = frozenset({"minLength", "maxLength", "minimum", "maximum", "maxItems", "maxProperties"})
_ENUM, _REQUIRED, _REFERENCE, _CHOICE = [frozenset({name}) for name in ("enum", "required", "$ref", "anyOf")]


class SureInstances:
    """One question, with what it may still cost."""

    __slots__ = ("_looks", "_registry")

    def __init__(self, registry: Registry | None) -> None:
        """`registry`: resolves references; without one, what refers to something is not looked at."""
        self._registry = registry
        self._looks = _MOST_LOOKS

    def has(self, schema: Any, resource: Resource, depth: int = 0) -> bool:
        """Whether `schema`, a subschema of `resource`, surely has an instance.

        Malformed operands are for the evaluation to refuse; nothing is decided here then.
        """
        self._looks -= 1
        if schema is True:
            return True
        if type(schema) is not dict or depth > _MOST_DEPTH or self._looks < 0:
            return False
        keywords = resource.draft.keywords
        doubtful = keywords.intersection(schema).difference(_INHABITED)
        if not doubtful:
            return True
        if len(doubtful) > 1:
            return False
        if doubtful <= _HARMLESS:
            return True
        if doubtful == _ENUM:
            return _lists_a_text(schema)
        if doubtful == _REQUIRED:
            return self._has_required(schema, resource, depth)
        if doubtful == _REFERENCE:
            return self._has_target(schema, resource, depth)
        if doubtful == _CHOICE:
            return self._has_one_of_any(schema, resource, depth)
        return False

    def _has_required(self, schema: dict[str, Any], resource: Resource, depth: int) -> bool:
        """`has` where names are required: other types do without them, and objects need a value under each."""
        types = schema.get("type", "null")
        if type(types) is str:
            types = [types]
        if type(types) is not list:
            return False
        if any([name != "object" for name in types]):
            return True
        declared, rest = schema.get("properties", {}), schema.get("additionalProperties", True)
        names = schema["required"]
        if type(names) is not list or type(declared) is not dict or "patternProperties" in schema:
            return False
        for name in names:
            if type(name) is not str:
                return False
            operand = declared.get(name, rest)
            if _is_elsewhere(operand, resource.draft) or not self.has(operand, resource, depth + 1):
                return False
        return True

    def _has_target(self, schema: dict[str, Any], resource: Resource, depth: int) -> bool:
        """`has` where nothing stands beside a reference but what is allowed by itself and says nothing about it."""
        draft, reference = resource.draft, schema["$ref"]
        alone = draft.ref_alone or draft.keywords.isdisjoint(schema.keys() - _REFERENCE)
        if not alone or self._registry is None or type(reference) is not str:
            return False
        try:
            found = self._registry.resolve(reference, resource, "", "$ref")
        except GrammarError:
            return False
        return not _is_elsewhere(found.schema, draft) and self.has(found.schema, found.resource, depth + 1)

    def _has_one_of_any(self, schema: dict[str, Any], resource: Resource, depth: int) -> bool:
        """`has` where nothing stands beside `anyOf`."""
        draft, members = resource.draft, schema["anyOf"]
        if type(members) is not list or not draft.keywords.isdisjoint(schema.keys() - _CHOICE):
            return False
        return any([
            not _is_elsewhere(member, draft) and self.has(member, resource, depth + 1) for member in members[:_MOST_DEPTH]
        ])  # fmt: skip


def _lists_a_text(schema: dict[str, Any]) -> bool:
    """Whether the first member of an `enum` is an instance: a text is, whatever `properties` and `items` say, if it can be
    written at all.
    """
    listed = schema["enum"]
    first = listed[0] if type(listed) is list and listed else None
    return type(first) is str and first.isascii() and schema.get("type", "string") == "string"


def _is_elsewhere(schema: Any, draft: Draft) -> bool:
    """Whether a subschema is a resource, or of a draft, of its own."""
    return type(schema) is dict and ("$schema" in schema or any([keyword in schema for keyword in draft.id_keywords]))
