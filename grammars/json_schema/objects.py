"""Object keywords of one schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from grammars import regular
from grammars.errors import LimitExceeded
from grammars.json_schema.algebra import product_of_objects
from grammars.json_schema.formulas import FALSE, TRUE, Node, conjunction
from grammars.json_schema.object_algebra import (
    ANY_KEY,
    ANY_OBJECT,
    common,
    has,
    intersect_groups,
    key_groups,
    object_shape,
    outside,
)
from grammars.json_schema.reader import malformed, mapping, names, natural
from grammars.json_schema.scalars import pattern_language
from grammars.json_schema.shapes import KeyGroup, ObjectShape, Property, Value
from grammars.regular import ALL, NONE, Rx

if TYPE_CHECKING:
    from grammars.json_schema.positions import SchemaValue

OBJECT_KEYWORDS = frozenset({
    "properties", "patternProperties", "additionalProperties", "propertyNames", "required", "minProperties",
    "maxProperties", "dependencies", "dependentRequired", "dependentSchemas", "unevaluatedProperties",
})  # fmt: skip
_DEPENDENCIES = ("dependentRequired", "dependentSchemas", "dependencies")

MAX_KEY_CELLS = 256

_NONE_REQUIRED = frozenset[str]()


def object_shapes(value: SchemaValue, present: frozenset[str]) -> tuple[ObjectShape, ...]:
    """The objects that the schema's own keywords admit.

    Names that are `required` without being declared are left to `undeclared_required`, which comes last: they go
    behind the properties that other subschemas declare.
    """
    if OBJECT_KEYWORDS.isdisjoint(present):
        return (ANY_OBJECT,)
    schema, pointer = value.schema, value.pointer
    declared = mapping(schema, "properties", pointer) if "properties" in present else {}
    required = frozenset(names(schema, "required", pointer)) if "required" in present else _NONE_REQUIRED
    groups, by_pattern = _groups(value, present)
    child = value.scope.child
    properties = []
    for name, operand in declared.items():
        node = child(value, operand, "properties", name)
        if by_pattern:
            node = conjunction(node, *(other for rx, other in by_pattern if has(rx, name)))
        properties.append(Property(name, node, name in required))
    if "propertyNames" in present:
        allowed = value.child(schema["propertyNames"], "propertyNames").raw().string
        if allowed is not ALL:
            groups = intersect_groups(groups, (KeyGroup(allowed, TRUE),)) if allowed is not NONE else ()
            properties = [p if has(allowed, p.name) else p._replace(value=FALSE) for p in properties]
    least = natural(schema, "minProperties", pointer) or 0 if "minProperties" in present else 0
    most = natural(schema, "maxProperties", pointer) if "maxProperties" in present else None
    shape = object_shape(properties, groups, least, most)
    shapes: tuple[ObjectShape, ...] = () if shape is None else (shape,)
    for keyword in _DEPENDENCIES:
        if keyword in present:
            shapes = _with_dependencies(value, keyword, shapes)
    return shapes


def undeclared_required(value: SchemaValue) -> ObjectShape | None:
    """Objects that hold the `required` names which `properties` does not declare; `None`: there are no such names."""
    declared = value.schema.get("properties", ())
    missing = [name for name in value.schema["required"] if name not in declared]
    if not missing:
        return None
    return ObjectShape(tuple([Property(name, TRUE, True, False) for name in dict.fromkeys(missing)]), ANY_KEY)


def _groups(value: SchemaValue, present: frozenset[str]) -> tuple[Sequence[KeyGroup], list[tuple[Rx, Node]]]:
    """Groups for undeclared keys, and the languages of `patternProperties` with their values."""
    schema, pointer = value.schema, value.pointer
    rest = TRUE
    if "additionalProperties" in present:
        rest = value.child(schema["additionalProperties"], "additionalProperties")
    patterns = mapping(schema, "patternProperties", pointer) if "patternProperties" in present else {}
    if not patterns:
        if rest is TRUE:
            return ANY_KEY, []
        return (() if rest is FALSE else (KeyGroup(ALL, rest),)), []
    by_pattern = []
    for pattern, operand in patterns.items():
        rx = pattern_language(pattern, pointer, "patternProperties")
        by_pattern.append((rx, value.child(operand, "patternProperties", pattern)))
    return split_keys(by_pattern, rest, pointer), by_pattern


def split_keys(by_pattern: Sequence[tuple[Rx, Node]], rest: Node, pointer: str) -> Sequence[KeyGroup]:
    """Disjoint groups from overlapping languages: a key holds what every language that it is in says, else `rest`."""
    cells: list[tuple[Rx, tuple[Node, ...]]] = [(ALL, ())]
    for rx, node in by_pattern:
        split: list[tuple[Rx, tuple[Node, ...]]] = []
        for keys, nodes in cells:
            inside = common(keys, rx)
            if inside is NONE:
                split.append((keys, nodes))
                continue
            split.append((inside, (*nodes, node)))
            left = outside(keys, rx)
            if left is not NONE:
                split.append((left, nodes))
        if len(split) > MAX_KEY_CELLS:
            raise LimitExceeded(f"the patterns overlap in more than {MAX_KEY_CELLS} ways", pointer, "patternProperties")
        cells = split
    languages: dict[Value, Rx] = {}
    for keys, nodes in cells:
        member = conjunction(*nodes) if nodes else rest
        if member is not FALSE:
            languages[member] = regular.union(languages[member], keys) if member in languages else keys
    return key_groups(languages)


def _with_dependencies(value: SchemaValue, keyword: str, shapes: tuple[ObjectShape, ...]) -> tuple[ObjectShape, ...]:
    """Split the shapes by whether the key that a dependency hangs on is there."""
    for name, operand in mapping(value.schema, keyword, value.pointer).items():
        required, others = _dependency(value, keyword, name, operand)
        if required is None and others is None:
            continue
        there: tuple[ObjectShape, ...] = (
            ObjectShape(
                tuple([Property(n, TRUE, True, False) for n in dict.fromkeys([name, *(required or ())])]), ANY_KEY
            ),
        )
        if others is not None:
            there = product_of_objects(there, others, value)
        absent = ObjectShape((Property(name, FALSE, False, False),), ANY_KEY)
        shapes = product_of_objects(shapes, (absent, *there), value)
    return shapes


def _dependency(
    value: SchemaValue, keyword: str, name: str, operand: Any
) -> tuple[list[str] | None, tuple[ObjectShape, ...] | None]:
    """What the presence of `name` asks for: names that are required too, or the shapes of a subschema."""
    if keyword != "dependentSchemas" and isinstance(operand, list):
        return names({keyword: operand}, keyword, value.pointer), None
    if keyword == "dependencies" and isinstance(operand, str):  # draft 3's form, still in use
        return [operand], None
    if keyword == "dependentRequired":
        raise malformed(keyword, "lists of strings", operand, value.pointer)
    node = value.child(operand, keyword, name)
    return (None, None) if node is TRUE else (None, node.raw().objects)
