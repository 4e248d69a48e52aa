"""Assertions on numbers and strings, and constants of every type."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from grammars import regular
from grammars.errors import LimitExceeded, RegexError, SchemaError, UnsupportedFeature
from grammars.json_schema.algebra import meet, reduced
from grammars.json_schema.array_algebra import array_shape
from grammars.json_schema.drafts import asserts_formats
from grammars.json_schema.formats import format_rx
from grammars.json_schema.formulas import FALSE, SHARED, Look, Node
from grammars.json_schema.number_algebra import language_of, language_of_values
from grammars.json_schema.numbers import NUMBER
from grammars.json_schema.object_algebra import object_shape
from grammars.json_schema.quantities import Quantity, tighter_bound
from grammars.json_schema.reader import bounds, decimal, malformed, natural, number
from grammars.json_schema.shapes import Alternatives, ArrayShape, ObjectShape, Property
from grammars.regular import ALL, ANY, NONE, Rx

if TYPE_CHECKING:
    from grammars.json_schema.positions import SchemaValue

STRING_KEYWORDS = frozenset({"minLength", "maxLength", "pattern", "format"})
NUMBER_KEYWORDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})


class FormatWarning(UserWarning):
    """A `format` that stays an annotation: unknown to everybody here, or asserted by option only in its draft."""


def number_language(value: SchemaValue, present: frozenset[str], integer: bool) -> Rx:
    """Texts of the numbers that the schema's own keywords admit."""
    if not integer and NUMBER_KEYWORDS.isdisjoint(present):
        return NUMBER
    schema, draft, pointer = value.schema, value.resource.draft, value.pointer
    minimum, above = bounds(schema, "Minimum", draft, pointer) if _any(present, "Minimum", "minimum") else (None, None)
    maximum, below = bounds(schema, "Maximum", draft, pointer) if _any(present, "Maximum", "maximum") else (None, None)
    multiple = number(schema, "multipleOf", pointer) if "multipleOf" in present else None
    if multiple is not None and multiple <= 0:
        raise malformed("multipleOf", "a number greater than 0", schema["multipleOf"], pointer)
    quantity = Quantity(
        tighter_bound(minimum, above, 1),
        tighter_bound(maximum, below, -1),
        frozenset() if multiple is None else frozenset((multiple,)),
        integer,
        integer and draft.strict_integers,
    )
    try:
        return language_of(quantity)
    except LimitExceeded as error:
        raise LimitExceeded(error.message, pointer, error.keyword or "multipleOf") from None


def _any(present: frozenset[str], side: str, plain: str) -> bool:
    return plain in present or f"exclusive{side}" in present


def string_language(value: SchemaValue, present: frozenset[str]) -> Rx:
    """Contents of the strings that the schema's own keywords admit."""
    if STRING_KEYWORDS.isdisjoint(present):
        return ALL
    schema, pointer = value.schema, value.pointer
    least = natural(schema, "minLength", pointer) or 0 if "minLength" in present else 0
    most = natural(schema, "maxLength", pointer) if "maxLength" in present else None
    if most is not None and least > most:
        return NONE
    found = ALL if least == 0 and most is None else regular.repeat(ANY, least, most)
    if "pattern" in present:
        found = meet(found, pattern_language(schema["pattern"], pointer, "pattern"), ALL)
    if "format" in present and value.options.formats != "annotate":
        found = meet(found, _format_language(value), ALL)
    return found


def pattern_language(pattern: Any, pointer: str, keyword: str) -> Rx:
    """Texts in which the ECMA-262 expression matches somewhere; `NONE` itself where it never does."""
    from grammars.regex import parse

    if not isinstance(pattern, str):
        raise malformed(keyword, "a regular expression", pattern, pointer)
    try:
        return reduced(parse(pattern, dialect="ecma", mode="search"))
    except RegexError as error:
        raise SchemaError(str(error), pointer, keyword) from None
    except (UnsupportedFeature, LimitExceeded) as error:
        raise type(error)(error.message, pointer, keyword, error.position) from None


def _format_language(value: SchemaValue) -> Rx:
    name, pointer, draft, formats = value.schema["format"], value.pointer, value.resource.draft, value.options.formats
    if not isinstance(name, str):
        raise malformed("format", "a string", name, pointer)
    found = format_rx(name, draft.name)
    if found is None:
        if formats == "strict":
            raise UnsupportedFeature(f"the format {name!r} is not known", pointer, "format")
        reason = "is not known and asserts nothing"
    elif asserts_formats(draft, formats):
        return found
    else:
        reason = f'is an annotation in draft {draft.name}, which the schema declares; formats="assert" asserts it'
    warnings.warn(f"the format {name!r} at #{pointer} {reason}", FormatWarning, stacklevel=2)
    return ALL


# ---- constants


class Constant(Node):
    """Exactly one JSON value, numbers equal by value."""

    __slots__ = ("_pointer", "value")

    def __init__(self, value: Any, pointer: str) -> None:
        super().__init__(SHARED)
        self.value = value
        self._pointer = pointer
        self._empty = False

    @property
    def pointer(self) -> str:
        return self._pointer

    def _evaluate(self, look: Look) -> Alternatives:
        return constants([self.value], self._pointer)


def constant(value: Any, pointer: str) -> Node:
    """The node of one JSON value; equal values share it."""
    return SHARED.intern(("const", equality_key(value)), lambda: Constant(value, pointer), pointer)


def equality_key(value: Any) -> object:
    """A hashable key: equal exactly where JSON Schema calls two values equal (order of keys and 1.0 for 1 apart)."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool):
        return (value,)
    if isinstance(value, dict):
        return frozenset((name, equality_key(item)) for name, item in value.items())
    if isinstance(value, list):
        return ("[", *map(equality_key, value))
    return decimal(value)


def constants(values: Iterable[Any], pointer: str) -> Alternatives:
    """The union of the given JSON values."""
    literals: set[str] = set()
    numbers: dict[Decimal, None] = {}
    strings: list[str] = []
    arrays: dict[ArrayShape, None] = {}
    objects: dict[ObjectShape, None] = {}
    for value in values:
        if isinstance(value, str):
            if value.isascii() or not any(0xD800 <= ord(char) <= 0xDFFF for char in value):
                strings.append(value)  # half a surrogate pair is no text: such a string cannot be written in UTF-8
        elif value is None:
            literals.add("null")
        elif isinstance(value, bool):
            literals.add("true" if value else "false")
        elif isinstance(value, list):
            shape = array_shape([constant(item, pointer) for item in value], FALSE, len(value))
            if shape is not None:
                arrays[shape] = None
        elif isinstance(value, dict):
            properties = [Property(name, constant(item, pointer), True) for name, item in value.items()]
            members = object_shape(properties, ())
            if members is not None:
                objects[members] = None
        else:
            numbers[decimal(value)] = None
    return Alternatives(
        frozenset(literals),
        language_of_values(numbers),
        regular.literals(strings) if strings else NONE,
        tuple(arrays),
        tuple(objects),
    )


def enumerated(value: SchemaValue) -> list[Any]:
    """The operand of `enum`."""
    found = value.schema["enum"]
    if not isinstance(found, list):
        raise malformed("enum", "a list", found, value.pointer)
    return found  # empty: no value is listed, so none is valid
