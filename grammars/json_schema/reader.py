"""Keyword operands, checked: what is malformed raises `SchemaError` with pointer and keyword."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from grammars.errors import LimitExceeded, SchemaError
from grammars.json_schema.drafts import Draft

TYPES = frozenset({"null", "boolean", "object", "array", "number", "string", "integer"})
MAX_COUNT_DIGITS = 1_000
ALL_TYPES = frozenset({"null", "boolean", "object", "array", "number", "string"})


def shown(value: object) -> str:
    """A value as messages show it: JSON-like, and short."""
    text = f"{value}" if isinstance(value, Decimal) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def malformed(keyword: str, expected: str, value: object, pointer: str) -> SchemaError:
    """The error for an operand that is not what its keyword takes."""
    return SchemaError(f"{keyword} takes {expected}, not {shown(value)}", pointer, keyword)


def types_of(value: Any, pointer: str) -> frozenset[str]:
    """The operand of `type` as a set."""
    if isinstance(value, str) and value in TYPES:
        return frozenset((value,))
    if isinstance(value, list) and value and all(isinstance(name, str) and name in TYPES for name in value):
        return frozenset(value)
    if isinstance(value, str):
        raise SchemaError(f"{value!r} is no type; types are {', '.join(sorted(TYPES))}", pointer, "type")
    raise malformed("type", "a type's name or a non-empty list of them", value, pointer)


def is_number(value: object) -> bool:
    """Whether a parsed JSON value is a number (`bool` is not)."""
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def decimal(value: Any) -> Decimal:
    """The exact number that a parsed JSON number stands for; documents parsed elsewhere may hold floats."""
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


def natural(schema: dict[str, Any], keyword: str, pointer: str) -> int | None:
    """A non-negative integer (`2.0` counts), or `None` where the keyword is absent."""
    value = schema.get(keyword)
    if type(value) is int and value >= 0:
        return value
    if value is None and keyword not in schema:
        return None
    if isinstance(value, (Decimal, float)) and value >= 0:
        exact = decimal(value)
        if exact.adjusted() >= MAX_COUNT_DIGITS:
            raise LimitExceeded(f"{keyword} has more than {MAX_COUNT_DIGITS} digits", pointer, keyword)
        if exact == exact.to_integral_value():
            return int(exact)
    raise malformed(keyword, "a non-negative integer", value, pointer)


def number(schema: dict[str, Any], keyword: str, pointer: str) -> Decimal | None:
    """A number, or `None` where the keyword is absent."""
    if keyword not in schema:
        return None
    value = schema[keyword]
    if not is_number(value):
        raise malformed(keyword, "a number", value, pointer)
    return decimal(value)


def bounds(schema: dict[str, Any], side: str, draft: Draft, pointer: str) -> tuple[Decimal | None, Decimal | None]:
    """Inclusive and exclusive bound of one side (`"Minimum"` or `"Maximum"`), the boolean form of draft 4 included."""
    inclusive, keyword = number(schema, side.lower(), pointer), f"exclusive{side}"
    exclusive = schema.get(keyword)
    if keyword not in schema or (isinstance(exclusive, bool) and draft.boolean_bounds):
        return (None, inclusive) if exclusive else (inclusive, None)
    if not draft.numeric_bounds:
        raise malformed(keyword, "a boolean in this draft", exclusive, pointer)
    return inclusive, number(schema, keyword, pointer)


def names(schema: dict[str, Any], keyword: str, pointer: str) -> list[str]:
    """A list of distinct strings; empty where the keyword is absent."""
    value = schema.get(keyword, [])
    if type(value) is not list or not all([type(name) is str for name in value]):
        raise malformed(keyword, "a list of strings", value, pointer)
    return list(dict.fromkeys(value))


def mapping(schema: dict[str, Any], keyword: str, pointer: str) -> dict[str, Any]:
    """An object; empty where the keyword is absent."""
    value = schema.get(keyword)
    if type(value) is dict:
        return value
    if keyword not in schema:
        return {}
    raise malformed(keyword, "an object", value, pointer)


def members(schema: dict[str, Any], keyword: str, pointer: str) -> list[Any]:
    """A non-empty list of subschemas."""
    value = schema[keyword]
    if not isinstance(value, list) or not value:
        raise malformed(keyword, "a non-empty list of schemas", value, pointer)
    return value


def flag(schema: dict[str, Any], keyword: str, pointer: str) -> bool:
    """A boolean; `False` where the keyword is absent."""
    value = schema.get(keyword, False)
    if not isinstance(value, bool):
        raise malformed(keyword, "a boolean", value, pointer)
    return value
