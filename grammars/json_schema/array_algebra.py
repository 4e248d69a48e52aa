"""Array shapes: normal form, intersection, complement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from grammars.json_schema.formulas import FALSE, TRUE, Node, conjunction, implies, negation
from grammars.json_schema.shapes import ArrayShape, ItemCount, Value

ANY_ARRAY = ArrayShape((), TRUE)


def array_shape(
    prefix: Iterable[Value],
    rest: Value,
    least: int = 0,
    most: int | None = None,
    counts: Iterable[ItemCount] = (),
    unique: bool = False,
    repeated: bool = False,
) -> ArrayShape | None:
    """The shape in normal form, so that equal shapes compare equal; `None` where it is a contradiction on its face."""
    items = list(prefix)
    kept: dict[ItemCount, None] = {}
    for count in counts:
        if count.value is TRUE:  # a bound on the length
            if count.least:
                least = max(least, count.start + count.least)
            if count.most is not None:
                most = _smaller(most, count.start + count.most)
        elif count.value is FALSE:
            if count.least:
                return None
        elif count.most is not None and count.most < count.least:
            return None
        elif count.least or count.most is not None:
            least = max(least, count.start + count.least if count.least else 0)
            kept[count] = None
    for index, item in enumerate(items):
        if item is FALSE:
            most = _smaller(most, index)
            break
    if rest is FALSE:
        most = _smaller(most, len(items))
    if repeated:
        if unique:
            return None
        least = max(least, 2)
    if most is not None:
        if least > most:
            return None
        if most <= len(items):
            del items[most:]
            rest = FALSE
        if unique and most < 2:
            unique = False
    while items and items[-1] is rest:
        items.pop()
    if rest is FALSE and most == len(items):
        most = None  # said by `rest` already
    return ArrayShape(tuple(items), rest, least, most, tuple(kept), unique, repeated)


def _smaller(most: int | None, other: int | None) -> int | None:
    if most is None or other is None:
        return other if most is None else most
    return min(most, other)


def intersect_arrays(a: ArrayShape, b: ArrayShape) -> ArrayShape | None:
    """The arrays of both; `None` where that is a contradiction on its face."""
    if a is b or b is ANY_ARRAY:
        return a
    if a is ANY_ARRAY:
        return b
    rest = conjunction(a.rest, b.rest)
    prefix: list[Value] = []
    least = max(a.min_items, b.min_items)
    for index, (x, y) in enumerate(zip_longest(a.prefix, b.prefix)):
        item = conjunction(a.rest if x is None else x, b.rest if y is None else y)
        if index < least and _contradicts(item, x, y):
            return None
        prefix.append(item)
    if least > len(prefix) and _contradicts(rest, a.rest, b.rest):
        return None
    return array_shape(
        prefix,
        rest,
        least,
        _smaller(a.max_items, b.max_items),
        (*a.counts, *b.counts),
        a.unique or b.unique,
        a.repeated or b.repeated,
    )


def _contradicts(item: Node, x: Value | None, y: Value | None) -> bool:
    """Whether an item that must be there cannot be, as far as a short look tells; only news is looked at."""
    return item is not x and item is not y and item.surely_empty()


def array_within(a: ArrayShape, b: ArrayShape) -> bool:
    """A cheap sufficient test that every array of `a` is one of `b`."""
    if a.min_items < b.min_items or (b.unique and not a.unique) or (b.repeated and not a.repeated):
        return False
    longest = a.max_items if a.rest is not FALSE else len(a.prefix)
    if b.max_items is not None and (longest is None or longest > b.max_items):
        return False
    return (
        set(b.counts) <= set(a.counts)
        and implies(a.rest, b.rest)
        and all(
            implies(a.rest if x is None else x, b.rest if y is None else y) for x, y in zip_longest(a.prefix, b.prefix)
        )
    )


def complement_array(shape: ArrayShape) -> Sequence[ArrayShape]:
    """Arrays that are not of `shape`, one alternative for each way to miss it."""
    missed: list[ArrayShape | None] = []
    if shape.min_items:
        missed.append(array_shape((), TRUE, 0, shape.min_items - 1))
    if shape.max_items is not None:
        missed.append(array_shape((), TRUE, shape.max_items + 1))
    for index, item in enumerate(shape.prefix):
        if item is not TRUE:
            missed.append(array_shape([TRUE] * index + [negation(item)], TRUE, index + 1))
    start = len(shape.prefix)
    if shape.rest is FALSE:
        missed.append(array_shape((), TRUE, start + 1))
    elif shape.rest is not TRUE:
        missed.append(array_shape((), TRUE, 0, None, [ItemCount(negation(shape.rest), 1, None, start)]))
    for count in shape.counts:
        if count.least:
            missed.append(array_shape((), TRUE, 0, None, [ItemCount(count.value, 0, count.least - 1, count.start)]))
        if count.most is not None:
            missed.append(array_shape((), TRUE, 0, None, [ItemCount(count.value, count.most + 1, None, count.start)]))
    if shape.unique:
        missed.append(array_shape((), TRUE, repeated=True))
    if shape.repeated:
        missed.append(array_shape((), TRUE, unique=True))
    return [other for other in missed if other is not None]
