"""Whether a value has instances: a least fixpoint over the graph of values, explored only as far as the answer needs.

Everything starts out as "no instance known".  A value has one as soon as one of its shapes has; a shape asks for the
values that it cannot do without.  What asks for itself and for nothing else stays without, which is the least
fixpoint: an object that requires itself does not exist, one that may hold itself does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from grammars.effort import spend
from grammars.errors import EmptyLanguage
from grammars.json_schema.feasibility import Probe, array_inhabited, object_inhabited
from grammars.json_schema.formulas import Node
from grammars.json_schema.shapes import Alternatives, ArrayShape, ObjectShape, Value
from grammars.regular import NONE


def inhabited_part(node: Node) -> Alternatives:
    """The raw shapes of `node` without those that no value satisfies; the caller holds the lock."""
    raw = node.raw()
    arrays = tuple([shape for shape in raw.arrays if _has_array(shape)])
    objects = tuple([shape for shape in raw.objects if _has_object(shape)])
    if len(arrays) == len(raw.arrays) and len(objects) == len(raw.objects):
        kept = raw
    else:
        kept = Alternatives(raw.literals, raw.number, raw.string, arrays, objects)
    node.settle(not (arrays or objects or _has_scalar(kept)))
    return kept


def _has_array(shape: ArrayShape) -> bool:
    if not shape.min_items and not shape.counts:
        return True
    return _answer(lambda probe: array_inhabited(shape, probe))


def _has_object(shape: ObjectShape) -> bool:
    if not shape.min_properties and not shape.witnesses:
        doubtful = [prop for prop in shape.properties if prop.required and not _plainly_inhabited(prop.value)]
        if not doubtful:
            return True
    return _answer(lambda probe: object_inhabited(shape, probe))


def _plainly_inhabited(value: Value) -> bool:
    node = cast(Node, value)
    return node.known_empty() is False or node.surely_inhabited()


def _has_scalar(alternatives: Alternatives) -> bool:
    return bool(alternatives.literals) or alternatives.number is not NONE or alternatives.string is not NONE


def _inhabited(node: Node, probe: Probe) -> bool:
    if _has_scalar(node.scalars()):
        return True
    raw = node.raw()
    return any(array_inhabited(shape, probe) for shape in raw.arrays) or any(
        object_inhabited(shape, probe) for shape in raw.objects
    )


def _probe(value: Value, asked: list[Node]) -> bool:
    """Whether `value` is known to have instances; what is not known yet is noted in `asked`."""
    node = cast(Node, value)
    if node.known_empty() is None and node.surely_inhabited():
        node.settle(False)
    empty = node.known_empty()
    if empty is None:
        asked.append(node)
    return empty is False


def _answer(question: Callable[[Probe], bool]) -> bool:
    """The answer to a monotone question about values, deciding what stands in its way."""
    while True:
        asked: list[Node] = []
        if question(lambda value: _probe(value, asked)):  # noqa: B023 - asked within this round only
            return True
        if not asked:
            return False
        for node in asked:
            decide(node)


def decide(goal: Node) -> bool:
    """Whether `goal` is empty; the caller holds the lock.  What is decided on the way is kept on its nodes."""
    if (known := goal.known_empty()) is not None:
        return known
    waiting: dict[Node, dict[Node, None]] = {}  # whom to ask again once this node turns out inhabited
    seen = {goal: None}
    todo, planned = [goal], {goal}
    while todo:
        node = todo.pop()
        planned.discard(node)
        if node.known_empty() is not None:
            continue
        spend()
        asked: list[Node] = []
        if _inhabited(node, lambda value: _probe(value, asked)):  # noqa: B023 - asked within this round only
            node.settle(False)
            if node is goal:
                return False
            again = [other for other in waiting.pop(node, ()) if other not in planned]
            planned.update(again)
            todo.extend(again)
            continue
        fresh = [other for other in asked if other not in seen]
        if fresh:  # to be asked again once, when all of these have been
            planned.update((node, *fresh))
            todo += [node, *fresh]
            seen.update(dict.fromkeys(fresh))
        for other in asked:
            waiting.setdefault(other, {})[node] = None
    # Nothing is left to try: what has no instance by now is in want of something that has none either.
    for node in seen:
        if node.known_empty() is None:
            node.settle(True)
    return cast(bool, goal.known_empty())


def check_root(value: Value) -> None:
    """Raise `EmptyLanguage` if no JSON document satisfies the value; the message names the innermost contradiction."""
    if value.is_empty():
        raise EmptyLanguage("no JSON value satisfies the schema", contradiction(cast(Node, value)).pointer)


def contradiction(node: Node) -> Node:
    """The innermost empty value that an empty value cannot do without, as far as a single one is to blame."""
    seen = set[Node]()
    while node not in seen:
        seen.add(node)
        raw = node.raw()
        blamed: list[Node] = []
        for members in raw.objects:
            blamed += [cast(Node, p.value) for p in members.properties if p.required and p.value.is_empty()][:1]
        for shape in raw.arrays:
            items = [*shape.prefix, shape.rest][: shape.min_items or 1]
            blamed += [cast(Node, item) for item in items if item.is_empty()][:1]
        if len(blamed) != 1 or len(raw.objects) + len(raw.arrays) != 1 or not blamed[0].pointer:
            break
        node = blamed[0]
    return node
