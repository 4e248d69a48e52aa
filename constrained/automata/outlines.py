"""A way to the end of a JSON document, worked out value by value where a search would go byte by byte.

What an object or an array is short of is a shape again: the members that are left, the counts that are still to be met.  The
shortest document of that shape, less what has been read, finishes the frame.  Frames are finished from the top down, which
any way to leave one allows.  The texts are short, not always shortest: alternatives that a document would meet at once are
finished one at a time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

from constrained.automata import a_labels, arrays, held, keys, objects, scalars, strings, values
from constrained.automata.children import Progress, survivors
from constrained.automata.constants import Among, But, is_array, key_of, parsed
from constrained.automata.excluded import ArrayBut, ObjectBut
from constrained.automata.item_plans import ItemPlan, Items, LinkedItems
from constrained.automata.linked_members import LinkedMembers, Members, Plan
from constrained.automata.machine import Machine, expand_literal
from constrained.automata.object_frames import ObjectFrame
from constrained.automata.property_plans import loose_end, seen_names, unknown_names
from grammars.errors import GrammarError
from grammars.json_schema.cheapest import cheapest_string, quoted
from grammars.json_schema.formulas import LOCK, SHARED, Given, Node
from grammars.json_schema.instances import instances
from grammars.json_schema.object_algebra import object_shape
from grammars.json_schema.scalars import constants
from grammars.json_schema.shapes import Alternatives, ArrayShape, ItemCount, KeyGroup, ObjectShape, Value
from grammars.json_schema.shortest import shortest_document
from grammars.regular import NONE, Rx, difference, is_empty, literals, shortest

Ways = Iterator[bytes]

MOST_WAYS = 8
_MOST_BYTES = 1 << 16


class Outlines:
    """For the states of one machine, texts that finish what they are in."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._texts: dict[int, tuple[bytes, ...]] = {}

    def texts(self, state: int) -> tuple[bytes, ...]:
        """Texts that lead from `state` to the end of its frame, or to where what it is in has come further, short ones first.

        One for each way that may make a difference afterwards, `MOST_WAYS` at most.  Empty is the text of a frame that can
        be left as it is.  There are none where nothing is known of the state.
        """
        found = self._texts.get(state)
        if found is None:
            key = self._machine.key(state)
            rule = _RULES.get(key[0])
            made: list[bytes] = []
            if rule is not None:
                try:
                    for text in rule(*key[1:]):
                        made.append(text)
                        if len(made) == MOST_WAYS:
                            break
                except (GrammarError, UnicodeEncodeError):
                    pass  # what has been found so far will do
            made = [text for text in dict.fromkeys(made) if len(text) <= _MOST_BYTES]
            found = self._texts[state] = tuple(sorted(made, key=len))
        return found


# ---- scalars and keys


def _literal(data: bytes, _then: int, offset: int) -> Ways:
    yield data[offset:]


def _number(languages: tuple[Rx, ...]) -> Ways:
    for rx in languages:
        if rx is not NONE and (word := shortest(rx)) is not None:
            yield word.encode()


def _string(canonical: bool, languages: tuple[Rx, ...]) -> Ways:
    for rx in languages:
        if strings.in_label(canonical, languages):
            rest = a_labels.ending(rx)
            if rest is not None:
                yield rest.encode() + b'"'
        elif not is_empty(rx):
            yield quoted(cheapest_string(rx))[1:].encode()


def _unknown_label(_canonical: bool, rx: Rx, _length: int) -> Ways:
    rest = a_labels.ending(rx)
    if rest is not None:
        yield rest.encode() + b'"'


def _after_hyphen(_canonical: bool, rx: Rx, _code: int, _to: Rx) -> Ways:
    rest = a_labels.ending(rx)
    if rest is not None:
        yield rest[1:].encode() + b'"'


def _after_label(canonical: bool, _rx: Rx, _code: int, to: Rx) -> Ways:
    return _string(canonical, (to,))


def _after_string(*_: Any) -> Ways:
    yield b""


def _held_number(parts: held.Parts) -> Ways:
    return _number(tuple([rx for rx, _ in parts[:MOST_WAYS]]))


def _held_string(canonical: bool, parts: held.Parts) -> Ways:
    return _string(canonical, tuple([rx for rx, _ in parts[:MOST_WAYS]]))


def _words(names: keys.WordList, first: int, end: int, depth: int) -> Ways:
    for word, _ in names.words[first:end]:
        yield word[depth:]


# ---- values


def _value(_style: Any, wanted: tuple[Value, ...]) -> Ways:
    for value in wanted:
        yield from _document(value)


def _spaced(gap: Rx, style: Any, wanted: tuple[Value, ...]) -> Ways:
    return _after_gap(gap, _value(style, wanted))


