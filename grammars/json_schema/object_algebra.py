"""Object shapes: normal form, intersection, complement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from grammars import regular
from grammars.json_schema.formulas import FALSE, TRUE, conjunction, implies, negation
from grammars.json_schema.shapes import KeyGroup, KeyWitness, ObjectShape, Property, Value
from grammars.memory import remembered
from grammars.regular import ALL, NONE, Rx

ANY_KEY = (KeyGroup(ALL, TRUE),)
ANY_OBJECT = ObjectShape((), ANY_KEY)


def object_shape(
    properties: Sequence[Property],
    groups: Sequence[KeyGroup],
    least: int = 0,
    most: int | None = None,
    witnesses: Iterable[KeyWitness] = (),
) -> ObjectShape | None:
    """The shape in normal form; `None` where it is a contradiction on its face."""
    required = 0
    optional_false = False
    for prop in properties:
        if prop.required:
            if prop.value is FALSE:
                return None
            required += 1
        elif prop.value is FALSE:
            optional_false = True
    if most is not None:
        if max(required, least) > most:
            return None
        if required == most:  # full: nothing else may occur
            properties = [prop for prop in properties if prop.required]
            groups, most, optional_false = (), None, False
    if optional_false:  # such a property only keeps its key out of the groups
        properties = [p for p in properties if p.value is not FALSE or group_value(groups, p.name) is not FALSE]
    if not groups:
        if least > len(properties):
            return None
        if most is not None and most >= len(properties):
            most = None
        if least == len(properties) > required:
            properties = [prop if prop.required else prop._replace(required=True) for prop in properties]
            required = least
    if least <= required:
        least = 0
    kept: dict[KeyWitness, None] = {}
    for witness in witnesses:
        if witness.value is FALSE or witness.names is NONE:
            return None
        if witness.value is TRUE:
            if any(p.required and has(witness.names, p.name) for p in properties):
                continue
            if witness.names is ALL:
                least = max(least, 1)
                continue
        kept[witness] = None
    return ObjectShape(tuple(properties), tuple(groups), least, most, tuple(kept))


def has(names: Rx, name: str) -> bool:
    """Whether a key belongs to a language of keys."""
    return names is ALL or (names is not NONE and _matches(names, name))


# The same few keys are asked of the same few languages again and again.
_matches = remembered(2048)(regular.matches)


def group_value(groups: Sequence[KeyGroup], name: str) -> Value:
    """What an undeclared key must hold; `FALSE` where it may not occur."""
    for group in groups:
        if has(group.names, name):
            return group.value
    return FALSE


def intersect_objects(a: ObjectShape, b: ObjectShape) -> Sequence[ObjectShape]:
    """The objects of both: one shape, none where that is a contradiction, several where witnesses have choices."""
    if a is b or b is ANY_OBJECT:
        return (a,)
    if a is ANY_OBJECT:
        return (b,)
    others = {prop.name: prop for prop in b.properties}
    properties = []
    for mine in a.properties:
        other = others.pop(mine.name, None)
        if other is None:
            value = mine.value if b.groups is ANY_KEY else conjunction(mine.value, group_value(b.groups, mine.name))
            required = mine.required
            if required and value is not mine.value and value.surely_empty():  # type: ignore[attr-defined]
                return ()
            properties.append(mine if value is mine.value else mine._replace(value=value))
        else:
            value = conjunction(mine.value, other.value)
            required = mine.required or other.required
            if required and (
                value.surely_empty() if value is not mine.value and value is not other.value else value is FALSE
            ):
                return ()
            declared = mine.declared or other.declared
            same = value is mine.value and required == mine.required and declared == mine.declared
            properties.append(mine if same else Property(mine.name, value, required, declared))
    for other in others.values():
        value = other.value if a.groups is ANY_KEY else conjunction(group_value(a.groups, other.name), other.value)
        if other.required and value is not other.value and value.surely_empty():  # type: ignore[attr-defined]
            return ()
        properties.append(other if value is other.value else other._replace(value=value))
    if not all([mine.declared for mine in a.properties]):
        properties = _in_order(properties, a, b)
    most = b.max_properties if a.max_properties is None else a.max_properties
    if most is not None and b.max_properties is not None:
        most = min(most, b.max_properties)
    shape = object_shape(
        properties,
        intersect_groups(a.groups, b.groups),
        max(a.min_properties, b.min_properties),
        most,
        (*a.witnesses, *b.witnesses),
    )
    if shape is None:
        return ()
    return settle_witnesses(shape) if shape.witnesses else (shape,)


def _in_order(properties: Sequence[Property], a: ObjectShape, b: ObjectShape) -> list[Property]:
    """What `a` declares, what `b` declares, and behind that the names that are only asked for."""
    named = {prop.name: prop for prop in properties}
    both = (*a.properties, *b.properties)
    order = [one.name for one in both if one.declared] + [one.name for one in both]
    return [named[name] for name in dict.fromkeys(order)]


def intersect_groups(a: Sequence[KeyGroup], b: Sequence[KeyGroup]) -> Sequence[KeyGroup]:
    """Groups for the keys that both admit; keys with equal values share a group."""
    if b is ANY_KEY:
        return a
    if a is ANY_KEY:
        return b
    merged: dict[Value, Rx] = {}
    for x in a:
        for y in b:
            value = conjunction(x.value, y.value)
            if value is FALSE:
                continue
            names = common(x.names, y.names)
            if names is not NONE:
                merged[value] = regular.union(merged[value], names) if value in merged else names
    return key_groups(merged)


def key_groups(languages: dict[Value, Rx]) -> Sequence[KeyGroup]:
    """Groups from a table of value to its keys; the open object's one is always the same tuple."""
    if len(languages) == 1 and languages.get(TRUE) is ALL:
        return ANY_KEY
    return tuple(KeyGroup(names, value) for value, names in languages.items())


