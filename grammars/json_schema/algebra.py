"""Boolean algebra on unions of typed shapes: intersection, union, complement.

Shapes that are contradictory on their face are dropped on the way; what takes a look through recursion is left to
`emptiness`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from grammars import regular
from grammars.effort import spend
from grammars.errors import LimitExceeded
from grammars.json_schema.array_algebra import ANY_ARRAY, array_within, complement_array, intersect_arrays
from grammars.json_schema.formulas import Node, is_nothing
from grammars.json_schema.number_algebra import meet_all_numbers, meet_numbers, other_numbers, unite_numbers
from grammars.json_schema.numbers import NUMBER
from grammars.json_schema.object_algebra import ANY_OBJECT, complement_object, intersect_objects, object_within
from grammars.json_schema.shapes import Alternatives, ArrayShape, ObjectShape
from grammars.regular import ALL, NONE, Rx

MAX_SHAPES = 512
_MEETING_STEPS = 4  # what a meeting of two shapes costs, in steps of other searches

LITERALS = frozenset({"null", "true", "false"})
EVERYTHING = Alternatives(LITERALS, NUMBER, ALL, (ANY_ARRAY,), (ANY_OBJECT,))
NOTHING = Alternatives(frozenset(), NONE, NONE, (), ())
SCALARS = Alternatives(LITERALS, NUMBER, ALL, (), ())

Shape = TypeVar("Shape", ArrayShape, ObjectShape)

_ANY_ARRAYS = EVERYTHING.arrays
_ANY_OBJECTS = EVERYTHING.objects


def meet(a: Rx, b: Rx, top: Rx) -> Rx:
    """Intersection of two languages inside `top`; `NONE` itself where it is empty."""
    if a is b or b is top:
        return a
    if a is top:
        return b
    if a is NONE or b is NONE:
        return NONE
    return reduced(regular.intersect(a, b))


def meet_strings(a: Rx, b: Rx) -> Rx:
    """Strings of both languages; `NONE` itself where there are none."""
    return meet(a, b, ALL)


def other_strings(rx: Rx) -> Rx:
    """Strings that are not in a language; `NONE` itself where there are none."""
    if rx is NONE or rx is ALL:
        return ALL if rx is NONE else NONE
    return reduced(regular.complement(rx))


def reduced(rx: Rx) -> Rx:
    """The language; `NONE` itself where it is empty."""
    return NONE if rx is not NONE and regular.is_empty(rx) else rx


def intersect(a: Alternatives, b: Alternatives, place: Node) -> Alternatives:
    """What both admit.  `place` is named where there are too many combinations."""
    if a is EVERYTHING or a is b:
        return b
    if b is EVERYTHING:
        return a
    result = Alternatives(
        a.literals & b.literals,
        _placed(lambda: meet_numbers(a.number, b.number), place),
        _placed(lambda: meet_strings(a.string, b.string), place),
        product(a.arrays, b.arrays, place) if a.arrays and b.arrays else (),
        product_of_objects(a.objects, b.objects, place) if a.objects and b.objects else (),
    )
    return NOTHING if is_nothing(result) else result


def intersect_all(members: Sequence[Alternatives], place: Node) -> Alternatives:
    """What all members admit."""
    if any(member is NOTHING for member in members):
        return NOTHING
    members = [member for member in members if member is not EVERYTHING]
    if len(members) < 2:
        return members[0] if members else EVERYTHING
    arrays, objects = members[0].arrays, members[0].objects
    for member in members[1:]:
        arrays = product(arrays, member.arrays, place) if arrays and member.arrays else ()
        objects = product_of_objects(objects, member.objects, place) if objects and member.objects else ()
    result = Alternatives(
        members[0].literals.intersection(*[member.literals for member in members]),
        _placed(lambda: meet_all_numbers([member.number for member in members]), place),
        _placed(lambda: _meet_all([member.string for member in members]), place),
        arrays,
        objects,
    )
    return NOTHING if is_nothing(result) else result


def _meet_all(languages: list[Rx]) -> Rx:
    distinct = dict.fromkeys(rx for rx in languages if rx is not ALL)
    if NONE in distinct:
        return NONE
    if len(distinct) < 2:
        return next(iter(distinct), ALL)
    return reduced(regular.intersect(*distinct))


def _placed(meeting: Callable[[], Rx], place: Node) -> Rx:
    """A language whose making may go past a bound, which then names the place."""
    try:
        return meeting()
    except LimitExceeded as error:
        raise LimitExceeded(error.message, place.pointer, error.keyword) from None


def product(a: Sequence[ArrayShape], b: Sequence[ArrayShape], place: Node) -> tuple[ArrayShape, ...]:
    """All intersections of a shape of `a` with one of `b`."""
    if b == _ANY_ARRAYS:
        return tuple(a)
    if a == _ANY_ARRAYS:
        return tuple(b)
    return _pairs(a, b, _intersect_arrays, array_within, place)


def _intersect_arrays(a: ArrayShape, b: ArrayShape) -> Sequence[ArrayShape]:
    both = intersect_arrays(a, b)
    return () if both is None else (both,)


def product_of_objects(a: Sequence[ObjectShape], b: Sequence[ObjectShape], place: Node) -> tuple[ObjectShape, ...]:
    """All intersections of a shape of `a` with one of `b`."""
    if b == _ANY_OBJECTS:
        return tuple(a)
    if a == _ANY_OBJECTS:
        return tuple(b)
    return _pairs(a, b, intersect_objects, object_within, place)


def _pairs(
    a: Sequence[Shape],
    b: Sequence[Shape],
    meeting: Callable[[Shape, Shape], Iterable[Shape]],
    within: Callable[[Shape, Shape], bool],
    place: Node,
) -> tuple[Shape, ...]:
    # (C ∪ A) ∩ (C ∪ B) = C ∪ (A ∩ B): what both have needs no partner.
    found = dict.fromkeys(a)
    found = {shape: None for shape in b if shape in found}
    if found:
        a = [shape for shape in a if shape not in found]
        b = [shape for shape in b if shape not in found]
    most = max(MAX_SHAPES, len(found) + len(a), len(found) + len(b))
    for x in a:
        spend(_MEETING_STEPS * len(b))
        for y in b:
            for both in meeting(x, y):
                found[both] = None
        if len(found) > most:
            found = dict.fromkeys(_absorbed(list(found), within))
            if len(found) > most:
                raise LimitExceeded(f"more than {most} combinations of alternatives for one value", place.pointer)
    return _absorbed(list(found), within) if len(found) > 1 and len(a) > 1 and len(b) > 1 else tuple(found)


def _absorbed(shapes: list[Shape], within: Callable[[Shape, Shape], bool]) -> tuple[Shape, ...]:
    """The shapes without those that plainly lie within another one."""
    # What asks for less can only lie around what asks for more: names that are asked for are compared first.
    demands = {shape: _demands(shape) for shape in shapes}
    kept: list[tuple[Shape, frozenset[str]]] = []
    for shape in sorted(shapes, key=lambda shape: len(demands[shape])):
        mine = demands[shape]
        if any(less <= mine and within(shape, other) for other, less in kept):
            del demands[shape]
        else:
            kept.append((shape, mine))
    return tuple(demands)


def _demands(shape: ArrayShape | ObjectShape) -> frozenset[str]:
    if isinstance(shape, ArrayShape):
        return frozenset()
    return frozenset([prop.name for prop in shape.properties if prop.required])


def scalars_of(a: Alternatives) -> Alternatives:
    """What `a` admits but for arrays and objects."""
    if not a.arrays and not a.objects:
        return a
    if a is EVERYTHING:
        return SCALARS
    rest = Alternatives(a.literals, a.number, a.string, (), ())
    return NOTHING if is_nothing(rest) else rest


def unite(members: Sequence[Alternatives]) -> Alternatives:
    """What any member admits."""
    members = [member for member in members if member is not NOTHING]
    if not members:
        return NOTHING
    if len(members) == 1:
        return members[0]
    if any(member is EVERYTHING for member in members):
        return EVERYTHING
    return Alternatives(
        frozenset[str]().union(*[member.literals for member in members]),
        unite_numbers([member.number for member in members]),
        _join([member.string for member in members], ALL),
        _gather([member.arrays for member in members], _ANY_ARRAYS),
        _gather([member.objects for member in members], _ANY_OBJECTS),
    )


def _join(languages: list[Rx], top: Rx) -> Rx:
    distinct = dict.fromkeys(rx for rx in languages if rx is not NONE)
    if top in distinct:
        return top
    if len(distinct) < 2:
        return next(iter(distinct), NONE)
    return regular.union(*distinct)


def _gather(groups: list[tuple[Shape, ...]], top: tuple[Shape, ...]) -> tuple[Shape, ...]:
    shapes = dict.fromkeys(shape for group in groups for shape in group)
    return top if top[0] in shapes else tuple(shapes)


def complement(a: Alternatives, place: Node) -> Alternatives:
    """What `a` does not admit."""
    if a is EVERYTHING:
        return NOTHING
    if a is NOTHING:
        return EVERYTHING
    return Alternatives(
        LITERALS - a.literals,
        other_numbers(a.number),
        other_strings(a.string),
        complement_arrays(a.arrays, place),
        complement_objects(a.objects, place),
    )


def complement_arrays(shapes: Iterable[ArrayShape], place: Node) -> tuple[ArrayShape, ...]:
    """Arrays that are of none of the shapes."""
    left = _ANY_ARRAYS
    for shape in shapes:
        left = product(left, complement_array(shape), place)
    return left


def complement_objects(shapes: Iterable[ObjectShape], place: Node) -> tuple[ObjectShape, ...]:
    """Objects that are of none of the shapes."""
    left = _ANY_OBJECTS
    for shape in shapes:
        left = product_of_objects(left, complement_object(shape), place)
    return left
