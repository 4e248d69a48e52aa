"""A shortest JSON document of a value, in bytes of compact JSON: what a budget must leave room for.

Knuth's generalisation of Dijkstra's algorithm ("A generalization of Dijkstra's algorithm", 1977) in a lazy form: the
best known size of a value improves as the values that its shapes need improve, and shapes that cannot beat what is
known already are never looked into.  Sizes are exact, with one exception: where `uniqueItems` asks for several
different arrays or objects in one array, or meets `contains`, they are small, not always smallest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

from grammars import regular
from grammars.effort import spend
from grammars.errors import EmptyLanguage, LimitExceeded
from grammars.json_schema.cheapest import cheapest_string, quoted
from grammars.json_schema.feasibility import (
    MAX_STEPS,
    counting_caps,
    counting_horizon,
    counting_options,
    item_at,
    some_words,
    undeclared,
    witness_cells,
)
from grammars.json_schema.formulas import LOCK, Node, conjunction
from grammars.json_schema.instances import distinct_array
from grammars.json_schema.object_algebra import has
from grammars.json_schema.shapes import ArrayShape, ObjectShape, Value
from grammars.regular import NONE

MAX_DOCUMENT = 1 << 24  # bytes of a document that is really written out


@dataclass(frozen=True, slots=True)
class Items:
    """An array of shortest documents, `repeat` times the last one."""

    parts: tuple[Node | str, ...]
    repeat: int = 1


@dataclass(frozen=True, slots=True)
class Members:
    """An object of shortest documents."""

    parts: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class Shortest:
    """How a shortest document is made.

    Attributes:
        size: its bytes.
        plan: its text, or its parts.
    """

    size: int
    plan: str | Items | Members


Ask = Callable[[Value], int | None]  # the best size known so far; None: no instance is known


def shortest_size(value: Value) -> int | None:
    """Bytes of a shortest document in compact JSON (UTF-8); `None` if the value is empty."""
    with LOCK:
        found = _solve(cast(Node, value))
    return None if found is None else found.size


def shortest_document(value: Value) -> bytes:
    """A shortest document in compact JSON; properties in the order of their shape, then undeclared keys.

    Raises `EmptyLanguage` if there is none, `LimitExceeded` if it is longer than 16 MiB.
    """
    with LOCK:
        found = _solve(cast(Node, value))
        if found is None:
            raise EmptyLanguage("no JSON value satisfies the schema", value.pointer)
        if found.size > MAX_DOCUMENT:
            raise LimitExceeded(f"the shortest document has {found.size} bytes", value.pointer)
        return "".join(_written(found.plan)).encode()


def _written(plan: str | Items | Members) -> Iterator[str]:
    """The text of a plan; with a stack of its own, as documents may be deep."""
    stack: list[str | Items | Members] = [plan]
    while stack:
        top = stack.pop()
        if isinstance(top, str):
            yield top
            continue
        pieces: list[str | Items | Members] = []
        if isinstance(top, Items):
            for part in (*top.parts, *top.parts[-1:] * (top.repeat - 1)):
                pieces += [",", part if isinstance(part, str) else _known(part).plan]
        else:
            for name, node in top.parts:
                pieces += [",", quoted(name) + ":", _known(node).plan]
        opening, closing = "[]" if isinstance(top, Items) else "{}"
        stack += [closing, *reversed(pieces[1:]), opening]


def _known(node: Node) -> Shortest:
    assert node.shortest is not None
    return node.shortest


def _solve(goal: Node) -> Shortest | None:
    """The shortest document of `goal`; kept on every node that was looked into on the way."""
    if goal.shortest is not None or goal.is_empty():
        return goal.shortest
    best: dict[Node, Shortest] = {}
    waiting: dict[Node, dict[Node, None]] = {}
    seen = {goal: None}
    todo = [goal]
    again: dict[Node, None] = {}
    while todo or again:
        # What is new comes first; whoever waits for it is asked again once, when all of it has been.
        node = todo.pop() if todo else again.popitem()[0]
        again.pop(node, None)
        spend()
        asked: dict[Node, None] = {}

        def ask(value: Value, asked: dict[Node, None] = asked) -> int | None:
            other = cast(Node, value)
            if other.shortest is not None:
                return other.shortest.size
            asked[other] = None
            known = best.get(other)
            return None if known is None else known.size

        found = _best_of(node, ask, best.get(node))
        for other in asked:
            waiting.setdefault(other, {})[node] = None
            if other not in seen:
                seen[other] = None
                todo.append(other)
        if found is not None and (node not in best or found.size < best[node].size):
            best[node] = found
            again.update(waiting.get(node, ()))
    for node, found in best.items():
        node.shortest = found
    return goal.shortest


def _best_of(node: Node, ask: Ask, best: Shortest | None) -> Shortest | None:
    raw = node.raw()
    if best is None:
        best = _scalar(node)
    for array in raw.arrays:
        if best is None or best.size > 2 + 2 * array.min_items - (array.min_items > 0):
            best = _smaller(best, _array(array, ask))
    for members in raw.objects:
        if best is None or best.size > 2 + sum([len(p.name) + 5 for p in members.properties if p.required]):
            best = _smaller(best, _object(members, ask))
    return best


def _smaller(a: Shortest | None, b: Shortest | None) -> Shortest | None:
    if a is None or b is None:
        return b if a is None else a
    return b if b.size < a.size else a


def _scalar(node: Node) -> Shortest | None:
    raw = node.raw()
    texts: list[str] = []
    if raw.number is not NONE:
        number = regular.shortest(raw.number)
        assert number is not None
        texts.append(number)
    if raw.literals and min(map(len, texts), default=9) > 4:
        texts.append(min(raw.literals, key=lambda literal: (len(literal), literal)))
    if raw.string is not NONE and min(map(len, texts), default=9) > 2:
        texts.append(quoted(cheapest_string(raw.string)))
    sizes = [(len(text.encode()), text) for text in texts]
    return Shortest(*min(sizes, key=lambda pair: pair[0])) if sizes else None


# ---- arrays


def _array(shape: ArrayShape, ask: Ask) -> Shortest | None:
    if shape.unique and (shape.min_items > 1 or shape.counts):
        text = distinct_array(shape)
        return None if text is None else Shortest(len(text.encode()), text)
    if shape.counts or shape.repeated:
        return _counted(shape, ask)
    nodes = [cast(Node, node) for node in shape.prefix[: shape.min_items]]
    size = 1 + max(1, shape.min_items)
    for node in nodes:
        part = ask(node)
        if part is None:
            return None
        size += part
    more = shape.min_items - len(nodes)
    if more:
        part = ask(shape.rest)
        if part is None:
            return None
        size += more * part
        nodes.append(cast(Node, shape.rest))
    return Shortest(size, Items(tuple(nodes), max(1, more)))


_State = tuple[tuple[int, ...], Node | bool | None]
_Way = tuple[int, tuple[Node, ...], int]  # size, items, index of the first of two equal ones (or -1)


def _counted(shape: ArrayShape, ask: Ask) -> Shortest | None:
    """Least size over (counts so far, the value to be repeated), index by index; see `feasibility`."""
    caps, horizon = counting_caps(shape), counting_horizon(shape)
    states: dict[_State, _Way] = {((0,) * len(caps), None if shape.repeated else True): (0, (), -1)}
    best: _Way | None = None
    steps = 0
    for index in range(horizon + 1):
        for (numbers, twin), way in states.items():
            enough = all(n >= count.least for n, count in zip(numbers, shape.counts, strict=True))
            if index >= shape.min_items and twin is True and enough:
                total = way[0] + max(1, index)
                if best is None or total < best[0] + max(1, len(best[1])):
                    best = way
        if index == horizon:
            break
        following: dict[_State, _Way] = {}
        for value, added in counting_options(item_at(shape, index), shape.counts, index):
            node = cast(Node, value)
            for (numbers, twin), (size, items, first) in states.items():
                steps += 1
                if steps > MAX_STEPS:
                    raise LimitExceeded("too many ways to count the items of an array", shape.rest.pointer)
                after = tuple(map(min, map(int.__add__, numbers, added), caps))
                if any(c.most is not None and n > c.most for n, c in zip(after, shape.counts, strict=True)):
                    continue
                own = ask(node)
                if own is None:
                    continue
                moves: list[tuple[_State, _Way]] = [((after, twin), (size + own, (*items, node), first))]
                if twin is None:
                    moves.append(((after, node), (size, (*items, node), index)))
                elif isinstance(twin, Node):
                    both = conjunction(twin, node)
                    shared = ask(both)
                    if shared is not None:
                        paired = (*items[:first], both, *items[first + 1 :], both)
                        moves.append(((after, True), (size + 2 * shared, paired, first)))
                for state, way in moves:
                    if state not in following or way[0] < following[state][0]:
                        following[state] = way
        states = following
    return None if best is None else Shortest(best[0] + 1 + max(1, len(best[1])), Items(best[1]))


# ---- objects


def _object(shape: ObjectShape, ask: Ask) -> Shortest | None:
    chosen: dict[str, Node] = {}
    for prop in shape.properties:
        if prop.required:
            if ask(prop.value) is None:
                return None
            chosen[prop.name] = cast(Node, prop.value)
    if shape.witnesses:
        return _witnessed(shape, chosen, ask)
    return _filled(shape, chosen, ask)


def _filled(shape: ObjectShape, chosen: dict[str, Node], ask: Ask) -> Shortest | None:
    """The members that are chosen and as many of the cheapest others as `min_properties` asks for."""
    missing = shape.min_properties - len(chosen)
    if missing > 0:
        spare = [(prop.name, cast(Node, prop.value)) for prop in shape.properties if prop.name not in chosen]
        for group, names in undeclared(shape):
            taken = regular.literals(list(chosen)) if chosen else NONE
            fresh = regular.difference(names, taken)
            if ask(group.value) is not None:
                spare += [(word, cast(Node, group.value)) for word in some_words(fresh, missing)]
        priced = [(len(quoted(name).encode()) + size, name, node)
                  for name, node in spare if (size := ask(node)) is not None]  # fmt: skip
        if len(priced) < missing:
            return None
        chosen = chosen | {name: node for _, name, node in sorted(priced, key=lambda entry: entry[0])[:missing]}
    size = 1 + max(1, len(chosen))
    for name, node in chosen.items():
        own = ask(node)
        if own is None:
            return None
        size += len(quoted(name).encode()) + 1 + own
    order = {prop.name: index for index, prop in enumerate(shape.properties)}
    parts = sorted(chosen.items(), key=lambda member: order.get(member[0], len(order)))
    return Shortest(size, Members(tuple(parts)))


def _witnessed(shape: ObjectShape, required: dict[str, Node], ask: Ask) -> Shortest | None:
    """The cheapest way to give every witness a key."""
    hosts = {prop.name: cast(Node, prop.value) for prop in shape.properties}
    for group, names in undeclared(shape):
        for cell in witness_cells(names, shape.witnesses):
            hosts.update(dict.fromkeys(some_words(cell, len(shape.witnesses)), cast(Node, group.value)))
    best: Shortest | None = None

    def place(index: int, chosen: dict[str, Node]) -> None:
        nonlocal best
        if index == len(shape.witnesses):
            if shape.max_properties is None or len(chosen) <= shape.max_properties:
                best = _smaller(best, _filled(shape, chosen, ask))
            return
        witness = shape.witnesses[index]
        for name, value in hosts.items():
            if has(witness.names, name):
                both = conjunction(chosen.get(name, value), witness.value)
                if ask(both) is not None:
                    place(index + 1, {**chosen, name: both})

    place(0, required)
    return best