def _alternatives(_style: Any, each: tuple[Alternatives, ...]) -> Ways:
    for here in each:
        yield from _of_shapes(here)


def _spaced_alternatives(gap: Rx, style: Any, each: tuple[Alternatives, ...]) -> Ways:
    return _after_gap(gap, _alternatives(style, each))


def _after_gap(gap: Rx, texts: Ways) -> Ways:
    space = (shortest(gap) or "").encode()
    for text in texts:
        yield space + text


def _document(value: Value) -> Ways:
    """A short document of a value, if it has one."""
    if value.is_empty():
        return
    if isinstance(value, Among):
        yield min([_written(key).encode() for key in value.keys], key=len)
    elif isinstance(value, But):
        with LOCK:
            found = instances(value.value, len(value.excluded) + 1)
        for one in found:
            if one.key not in value.excluded:
                yield one.text.encode()
                return
    else:
        yield shortest_document(value)


def _of_shapes(here: Alternatives) -> Ways:
    """A short document of given shapes; constants among their children are made nodes of the algebra."""
    arrays_ = tuple([shape for one in map(_array_of_nodes, here.arrays) for shape in one])
    objects_ = tuple([shape for one in map(_object_of_nodes, here.objects) for shape in one])
    if here.literals or arrays_ or objects_ or here.number is not NONE or here.string is not NONE:
        yield from _document(
            Given(SHARED, Alternatives(here.literals, here.number, here.string, arrays_, objects_), "")
        )


def _array_of_nodes(shape: ArrayShape | ArrayBut) -> Iterator[ArrayShape]:
    if isinstance(shape, ArrayShape):
        plain = all(isinstance(child, Node) for child in (*shape.prefix, shape.rest))
        yield shape if plain else replace(shape, prefix=tuple(map(_as_node, shape.prefix)), rest=_as_node(shape.rest))


def _object_of_nodes(shape: ObjectShape | ObjectBut) -> Iterator[ObjectShape]:
    if isinstance(shape, ObjectShape):
        plain = all(isinstance(one.value, Node) for one in shape.properties)
        members = [one._replace(value=_as_node(one.value)) for one in shape.properties]
        yield shape if plain else replace(shape, properties=tuple(members))


def _as_node(value: Value) -> Value:
    if not isinstance(value, Among):
        return value
    return Given(
        SHARED, constants([parsed(_written(key).encode()) for key in value.keys], value.pointer), value.pointer
    )


def _written(key: Any) -> str:
    """The JSON text of a constant."""
    if isinstance(key, str):
        return quoted(key)
    if isinstance(key, frozenset):
        return "{" + ",".join(f"{quoted(name)}:{_written(item)}" for name, item in sorted(key, key=_name)) + "}"
    if is_array(key):
        return "[" + ",".join(map(_written, key[1:])) + "]"
    return json.dumps(key[0]) if isinstance(key, tuple) else str(key).replace("E+", "e")


def _name(member: tuple[str, Any]) -> str:
    return member[0]


# ---- objects


def _object_first(gap: Rx, frame: ObjectFrame, progress: Progress) -> Ways:
    return _after_gap(gap, _members(frame, progress))


def _object_next(gap: Rx, frame: ObjectFrame, progress: Progress) -> Ways:
    return _after_gap(gap, _continued(_members(frame, progress), b"}"))


def _object_comma(gap: Rx, frame: ObjectFrame, progress: Progress) -> Ways:
    return _after_gap(gap, _members(frame, progress, least=1))


def _object_name(frame: ObjectFrame, progress: Progress) -> Ways:
    for rest in _members(frame, progress, least=1):
        yield rest[1:]


def _object_colon(gap: Rx, *_: Any) -> Ways:
    return _after_gap(gap, iter((b":",)))


def _continued(rests: Ways, end: bytes) -> Ways:
    """With a comma where there is more than the end."""
    for rest in rests:
        yield rest if rest == end else b"," + rest


def _members(frame: ObjectFrame, progress: Progress, least: int = 0) -> Ways:
    """The members that each alternative is short of, and the closing brace."""
    for plan, one in zip(frame.plans, progress, strict=True):
        shape = None if one is None else _left_of_object(plan, one, least)
        if shape is not None:
            for text in _of_shapes(Alternatives(frozenset(), NONE, NONE, (), (shape,))):
                yield text[1:]


