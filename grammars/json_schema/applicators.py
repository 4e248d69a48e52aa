"""Subschemas that apply in place: references, `oneOf`, `if`/`then`/`else`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from grammars import regular
from grammars.json_schema.algebra import (
    NOTHING,
    Shape,
    intersect,
    meet_strings,
    other_strings,
    product,
    product_of_objects,
    unite,
)
from grammars.json_schema.array_algebra import complement_array, intersect_arrays
from grammars.json_schema.discriminators import clashes
from grammars.json_schema.formulas import TRUE, Look, Node, negation
from grammars.json_schema.number_algebra import meet_numbers, other_numbers, unite_numbers
from grammars.json_schema.object_algebra import complement_object, intersect_objects
from grammars.json_schema.reader import malformed, members
from grammars.json_schema.references import Resource, Target
from grammars.json_schema.shapes import Alternatives, ArrayShape, ObjectShape
from grammars.regular import NONE, Rx

if TYPE_CHECKING:
    from grammars.json_schema.positions import SchemaValue

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

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


def branches_of(value: SchemaValue, keyword: str) -> list[Node]:
    """The positions of `allOf`, `anyOf` or `oneOf`."""
    return [
        value.child(operand, keyword, str(index))
        for index, operand in enumerate(members(value.schema, keyword, value.pointer))
    ]


# ---- oneOf


def exactly_one(value: SchemaValue, found: Alternatives, look: Look) -> Alternatives:
    """What `found` and exactly one branch of `oneOf` admit."""
    pairs = [(node, intersect(found, look(node), value)) for node in branches_of(value, "oneOf")]
    pairs = [(node, branch) for node, branch in pairs if branch is not NOTHING]
    if len(pairs) < 2:
        return pairs[0][1] if pairs else NOTHING
    counts = Counter(literal for _, branch in pairs for literal in branch.literals)
    arrays: dict[ArrayShape, None] = {}
    objects: dict[ObjectShape, None] = {}
    near = clashes([branch for _, branch in pairs])
    for index, (_, branch) in enumerate(pairs):
        if branch.arrays:
            others = pairs[:index] + pairs[index + 1 :]
            for shape in branch.arrays:
                arrays.update(dict.fromkeys(_array_apart(shape, others, value)))
        rivals = [pairs[other] for other in near[index]]
        for members_ in branch.objects:
            objects.update(dict.fromkeys(_object_apart(members_, rivals, value)))
    return Alternatives(
        frozenset(literal for literal, count in counts.items() if count == 1),
        _one_language([branch.number for _, branch in pairs], meet_numbers, unite_numbers, other_numbers),
        _one_language([branch.string for _, branch in pairs], meet_strings, _unite_strings, other_strings),
        tuple(arrays),
        tuple(objects),
    )


def _one_language(
    languages: list[Rx],
    meeting: Callable[[Rx, Rx], Rx],
    uniting: Callable[[list[Rx]], Rx],
    others: Callable[[Rx], Rx],
) -> Rx:
    """Texts that are in exactly one of the languages."""
    once = twice = NONE
    for rx in languages:
        if rx is not NONE:
            twice = uniting([twice, meeting(once, rx)])
            once = uniting([once, rx])
    return once if twice is NONE else meeting(once, others(twice))


def _unite_strings(languages: list[Rx]) -> Rx:
    return regular.union(*languages)


def _array_apart(
    shape: ArrayShape, rivals: list[tuple[Node, Alternatives]], value: SchemaValue
) -> Sequence[ArrayShape]:
    """The arrays of `shape` that no rival branch admits."""

    def meets(a: ArrayShape, b: ArrayShape) -> bool:
        return intersect_arrays(a, b) is not None

    def outside(branch: tuple[Node, Alternatives], near: list[ArrayShape]) -> Sequence[ArrayShape]:
        return complement_array(near[0]) if len(near) == 1 else negation(branch[0]).raw().arrays

    return _apart(shape, [(rival, rival[1].arrays) for rival in rivals], meets, outside, product, value)


def _object_apart(
    shape: ObjectShape, rivals: list[tuple[Node, Alternatives]], value: SchemaValue
) -> Sequence[ObjectShape]:
    """`_array_apart` for objects."""

    def meets(a: ObjectShape, b: ObjectShape) -> bool:
        return bool(intersect_objects(a, b))

    def outside(branch: tuple[Node, Alternatives], near: list[ObjectShape]) -> Sequence[ObjectShape]:
        return complement_object(near[0]) if len(near) == 1 else negation(branch[0]).raw().objects

    return _apart(shape, [(rival, rival[1].objects) for rival in rivals], meets, outside, product_of_objects, value)


def _apart(
    shape: Shape,
    rivals: list[tuple[tuple[Node, Alternatives], tuple[Shape, ...]]],
    meets: Callable[[Shape, Shape], bool],
    outside: Callable[[tuple[Node, Alternatives], list[Shape]], Sequence[Shape]],
    meeting: Callable[[Sequence[Shape], Sequence[Shape], Node], Sequence[Shape]],
    value: SchemaValue,
) -> Sequence[Shape]:
    """What is left of `shape` outside all rivals.

    Branches that have nothing in common with it cost nothing.  Of the others, those that leave the fewest ways come first:
    often a single one decides what all others would have to be told apart by.
    """
    near = [(rival, [other for other in shapes if meets(shape, other)]) for rival, shapes in rivals]
    ways = [(shapes, meeting((shape,), outside(rival, shapes), value)) for rival, shapes in near if shapes]
    ways.sort(key=lambda one: len(one[1]))
    left = ways[0][1] if ways else (shape,)
    for shapes, around in ways[1:]:
        clear: dict[Shape, None] = {}
        doubtful: list[Shape] = []
        for one in left:
            if any(meets(one, other) for other in shapes):
                doubtful.append(one)
            else:
                clear[one] = None
        if doubtful:
            left = tuple(clear | dict.fromkeys(meeting(doubtful, around, value)))
    return left


def at_least_two(value: SchemaValue, look: Look) -> Alternatives:
    """What two or more branches of `oneOf` admit."""
    branches = [look(node) for node in branches_of(value, "oneOf")]
    return unite([intersect(a, b, value) for a, b in combinations(branches, 2)])


# ---- if / then / else


def conditional(value: SchemaValue, found: Alternatives, look: Look) -> Alternatives:
    """`found` where `if` and `then` hold or neither `if` does nor `else` fails."""
    condition, consequence, alternative = _conditional(value)
    if consequence is TRUE and alternative is TRUE:
        return found
    met = intersect(found, look(condition), value)
    if met is not NOTHING:
        met = intersect(met, look(consequence), value)
    missed = intersect(found, look(negation(condition)), value)
    if missed is not NOTHING:
        missed = intersect(missed, look(alternative), value)
    return unite([met, missed])


def conditional_refuted(value: SchemaValue, look: Look) -> list[Alternatives]:
    """The two ways to fail `if`: it holds and `then` does not, or neither holds `if` nor `else`."""
    condition, consequence, alternative = _conditional(value)
    return [
        intersect(look(condition), look(negation(consequence)), value),
        intersect(look(negation(condition)), look(negation(alternative)), value),
    ]


def _conditional(value: SchemaValue) -> tuple[Node, Node, Node]:
    schema = value.schema
    return (
        value.child(schema["if"], "if"),
        value.child(schema["then"], "then") if "then" in schema else TRUE,
        value.child(schema["else"], "else") if "else" in schema else TRUE,
    )
