"""Keys by which small subschemas of different schemas are known to be the same position.

A key lists the assertions of a subschema without its annotations.  Only what refers to nothing, cannot fail and is
small gets one: then neither the place nor the document it stands in matters.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from grammars.json_schema.drafts import Draft
from grammars.json_schema.reader import TYPES
from grammars.values import Formats

_MAX_NODES = 40
_MAX_ENUM = 24
_MAX_TEXT = 400

# `format` has a key where it is certain to be known; the others may warn, and warnings name their place.
_FORMATS = frozenset({
    "date-time", "date", "time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6", "uri",
    "uri-reference", "iri", "iri-reference", "uri-template", "uuid", "json-pointer", "relative-json-pointer", "regex",
})  # fmt: skip

_Check = Callable[[Any], object]


def _type(value: Any) -> object:
    if type(value) is str:
        return value if value in TYPES else None
    if type(value) is list and value and all(type(name) is str and name in TYPES for name in value):
        return tuple(value)
    return None


def _enum(value: Any) -> object:
    if type(value) is not list or not 0 < len(value) <= _MAX_ENUM:
        return None
    if not all(item is None or type(item) in (str, int, bool) for item in value):
        return None
    if sum(len(item) for item in value if type(item) is str) > _MAX_TEXT:
        return None
    return tuple([(type(item) is bool, item) for item in value])


def _const(value: Any) -> object:
    if value is None or type(value) in (int, bool, Decimal) or (type(value) is str and len(value) <= _MAX_TEXT):
        return (type(value) is bool, value)
    return None


def _natural(value: Any) -> object:
    return value if type(value) is int and value >= 0 else None


def _number(value: Any) -> object:
    return value if type(value) in (int, Decimal) else None


def _names(value: Any) -> object:
    if type(value) is list and len(value) <= _MAX_ENUM and all(type(name) is str for name in value):
        return tuple(value)
    return None


_LEAVES: dict[str, _Check] = {
    "type": _type, "enum": _enum, "const": _const, "required": _names,
    "minLength": _natural, "maxLength": _natural, "minItems": _natural, "maxItems": _natural,
    "minimum": _number, "maximum": _number,
}  # fmt: skip
_CHILDREN = frozenset({"items", "additionalProperties"})


def sharing_key(schema: dict[str, Any], draft: Draft, formats: Formats) -> tuple[object, ...] | None:
    """The key of a subschema, `()` if it asserts nothing, `None` if it is to be kept apart."""
    return _key(schema, draft, formats, [_MAX_NODES])


def _key(schema: dict[str, Any], draft: Draft, formats: Formats, room: list[int]) -> tuple[object, ...] | None:
    found: list[object] = []
    keywords = draft.keywords
    for keyword, value in schema.items():
        if keyword not in keywords:
            if keyword == "$schema":
                return None
            continue
        check = _LEAVES.get(keyword)
        part: object
        if check is not None:
            part = check(value)
        elif keyword == "properties":
            part = _properties(value, draft, formats, room)
        elif keyword in _CHILDREN:
            part = _child(value, draft, formats, room)
        elif keyword == "format" and type(value) is str:
            if formats == "annotate":
                continue
            part = value if value in _FORMATS else None
        else:
            return None
        if part is None:
            return None
        found += (keyword, part)
    room[0] -= len(found)
    return tuple(found) if room[0] >= 0 else None


def _child(value: Any, draft: Draft, formats: Formats, room: list[int]) -> object:
    if type(value) is bool:
        return (value,)
    return _key(value, draft, formats, room) if type(value) is dict and room[0] > 0 else None


def _properties(value: Any, draft: Draft, formats: Formats, room: list[int]) -> object:
    if type(value) is not dict or 4 * len(value) > room[0]:
        return None
    found: list[object] = []
    for name, child in value.items():
        part = _child(child, draft, formats, room)
        if part is None:
            return None
        found += (name, part)
    return tuple(found)
