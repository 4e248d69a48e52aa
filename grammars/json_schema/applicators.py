"""Subschemas that apply in place: references, `oneOf`, `if`/`then`/`else`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from grammars import regular
from grammars.json_schema.algebra import (
    NOTHING,
    NUMBER,
    complement,
    intersect,
    meet,
    product,
    product_of_objects,
    unite,
    without,
)
from grammars.json_schema.array_algebra import complement_array, intersect_arrays
from grammars.json_schema.formulas import Node
from grammars.json_schema.object_algebra import complement_object, intersect_objects
from grammars.json_schema.reader import malformed, members
from grammars.json_schema.references import Resource, Target
from grammars.json_schema.shapes import Alternatives, ArrayShape, ObjectShape
from grammars.regular import ALL, NONE, Rx

if TYPE_CHECKING:
    from grammars.json_schema.positions import SchemaValue


# ---- references


def target(value: SchemaValue, keyword: str) -> Node:
    """The position that `$ref`, `$dynamicRef` or `$recursiveRef` of `value` leads to."""
    reference = value.schema[keyword]
    registry = value.scope.registry
    if not isinstance(reference, str):
        raise malformed(keyword, "a URI reference", reference, value.pointer)
    assert registry is not None, "positions with references are never shared"
    found = registry.resolve(reference, value.resource, value.pointer, keyword)
    if keyword == "$dynamicRef":
        name = reference.partition("#")[2]
        if isinstance(found.schema, dict) and name and found.schema.get("$dynamicAnchor") == name:
            found = _outermost(value, found, lambda resource: registry.dynamic_anchor(resource, name))
    elif keyword == "$recursiveRef" and _recursive(found.resource):
        found = _outermost(
            value, found,
            lambda resource: Target(resource.root, resource.pointer, resource) if _recursive(resource) else None,
        )  # fmt: skip
    return value.scope.at(found, value, keyword)


def _outermost(value: SchemaValue, found: Target, look: Callable[[Resource], Target | None]) -> Target:
    """The answer of the resource that evaluation entered first among those that have one."""
    for resource in value.scope.enter(found.resource).resources:
        candidate = look(resource)
        if candidate is not None:
            return candidate
    return found


def _recursive(resource: Resource) -> bool:
    return isinstance(resource.root, dict) and resource.root.get("$recursiveAnchor") is True


# ---- oneOf


def exactly_one(value: SchemaValue, found: Alternatives) -> Alternatives:
    """What `found` and exactly one branch of `oneOf` admit."""
    operands = members(value.schema, "oneOf", value.pointer)
    branches = [
        intersect(found, value.child(operand, "oneOf", str(index)).raw(), value)
        for index, operand in enumerate(operands)
    ]
    branches = [branch for branch in branches if branch is not NOTHING]
    if len(branches) < 2:
        return branches[0] if branches else NOTHING
    counts: dict[str, int] = {}
    for branch in branches:
        for literal in branch.literals:
            counts[literal] = counts.get(literal, 0) + 1
    return Alternatives(
        frozenset(literal for literal, count in counts.items() if count == 1),
        _one_language([branch.number for branch in branches], NUMBER),
        _one_language([branch.string for branch in branches], ALL),
        _one_array(branches, value),
        _one_object(branches, value),
    )


def _one_language(languages: list[Rx], top: Rx) -> Rx:
    """Texts that are in exactly one of the languages."""
    once = twice = NONE
    for rx in languages:
        if rx is NONE:
            continue
        twice = regular.union(twice, meet(once, rx, top))
        once = regular.union(once, rx)
    return without(once, twice)


def _one_array(branches: list[Alternatives], value: SchemaValue) -> tuple[ArrayShape, ...]:
    result: dict[ArrayShape, None] = {}
    for index, branch in enumerate(branches):
        for shape in branch.arrays:
            left: Sequence[ArrayShape] = (shape,)
            for other in _others(branches, index):
                for rival in other.arrays:
                    left = _apart(left, rival, value)
            result.update(dict.fromkeys(left))
    return tuple(result)


def _apart(shapes: Sequence[ArrayShape], rival: ArrayShape, value: SchemaValue) -> Sequence[ArrayShape]:
    """The arrays of `shapes` that are not of `rival`; shapes that have nothing in common with it stay whole."""
    kept = []
    for shape in shapes:
        if intersect_arrays(shape, rival) is None:
            kept.append(shape)
        else:
            kept.extend(product((shape,), complement_array(rival), value))
    return kept


def _one_object(branches: list[Alternatives], value: SchemaValue) -> tuple[ObjectShape, ...]:
    result: dict[ObjectShape, None] = {}
    for index, branch in enumerate(branches):
        for shape in branch.objects:
            left: Sequence[ObjectShape] = (shape,)
            for other in _others(branches, index):
                for rival in other.objects:
                    left = _apart_objects(left, rival, value)
            result.update(dict.fromkeys(left))
    return tuple(result)


def _apart_objects(shapes: Sequence[ObjectShape], rival: ObjectShape, value: SchemaValue) -> Sequence[ObjectShape]:
    kept: list[ObjectShape] = []
    for shape in shapes:
        if not intersect_objects(shape, rival):
            kept.append(shape)
        else:
            kept.extend(product_of_objects((shape,), complement_object(rival), value))
    return kept


def _others(branches: list[Alternatives], index: int) -> list[Alternatives]:
    return branches[:index] + branches[index + 1 :]


# ---- if / then / else


def conditional(value: SchemaValue, found: Alternatives) -> Alternatives:
    """`found` where `if` and `then` hold or neither `if` does nor `else` fails."""
    schema = value.schema
    condition = value.child(schema["if"], "if").raw()
    met = intersect(found, condition, value)
    if "then" in schema and met is not NOTHING:
        met = intersect(met, value.child(schema["then"], "then").raw(), value)
    missed = intersect(found, complement(condition, value), value)
    if "else" in schema and missed is not NOTHING:
        missed = intersect(missed, value.child(schema["else"], "else").raw(), value)
    return unite([met, missed])