def common(a: Rx, b: Rx) -> Rx:
    """Keys in both languages; `NONE` itself where there are none."""
    if a is b or b is ALL:
        return a
    if a is ALL:
        return b
    both = regular.intersect(a, b)
    return NONE if regular.is_empty(both) else both


def outside(a: Rx, b: Rx) -> Rx:
    """Keys of `a` that are not in `b`; `NONE` itself where there are none."""
    if b is NONE:
        return a
    left = regular.difference(a, b)
    return NONE if regular.is_empty(left) else left


def settle_witnesses(shape: ObjectShape) -> Sequence[ObjectShape]:
    """Replace witnesses that only declared properties can serve by alternatives that require one of them."""
    for witness in shape.witnesses:
        declared = regular.literals([prop.name for prop in shape.properties])
        if any(common(outside(group.names, declared), witness.names) is not NONE for group in shape.groups):
            continue
        others = [other for other in shape.witnesses if other is not witness]
        settled: list[ObjectShape] = []
        for index, prop in enumerate(shape.properties):
            if not has(witness.names, prop.name):
                continue
            value = conjunction(prop.value, witness.value)
            if value.surely_empty():
                continue
            properties = list(shape.properties)
            properties[index] = prop._replace(value=value, required=True)
            one = object_shape(properties, shape.groups, shape.min_properties, shape.max_properties, others)
            if one is not None:
                settled.extend(settle_witnesses(one) if one.witnesses else (one,))
        return settled
    return (shape,)


def object_within(a: ObjectShape, b: ObjectShape) -> bool:
    """A cheap sufficient test that every object of `a` is one of `b`."""
    if b.min_properties and b.min_properties > a.min_properties + sum(prop.required for prop in a.properties):
        return False
    if b.max_properties is not None and (a.max_properties is None or a.max_properties > b.max_properties):
        return False
    if b.groups is not ANY_KEY and a.groups != b.groups:
        return False
    if not set(b.witnesses) <= set(a.witnesses):
        return False
    mine = {prop.name: prop for prop in a.properties}
    for prop in b.properties:
        own = mine.pop(prop.name, None)
        if own is None:
            if prop.required or not implies(group_value(a.groups, prop.name), prop.value):
                return False
        elif (prop.required and not own.required) or not implies(own.value, prop.value):
            return False
    return b.groups is ANY_KEY or all(implies(p.value, group_value(b.groups, p.name)) for p in mine.values())


def complement_object(shape: ObjectShape) -> Sequence[ObjectShape]:
    """Objects that are not of `shape`, one alternative for each way to miss it."""
    missed: list[ObjectShape | None] = []
    declared = regular.literals([prop.name for prop in shape.properties]) if shape.properties else NONE
    for prop in shape.properties:
        if prop.required:
            missed.append(object_shape([Property(prop.name, FALSE, False, prop.declared)], ANY_KEY))
        if prop.value is not TRUE:
            missed.append(object_shape([Property(prop.name, negation(prop.value), True, prop.declared)], ANY_KEY))
    covered = NONE
    for group in shape.groups:
        covered = regular.union(covered, group.names)
        if group.value is not TRUE:
            missed.append(_with_witness(outside(group.names, declared), negation(group.value)))
    if covered is not ALL:
        missed.append(_with_witness(outside(outside(ALL, covered), declared), TRUE))
    if shape.min_properties:
        missed.append(object_shape((), ANY_KEY, 0, shape.min_properties - 1))
    if shape.max_properties is not None:
        missed.append(object_shape((), ANY_KEY, shape.max_properties + 1))
    for witness in shape.witnesses:
        languages = {negation(witness.value): witness.names}
        rest = outside(ALL, witness.names)
        if rest is not NONE:
            languages[TRUE] = rest
        languages.pop(FALSE, None)
        missed.append(object_shape((), key_groups(languages)))  # type: ignore[arg-type]
    return [other for other in missed if other is not None]


def _with_witness(names: Rx, value: Value) -> ObjectShape | None:
    return None if names is NONE else object_shape((), ANY_KEY, 0, None, [KeyWitness(names, value)])
