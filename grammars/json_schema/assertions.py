"""One schema, or its negation, as a union of shapes: its own assertions and the subschemas that apply in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grammars.json_schema.algebra import (
    EVERYTHING,
    NOTHING,
    SCALARS,
    complement,
    intersect,
    product_of_objects,
    scalars_of,
    unite,
)
from grammars.json_schema.applicators import (
    REFERENCES,
    at_least_two,
    branches_of,
    conditional,
    conditional_refuted,
    exactly_one,
    target,
)
from grammars.json_schema.arrays import ARRAY_KEYWORDS, array_shapes
from grammars.json_schema.evaluated import UNEVALUATED, with_unevaluated
from grammars.json_schema.formulas import SCALARS_ALONE, WHOLE, Look, is_nothing, negation
from grammars.json_schema.objects import OBJECT_KEYWORDS, object_shapes, undeclared_required
from grammars.json_schema.reader import ALL_TYPES, decimal, is_number, types_of
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
    from grammars.json_schema.positions import SchemaValue

_TYPED = STRING_KEYWORDS | NUMBER_KEYWORDS | ARRAY_KEYWORDS | OBJECT_KEYWORDS
_IN_PLACE = frozenset({"allOf", "anyOf", "oneOf", "not", "if", *REFERENCES})
_STRUCTURES = frozenset({"array", "object"})
_LITERALS = {"null": frozenset({"null"}), "boolean": frozenset({"true", "false"})}


def evaluate(value: SchemaValue, look: Look) -> Alternatives:
    """The union of shapes that the schema admits, before emptiness is decided; of its scalars where `look` is for those."""
    schema, draft = value.schema, value.resource.draft
    if draft.ref_alone and "$ref" in schema:
        return look(target(value, "$ref"))
    present = draft.keywords.intersection(schema)
    whole = look is WHOLE
    found = _own(value, present, whole)
    if found is NOTHING and not whole:
        return NOTHING
    if not _IN_PLACE.isdisjoint(present):
        if not found.arrays and not found.objects:
            look = SCALARS_ALONE
        found = _applied(value, present, found, look)
    if not UNEVALUATED.isdisjoint(present) and whole:  # they say nothing about scalars
        found = with_unevaluated(value, present, found)
    return _with_undeclared(value, present, found)


def refute(value: SchemaValue, look: Look) -> Alternatives:
    """The union of shapes that the schema does not admit: any of its assertions fails; of scalars as in `evaluate`."""
    schema, draft = value.schema, value.resource.draft
    if draft.ref_alone and "$ref" in schema:
        return look(negation(target(value, "$ref")))
    present = draft.keywords.intersection(schema)
    if not UNEVALUATED.isdisjoint(present):
        return _complement(look(value), value, look)
    own = _with_undeclared(value, present, _own(value, present, look is WHOLE))
    missed = [_complement(own, value, look)]
    for keyword in REFERENCES:
        if keyword in present:
            missed.append(look(negation(target(value, keyword))))
    if "allOf" in present:
        missed += [look(negation(branch)) for branch in branches_of(value, "allOf")]
    if "anyOf" in present:
        none = EVERYTHING
        for branch in branches_of(value, "anyOf"):
            none = intersect(none, look(negation(branch)), value)
        missed.append(none)
    if "oneOf" in present:
        none = EVERYTHING
        for branch in branches_of(value, "oneOf"):
            none = intersect(none, look(negation(branch)), value)
        missed += [none, at_least_two(value, look)]
    if "not" in present:
        missed.append(look(value.child(schema["not"], "not")))
    if "if" in present:
        missed += conditional_refuted(value, look)
    return unite(missed)


def _complement(found: Alternatives, value: SchemaValue, look: Look) -> Alternatives:
    return complement(found, value) if look is WHOLE else scalars_of(complement(found, value))


def _own(value: SchemaValue, present: frozenset[str], whole: bool) -> Alternatives:
    if "enum" in present or "const" in present:
        found = _listed(value, present)
        return found if whole else scalars_of(found)
    if "type" in present:
        types = types_of(value.schema["type"], value.pointer)
    elif _TYPED.isdisjoint(present):
        return EVERYTHING if whole else SCALARS
    else:
        types = ALL_TYPES
    if whole:
        return _typed(value, present, types)
    types -= _STRUCTURES
    return _typed(value, present, types) if types else NOTHING


def _with_undeclared(value: SchemaValue, present: frozenset[str], found: Alternatives) -> Alternatives:
    """Ask for `required` names that `properties` does not declare; last, so that they come last in the order."""
    missing = undeclared_required(value) if "required" in present and found.objects else None
    if missing is None:
        return found
    objects = product_of_objects(found.objects, (missing,), value)
    found = Alternatives(found.literals, found.number, found.string, found.arrays, objects)
    return NOTHING if is_nothing(found) else found


def _typed(value: SchemaValue, present: frozenset[str], types: frozenset[str]) -> Alternatives:
    literals = frozenset[str]()
    for name in types:
        if name in _LITERALS:
            literals |= _LITERALS[name]
    number = NONE
    if "number" in types or "integer" in types:
        number = number_language(value, present, integer="number" not in types)
    return Alternatives(
        literals,
        number,
        string_language(value, present) if "string" in types else NONE,
        array_shapes(value, present) if "array" in types else (),
        object_shapes(value, present) if "object" in types else (),
    )


def _listed(value: SchemaValue, present: frozenset[str]) -> Alternatives:
    """`enum` and `const`, under the other assertions beside them."""
    schema, pointer = value.schema, value.pointer
    types = types_of(schema["type"], pointer) if "type" in present else ALL_TYPES
    found = EVERYTHING
    if "const" in present:
        found = constants(_of_type([schema["const"]], types), f"{pointer}/const")
    if "enum" in present:
        found = intersect(found, constants(_of_type(enumerated(value), types), f"{pointer}/enum"), value)
    plain = "integer" not in types or "number" in types
    if plain and _TYPED.isdisjoint(present):
        return found
    # The keywords of types that are not listed do not matter.
    held = {name for name, some in (("array", found.arrays), ("object", found.objects)) if some}
    if found.string is not NONE:
        held.add("string")
    if found.number is not NONE:
        held.add("number" if plain else "integer")
    return intersect(found, _typed(value, present, frozenset(held | {"null", "boolean"})), value)


def _of_type(values: list[Any], types: frozenset[str]) -> list[Any]:
    if types is ALL_TYPES:
        return values
    return [item for item in values if _type_name(item) in types or ("integer" in types and _is_integer(item))]


def _is_integer(item: Any) -> bool:
    return is_number(item) and decimal(item) == decimal(item).to_integral_value()


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


def _applied(value: SchemaValue, present: frozenset[str], found: Alternatives, look: Look) -> Alternatives:
    """`found` under every in-place applicator of the schema."""
    for keyword in REFERENCES:
        if keyword in present:
            found = intersect(found, look(target(value, keyword)), value)
    if "allOf" in present:
        for branch in branches_of(value, "allOf"):
            found = intersect(found, look(branch), value)
    if "anyOf" in present:
        found = unite([intersect(found, look(branch), value) for branch in branches_of(value, "anyOf")])
    if "oneOf" in present:
        found = exactly_one(value, found, look)
    if "not" in present:
        found = intersect(found, look(negation(value.child(value.schema["not"], "not"))), value)
    if "if" in present:
        found = conditional(value, found, look)
    return found
