"""Whether one shape has an instance, given which of its values have: questions monotone in their answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from grammars import regular
from grammars.effort import spend
from grammars.errors import LimitExceeded
from grammars.json_schema.formulas import conjunction, negation
from grammars.json_schema.object_algebra import common, has, outside
from grammars.json_schema.shapes import ArrayShape, ItemCount, KeyGroup, KeyWitness, ObjectShape, Value
from grammars.regular import NONE, Rx

Probe = Callable[[Value], bool]

MAX_COUNTS = 6
MAX_WITNESSES = 5
MAX_STEPS = 20_000


def item_at(shape: ArrayShape, index: int) -> Value:
    """What the item at an index must satisfy, counts apart."""
    return shape.prefix[index] if index < len(shape.prefix) else shape.rest


def array_inhabited(shape: ArrayShape, probe: Probe) -> bool:
    """Whether some array is of this shape."""
    from grammars.json_schema.instances import has_distinct_items

    if not all([probe(item_at(shape, index)) for index in range(min(shape.min_items, len(shape.prefix) + 1))]):
        return False
    if shape.unique and (shape.min_items > 1 or shape.counts):
        return has_distinct_items(shape)
    if shape.counts or shape.repeated:
        return _counted(shape, probe)
    return True


def counting_options(base: Value, counts: Sequence[ItemCount], index: int) -> Iterator[tuple[Value, tuple[int, ...]]]:
    """The ways in which the item at `index` may count: what it must satisfy, and its addition to every count.

    A count with a lower bound alone may leave a satisfying item out, one with an upper bound alone may count an item
    that does not satisfy: neither needs both sides of the question.
    """
    options: list[tuple[Value, tuple[int, ...]]] = [(base, ())]
    for count in counts:
        active = index >= count.start
        grown: list[tuple[Value, tuple[int, ...]]] = []
        for value, added in options:
            if not active:
                grown.append((value, (*added, 0)))
            elif count.most is None:
                grown += [(conjunction(value, count.value), (*added, 1)), (value, (*added, 0))]
            elif not count.least:
                grown += [(conjunction(value, negation(count.value)), (*added, 0)), (value, (*added, 1))]
            else:
                grown.append((conjunction(value, count.value), (*added, 1)))
                grown.append((conjunction(value, negation(count.value)), (*added, 0)))
        options = grown
    yield from options


def counting_caps(shape: ArrayShape) -> list[int]:
    """How far each count is worth following: its least number, or one more than its most."""
    if len(shape.counts) > MAX_COUNTS:
        raise LimitExceeded(f"more than {MAX_COUNTS} conditions on how many items satisfy a schema", shape.rest.pointer)
    return [count.least if count.most is None else count.most + 1 for count in shape.counts]


def counting_horizon(shape: ArrayShape) -> int:
    """No array of the shape needs more items than this to satisfy its counts and repetition."""
    horizon = max([shape.min_items, len(shape.prefix), *(count.start for count in shape.counts)])
    horizon += sum(count.least for count in shape.counts) + 2 * shape.repeated
    return horizon if shape.max_items is None else min(horizon, shape.max_items)


def _counted(shape: ArrayShape, probe: Probe) -> bool:
    """Reachability over (index, counts so far, the value that is to be repeated)."""
    caps, horizon = counting_caps(shape), counting_horizon(shape)
    # The twin: None before the first of two equal items, then its value, then True.
    start: tuple[tuple[int, ...], Value | bool | None] = ((0,) * len(caps), None if shape.repeated else True)
    states = {start: None}
    steps = 0
    for index in range(horizon + 1):
        if index >= shape.min_items and any(
            twin is True and all(n >= c.least for n, c in zip(numbers, shape.counts, strict=True))
            for numbers, twin in states
        ):
            return True
        if index == horizon:
            break
        following: dict[tuple[tuple[int, ...], Value | bool | None], None] = {}
        for value, added in counting_options(item_at(shape, index), shape.counts, index):
            possible: bool | None = None
            for numbers, twin in states:
                steps += 1
                spend()
                if steps > MAX_STEPS:
                    raise LimitExceeded("too many ways to count the items of an array", shape.rest.pointer)
                after = tuple(map(min, map(int.__add__, numbers, added), caps))
                if any(c.most is not None and n > c.most for n, c in zip(after, shape.counts, strict=True)):
                    continue
                if possible is None:
                    possible = probe(value)
                if not possible:
                    break
                following[(after, twin)] = None
                if twin is None:
                    following[(after, value)] = None
                elif twin is not True and not isinstance(twin, bool) and probe(conjunction(twin, value)):
                    following[(after, True)] = None
        states = following
    return False


# ---- objects


def object_inhabited(shape: ObjectShape, probe: Probe) -> bool:
    """Whether some object is of this shape."""
    # All at once, not up to the first failure: whoever asks can then decide them in one go.
    present = [probe(prop.value) for prop in shape.properties if prop.required]
    required = len(present)
    if not all(present):
        return False
    if shape.min_properties > required:
        free = shape.min_properties - required
        if sum(1 for _ in islice(_spare_keys(shape, probe, free), free)) < free:
            return False
    return not shape.witnesses or _witnessed(shape, probe)


def _spare_keys(shape: ObjectShape, probe: Probe, enough: int) -> Iterator[str]:
    """Keys that an object may hold beyond the required ones, at most `enough` from every group."""
    for prop in shape.properties:
        if not prop.required and probe(prop.value):
            yield prop.name
    for group, names in undeclared(shape):
        if probe(group.value):
            yield from some_words(names, enough)


def undeclared(shape: ObjectShape) -> Iterator[tuple[KeyGroup, Rx]]:
    """Every group with its keys that are no declared properties, where there are any."""
    declared = regular.literals([prop.name for prop in shape.properties]) if shape.properties else NONE
    for group in shape.groups:
        names = outside(group.names, declared)
        if names is not NONE:
            yield group, names


def some_words(rx: Rx, number: int) -> Iterator[str]:
    """Up to `number` different words of a language, short ones first."""
    while number > 0:
        word = regular.shortest(rx)
        if word is None:
            return
        yield word
        number -= 1
        rx = regular.difference(rx, regular.literal(word))


def _witnessed(shape: ObjectShape, probe: Probe) -> bool:
    """Whether every witness finds a key, within `max_properties` keys."""
    witnesses = shape.witnesses
    if len(witnesses) > MAX_WITNESSES:
        raise LimitExceeded(f"more than {MAX_WITNESSES} properties must exist somewhere", witnesses[0].value.pointer)
    required = {prop.name for prop in shape.properties if prop.required}
    hosts: dict[str, Value] = {prop.name: prop.value for prop in shape.properties}
    for group, names in undeclared(shape):
        for cell in witness_cells(names, witnesses):
            # As many keys as there are witnesses are as good as all of them.
            hosts.update(dict.fromkeys(some_words(cell, len(witnesses)), group.value))

    def place(index: int, chosen: dict[str, Value]) -> bool:
        if index == len(witnesses):
            size = len(required | chosen.keys())
            return shape.max_properties is None or size <= shape.max_properties
        witness = witnesses[index]
        for name, value in hosts.items():
            if has(witness.names, name):
                both = conjunction(chosen.get(name, value), witness.value)
                if probe(both) and place(index + 1, {**chosen, name: both}):
                    return True
        return False

    return place(0, {})


def witness_cells(names: Rx, witnesses: Sequence[KeyWitness]) -> list[Rx]:
    """A language of keys split by the witnesses that the keys may serve."""
    cells = [names]
    for witness in witnesses:
        split = [part for cell in cells for part in (common(cell, witness.names), outside(cell, witness.names))]
        cells = [cell for cell in split if cell is not NONE]
    return cells
