"""One schema as a union of shapes: its own assertions, then every subschema that applies in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grammars.json_schema.algebra import EVERYTHING, NOTHING, complement, intersect, product_of_objects, unite
from grammars.json_schema.applicators import conditional, exactly_one, target
from grammars.json_schema.arrays import ARRAY_KEYWORDS, array_shapes
from grammars.json_schema.formulas import is_nothing
from grammars.json_schema.objects import OBJECT_KEYWORDS, object_shapes, undeclared_required
from grammars.json_schema.reader import ALL_TYPES, decimal, is_number, members, types_of
from grammars.json_schema.scalars import (
    NUMBER_KEYWORDS,
    STRING_KEYWORDS,
    constants,
    enumerated,
    number_language,
    string_language,
)
from grammars.json_schema.shapes import Alternatives
from grammars.regular import NONE

if TYPE_CHECKING:
    from typing import Any

    from grammars.json_schema.positions import SchemaValue

_TYPED = STRING_KEYWORDS | NUMBER_KEYWORDS | ARRAY_KEYWORDS | OBJECT_KEYWORDS
_IN_PLACE = frozenset({
    "$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "not", "if",
})  # fmt: skip

_SCALARS = {
    "null": frozenset({"null"}),
    "boolean": frozenset({"true", "false"}),
}


def evaluate(value: SchemaValue) -> Alternatives:
    """The union of shapes that `value`'s schema admits, before emptiness is decided."""
    schema, draft = value.schema, value.resource.draft
    if draft.ref_alone and "$ref" in schema:
        return target(value, "$ref").raw()
    present = draft.keywords.intersection(schema)
    if "enum" in present or "const" in present:
        found = _listed(value, present)
    elif "type" in present:
        found = _typed(value, present, types_of(schema["type"], value.pointer))
    elif _TYPED.isdisjoint(present):
        found = EVERYTHING
    else:
        found = _typed(value, present, ALL_TYPES)
    if not _IN_PLACE.isdisjoint(present):
        found = _applied(value, present, found)
    if "required" in present and found.objects:
        missing = undeclared_required(value)
        if missing is not None:
            objects = product_of_objects(found.objects, (missing,), value)
            found = Alternatives(found.literals, found.number, found.string, found.arrays, objects)
            if is_nothing(found):
                return NOTHING
    return found


def _typed(value: SchemaValue, present: frozenset[str], types: frozenset[str]) -> Alternatives:
    literals = frozenset[str]()
    number = string = NONE
    arrays, objects = EVERYTHING.arrays, EVERYTHING.objects
    if "null" in types or "boolean" in types:
        literals = literals.union(*[_SCALARS[name] for name in types if name in _SCALARS])
    if "number" in types:
        number = number_language(value, present, integer=False)
    elif "integer" in types:
        number = number_language(value, present, integer=True)
    if "string" in types:
        string = string_language(value, present)
    arrays = array_shapes(value, present) if "array" in types else ()
    objects = object_shapes(value, present) if "object" in types else ()
    return Alternatives(literals, number, string, arrays, objects)


def _listed(value: SchemaValue, present: frozenset[str]) -> Alternatives:
    """`enum` and `const`, under the other assertions beside them."""
    schema, pointer = value.schema, value.pointer
    types = types_of(schema["type"], pointer) if "type" in present else ALL_TYPES
    found: Alternatives | None = None
    if "const" in present:
        found = constants(_of_type([schema["const"]], types), f"{pointer}/const")
    if "enum" in present:
        listed = constants(_of_type(enumerated(value), types), f"{pointer}/enum")
        found = listed if found is None else intersect(found, listed, value)
    assert found is not None
    needed = {"integer"} & types if "number" not in types else set[str]()
    if needed or not _TYPED.isdisjoint(present):
        # Only the types that are listed at all: the keywords of others do not matter.
        held = {
            name
            for name, some in (
                ("string", found.string is not NONE),
                ("number", found.number is not NONE),
                ("array", found.arrays),
                ("object", found.objects),
            )
            if some and (name in types or (name == "number" and "integer" in types))
        }
        if "number" in held and needed:
            held = held - {"number"} | {"integer"}
        other = _typed(value, present, frozenset(held | {"null", "boolean"}))
        found = intersect(found, other, value)
    return NOTHING if is_nothing(found) else found


def _of_type(values: list[Any], types: frozenset[str]) -> list[Any]:
    if types is ALL_TYPES:
        return values
    return [item for item in values if _type_name(item) in types or (is_number(item) and _is_integer(item, types))]


def _is_integer(item: Any, types: frozenset[str]) -> bool:
    return "integer" in types and decimal(item) == decimal(item).to_integral_value()


def _type_name(item: Any) -> str:
    if isinstance(item, str):
        return "string"
    if item is None:
        return "null"
    if isinstance(item, bool):
        return "boolean"
    if isinstance(item, dict):
        return "object"
    return "array" if isinstance(item, list) else "number"


def _applied(value: SchemaValue, present: frozenset[str], found: Alternatives) -> Alternatives:
    """`found` under every in-place applicator of the schema."""
    schema, pointer = value.schema, value.pointer
    for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
        if keyword in present:
            found = intersect(found, target(value, keyword).raw(), value)
    if "allOf" in present:
        for index, operand in enumerate(members(schema, "allOf", pointer)):
            found = intersect(found, value.child(operand, "allOf", str(index)).raw(), value)
    if "anyOf" in present:
        branches = [
            intersect(found, value.child(operand, "anyOf", str(index)).raw(), value)
            for index, operand in enumerate(members(schema, "anyOf", pointer))
        ]
        found = unite(branches)
    if "oneOf" in present:
        found = exactly_one(value, found)
    if "not" in present:
        found = intersect(found, complement(value.child(schema["not"], "not").raw(), value), value)
    if "if" in present and ("then" in schema or "else" in schema):
        found = conditional(value, found)
    return found
