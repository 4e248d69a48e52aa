"""Instances one by one: how many different values there are where that number may be small.

`uniqueItems` is the keyword that asks: an array of three different items needs three different values.  Sets of
instances, cut off at a bound, grow from nothing until they are stable, which is again a least fixpoint.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import cast

from grammars import regular
from grammars.effort import spend
from grammars.errors import LimitExceeded
from grammars.json_schema.algebra import meet
from grammars.json_schema.cheapest import cheapest_strings, quoted
from grammars.json_schema.feasibility import counting_options, item_at, some_words, undeclared, witness_cells
from grammars.json_schema.formulas import Node, conjunction
from grammars.json_schema.numbers import NUMBER, equal_number_rx, other_number_rx
from grammars.json_schema.object_algebra import has
from grammars.json_schema.shapes import Alternatives, ArrayShape, ObjectShape, Value
from grammars.regular import NONE, Rx

MAX_DISTINCT = 1_000
MAX_STEPS = 50_000


@dataclass(frozen=True, slots=True)
class Instance:
    """A JSON value.

    Attributes:
        text: compact JSON.
        key: equal for two instances exactly where JSON Schema calls them equal.
    """

    text: str
    key: object


def has_distinct_items(shape: ArrayShape) -> bool:
    """Whether an array of this shape with `uniqueItems` can reach `min_items`, counts included."""
    needed = shape.min_items
    nodes = [cast(Node, item_at(shape, index)) for index in range(min(needed, len(shape.prefix) + 1))]
    nodes += nodes[-1:] * (needed - len(nodes)) if needed <= MAX_DISTINCT else []
    if shape.counts:
        return bool(_Sets(needed + 1).arrays(shape, 1))
    tight = [node for node in nodes if not is_endless(node)]
    if not tight:
        return True
    if needed > MAX_DISTINCT:
        raise LimitExceeded(f"more than {MAX_DISTINCT} different items", shape.rest.pointer, "minItems")
    sets = _Sets(needed)
    return _matching([[instance.key for instance in sets.of(node)] for node in tight])


def distinct_array(shape: ArrayShape) -> str | None:
    """A short array of this shape with `uniqueItems`, as compact JSON; the shortest one if its items are scalars."""
    needed = shape.min_items
    if shape.counts:
        found = _Sets(needed + 8).arrays(shape, 8)
        return min((instance.text for instance in found), key=lambda text: len(text.encode()), default=None)
    if needed > MAX_DISTINCT:
        raise LimitExceeded(f"more than {MAX_DISTINCT} different items", shape.rest.pointer, "minItems")
    sets = _Sets(needed)
    choices = [sets.of(cast(Node, item_at(shape, index))) for index in range(needed)]
    chosen = _cheapest_matching(choices)
    return None if chosen is None else "[" + ",".join([instance.text for instance in chosen]) + "]"


def _cheapest_matching(choices: list[list[Instance]]) -> list[Instance] | None:
    """One instance for every position, all different, with the least text: augmenting paths by Bellman-Ford."""
    holder: dict[object, int] = {}
    chosen: list[Instance | None] = [None] * len(choices)
    for start in range(len(choices)):
        # Cost of freeing each key along a path of exchanges that begins at `start`.
        cost: dict[object, int] = {}
        came: dict[object, tuple[int, Instance]] = {}
        queue = deque([(start, 0)])
        while queue:
            position, spent = queue.popleft()
            own = chosen[position]
            back = 0 if own is None else len(own.text.encode())
            for instance in choices[position]:
                if own is not None and instance.key == own.key:
                    continue
                total = spent - back + len(instance.text.encode())
                if total < cost.get(instance.key, total + 1):
                    cost[instance.key] = total
                    came[instance.key] = (position, instance)
                    if instance.key in holder:
                        queue.append((holder[instance.key], total))
        free = [key for key in cost if key not in holder]
        if not free:
            return None
        key = min(free, key=lambda key: cost[key])
        while True:
            position, instance = came[key]
            own = chosen[position]
            chosen[position] = instance
            holder[key] = position
            if position == start:
                break
            assert own is not None
            key = own.key
    return [instance for instance in chosen if instance is not None]


def instances(node: Node, most: int) -> list[Instance]:
    """Different instances of a value: at most `most`, all of them if there are fewer."""
    return _Sets(most).of(node)


def is_endless(node: Node) -> bool:
    """A cheap sufficient test that a value has infinitely many instances."""
    raw = node.raw()
    if raw.string is not NONE and regular.is_endless(raw.string):
        return True
    if raw.number is NUMBER:
        return True
    if any(
        array.max_items is None and not (array.counts or array.unique or array.repeated)
        and all(cast(Node, item).surely_inhabited() for item in (*array.prefix, array.rest))
        for array in raw.arrays
    ):  # fmt: skip
        return True
    return any(
        members.max_properties is None
        and not members.witnesses
        and all(cast(Node, prop.value).surely_inhabited() for prop in members.properties if prop.required)
        and any(
            cast(Node, group.value).surely_inhabited() and regular.is_endless(names)
            for group, names in undeclared(members)
        )
        for members in raw.objects
    )


def _matching(choices: Sequence[Sequence[object]]) -> bool:
    """Whether every position can take a key of its own (augmenting paths)."""
    holder: dict[object, int] = {}

    def place(position: int, tried: set[object]) -> bool:
        for key in choices[position]:
            if key not in tried:
                tried.add(key)
                if key not in holder or place(holder[key], tried):
                    holder[key] = position
                    return True
        return False

    return all(place(position, set()) for position in range(len(choices)))


class _Sets:
    """Growing sets of instances, at most `bound` to a value."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._found: dict[Node, dict[object, Instance]] = {}
        self._scalars: dict[Node, list[Instance]] = {}
        self._final: set[Node] = set()
        self._steps = 0

    def of(self, node: Node) -> list[Instance]:
        """All instances of `node`, or `bound` small ones; smallest first."""
        self._current(node)
        self._settle()
        return list(self._found[node].values())

    def arrays(self, shape: ArrayShape, most: int) -> list[Instance]:
        """Instances of one array shape."""
        found = list(self._arrays(shape, most))
        while self._settle():
            found = list(self._arrays(shape, most))
        return found

    def _settle(self) -> bool:
        """Let all sets grow until they are stable; whether any grew."""
        grew, changed = False, True
        while changed:
            changed, asked = False, len(self._found)
            for node, known in list(self._found.items()):
                if node in self._final:
                    continue
                grown = dict(known)
                for instance in self._evaluate(node):
                    grown.setdefault(instance.key, instance)
                smallest = sorted(grown.values(), key=lambda instance: len(instance.text.encode()))[: self._bound]
                self._found[node] = {instance.key: instance for instance in smallest}
                changed |= self._found[node].keys() != known.keys()
            changed |= len(self._found) > asked  # a new set has not been filled yet
            grew |= changed
        return grew

    def _current(self, node: Node) -> list[Instance]:
        if node not in self._found:
            self._found[node] = {}
        return list(self._found[node].values())

    def _evaluate(self, node: Node) -> Iterator[Instance]:
        raw = node.raw()
        if node not in self._scalars:
            self._scalars[node] = list(_scalars(raw, self._bound))
            if not raw.arrays and not raw.objects:
                self._final.add(node)
        yield from self._scalars[node]
        for array in raw.arrays:
            yield from self._arrays(array, self._bound)
        for members in raw.objects:
            yield from self._objects(members)

    def _step(self, place: Value) -> None:
        self._steps += 1
        spend()
        if self._steps > MAX_STEPS:
            raise LimitExceeded("too many combinations of items to tell whether enough of them differ", place.pointer)

    def _arrays(self, shape: ArrayShape, most: int) -> Iterator[Instance]:
        """Different arrays, short ones first; a depth-first search for each length."""
        longest = max([shape.min_items, len(shape.prefix), *(c.start for c in shape.counts)]) + most + 1
        longest += sum(count.least for count in shape.counts)
        if shape.max_items is not None:
            longest = min(longest, shape.max_items)
        seen = set[object]()
        for length in range(shape.min_items, longest + 1):
            before = len(seen)
            for items in self._items(shape, length, [], [0] * len(shape.counts)):
                if shape.repeated and len({item.key for item in items}) == len(items):
                    continue
                key = ("[", *[item.key for item in items])
                if key not in seen:
                    seen.add(key)
                    yield Instance("[" + ",".join([item.text for item in items]) + "]", key)
                    if len(seen) >= most:
                        return
            if length > len(shape.prefix) and len(seen) == before and not shape.counts and not shape.repeated:
                return  # what cannot be this long cannot be longer

    def _items(
        self, shape: ArrayShape, length: int, items: list[Instance], numbers: list[int]
    ) -> Iterator[list[Instance]]:
        self._step(shape.rest)
        index = len(items)
        if index == length:
            if all(n >= count.least for n, count in zip(numbers, shape.counts, strict=True)):
                yield items
            return
        for value, added in counting_options(item_at(shape, index), shape.counts, index):
            after = [n + more for n, more in zip(numbers, added, strict=True)]
            if any(c.most is not None and n > c.most for n, c in zip(after, shape.counts, strict=True)):
                continue
            for item in self._current(cast(Node, value)):
                if shape.unique and any(item.key == other.key for other in items):
                    continue
                yield from self._items(shape, length, [*items, item], after)

    def _objects(self, shape: ObjectShape) -> Iterator[Instance]:
        """Different objects: a table by number of properties and witnesses served, filled key by key."""
        witnesses = shape.witnesses
        keys: list[tuple[str, Value, bool]] = [(prop.name, prop.value, prop.required) for prop in shape.properties]
        extra = max(self._bound, shape.min_properties) + len(witnesses)
        for group, names in undeclared(shape):
            for cell in witness_cells(names, witnesses):
                keys += [(word, group.value, False) for word in some_words(cell, extra)]
        limit = shape.max_properties if shape.max_properties is not None else len(keys)
        table: dict[tuple[int, int], dict[object, dict[str, Instance]]] = {(0, 0): {frozenset(): {}}}
        for name, value, required in keys:
            options = _witness_options(name, value, shape)
            grown: dict[tuple[int, int], dict[object, dict[str, Instance]]] = {} if required else {
                state: dict(some) for state, some in table.items()
            }  # fmt: skip
            for (size, served), some in table.items():
                if size >= limit:
                    continue
                for option, mark in options:
                    cell_ = grown.setdefault((size + 1, served | mark), {})
                    for instance in self._current(cast(Node, option)):
                        for members in some.values():
                            if len(cell_) >= self._bound:
                                break
                            self._step(value)
                            bigger = {**members, name: instance}
                            cell_[frozenset((k, i.key) for k, i in bigger.items())] = bigger
            table = grown
        complete = (1 << len(witnesses)) - 1
        for (size, served), some in sorted(table.items(), key=lambda entry: entry[0]):
            if size >= shape.min_properties and served == complete:
                for key, members in some.items():
                    yield Instance(_object_text(members), key)


def _scalars(raw: Alternatives, most: int) -> Iterator[Instance]:
    for literal in sorted(raw.literals):
        yield Instance(literal, (json.loads(literal),))
    yield from numbers(raw.number, most)
    for word in cheapest_strings(raw.string, most):
        yield Instance(quoted(word), word)


def _object_text(members: dict[str, Instance]) -> str:
    return "{" + ",".join([f"{quoted(k)}:{i.text}" for k, i in members.items()]) + "}"


def _witness_options(name: str, value: Value, shape: ObjectShape) -> list[tuple[Value, int]]:
    """What the value under `name` may be, and the witnesses (as bits) that it then serves."""
    options = [(value, 0)]
    for index, witness in enumerate(shape.witnesses):
        if has(witness.names, name):
            options += [(conjunction(option, witness.value), mark | 1 << index) for option, mark in options]
    return options


def numbers(rx: Rx, most: int) -> Iterator[Instance]:
    """Numbers of a language, different by value; at most `most`."""
    while most > 0:
        text = regular.shortest(rx)
        if text is None:
            return
        value = Decimal(text)
        yield Instance(text, value)
        most -= 1
        rx = meet(rx, other_number_rx(equal_number_rx(value)), NUMBER)