def _left_of_object(plan: Plan, progress: Any, least: int) -> ObjectShape | None:
    """What is left of a shape once some members have come; None where that is not known."""
    shape, witnesses = plan.shape, plan.shape.witnesses
    if isinstance(plan, LinkedMembers):
        by_keys, base = plan.by_keys, cast(Members, progress).base
        if progress.agree:
            return None
        witnesses = tuple([one for number, one in enumerate(witnesses) if not progress.served >> number & 1])
    else:
        by_keys, base = plan, progress
    groups: list[KeyGroup] = []
    if not (loose_end(base) or unknown_names(base)):
        barred = literals([*plan.numbers, *seen_names(base)])
        for group in by_keys.groups:
            names = difference(group.names, barred)
            if not is_empty(names):
                groups.append(KeyGroup(names, group.value))
    most = None if shape.max_properties is None else shape.max_properties - base[1]
    least = max(least, shape.min_properties - base[1])
    return object_shape(by_keys.available(base), groups, least, most, witnesses)


# ---- arrays


def _array_first(gap: Rx, frame: arrays.ArrayFrame, progress: Progress) -> Ways:
    return _after_gap(gap, _items(frame, progress))


def _array_next(gap: Rx, frame: arrays.ArrayFrame, progress: Progress) -> Ways:
    return _after_gap(gap, _continued(_items(frame, progress), b"]"))


def _array_item(gap: Rx, frame: arrays.ArrayFrame, progress: Progress) -> Ways:
    return _after_gap(gap, _items(frame, progress, least=1))


def _items(frame: arrays.ArrayFrame, progress: Progress, least: int = 0) -> Ways:
    """The items that each alternative is short of, and the closing bracket; or one more of them."""
    found = False
    for plan, one in zip(frame.plans, progress, strict=True):
        if one is None:
            continue
        if not least and plan.complete(one):
            found = True
            yield b"]"
            continue
        shape = _left_of_array(plan, one, least)
        if shape is not None:
            for text in _of_shapes(Alternatives(frozenset(), NONE, NONE, (shape,), ())):
                found = True
                yield text[1:]
    if not found and not arrays.is_open(frame, progress):
        yield from _one_item(frame, progress)


def _left_of_array(plan: ItemPlan, progress: Any, least: int) -> ArrayShape | None:
    """What is left of a shape once some items have come; None where that is no shape."""
    shape, come = plan.shape, progress[0]
    most = None if shape.max_items is None else shape.max_items - come
    counts: tuple[ItemCount, ...] = ()
    repeated = False
    if isinstance(plan, LinkedItems):
        if progress.agree or (progress.seen and plan.records(progress)) or progress.unknown:
            return None
        repeated = not progress.twin
        counts = tuple(
            [
                ItemCount(
                    count.value,
                    max(0, count.least - number),
                    None if count.most is None else count.most - number,
                    max(0, count.start - come),
                )
                for count, number in zip(shape.counts, progress.counts, strict=True)
            ]
        )
    least = max(least, shape.min_items - come)
    if most is not None and most < least:
        return None
    return ArrayShape(shape.prefix[come:], shape.rest, max(0, least), most, counts, shape.unique, repeated)


def _one_item(frame: arrays.ArrayFrame, progress: Progress) -> Ways:
    """One more item: those that bring some alternative nearest to its end."""
    wanted, indices, after = frame.extended(progress)
    found: list[tuple[int, int, bytes]] = []
    for number, value in enumerate(wanted[:MOST_WAYS]):
        for text in _document(value):
            left = arrays.known(frame, survivors(after, indices, 1 << number), key_of(parsed(text)))
            short = [_short_of(plan, one) for plan, one in zip(frame.plans, left, strict=True) if one is not None]
            if short:
                found.append((min(short), len(text), text))
    if found:
        nearest = min(found)[0]
        for short_of, _, text in found:
            if short_of == nearest:
                yield text


def _short_of(plan: ItemPlan, progress: Any) -> int:
    if isinstance(plan, LinkedItems):
        return plan.missing(cast(Items, progress))
    return max(0, plan.shape.min_items - int(progress[0]))


_RULES: dict[Callable[..., Any], Callable[..., Ways]] = {
    expand_literal: _literal,
    scalars.expand_number: _number,
    strings.expand_string: _string,
    keys.expand_words: _words,
    a_labels.expand_unknown: _unknown_label,
    a_labels.expand_hyphen: _after_hyphen,
    a_labels.expand_end: _after_label,
    a_labels.expand_quote: _after_string,
    a_labels.expand_left: _after_string,
    held.expand_held_number: _held_number,
    held.expand_held_string: _held_string,
    values.expand_value: _value,
    values.expand_spaced: _spaced,
    values.expand_alternatives: _alternatives,
    values.expand_spaced_alternatives: _spaced_alternatives,
    objects.expand_first: _object_first,
    objects.expand_next: _object_next,
    objects.expand_comma: _object_comma,
    objects.expand_name: _object_name,
    objects.expand_colon: _object_colon,
    arrays.expand_first: _array_first,
    arrays.expand_next: _array_next,
    arrays.expand_item: _array_item,
}
