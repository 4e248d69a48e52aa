"""How many bytes a frame takes at least from a state to its end: the guide of the search for shortest completions.

Every bound is a true lower bound; for most states it is exact, so that the search goes straight to its goal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from constrained.automata import (
    arrays,
    character_classes,
    code_points,
    held,
    keys,
    objects,
    scalars,
    strings,
    text,
    values,
)
from constrained.automata.character_classes import CharacterClasses
from constrained.automata.children import Progress, at_best
from constrained.automata.constants import Among, But, least_sizes, text_size
from constrained.automata.item_plans import ItemPlan, Items, LinkedItems
from constrained.automata.linked_members import LinkedMembers, Members, Plan
from constrained.automata.machine import Machine, expand_literal
from constrained.automata.object_frames import ObjectFrame
from grammars.json_schema.formulas import Node, conjunction
from grammars.json_schema.shapes import Alternatives, Value
from grammars.json_schema.shortest import shortest_size
from grammars.regular import NONE, Rx, shortest_length

FAR = 1 << 40
"""Stands for: cannot end."""


class LowerBounds:
    """Lower bounds for the states of one machine, memoised."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._known: dict[int, int] = {0: FAR, machine.done: 0}
        self._sizes: dict[Value, int] = {}

    def of(self, state: int) -> int:
        """Bytes from `state` (a state, or a wait state whose value has just ended) to the end of its frame, at least."""
        found = self._known.get(state)
        if found is None:
            key = self.machine.key(state)
            rule = _RULES.get(key[0])
            found = self._known[state] = 0 if rule is None else min(FAR, rule(self, *key[1:]))
        return found

    def value(self, value: Value) -> int:
        """Bytes of a shortest document for `value`."""
        found = self._sizes.get(value)
        if found is None:
            found = self._sizes[value] = _least_size(value)
        return found

    def least(self, wanted: Iterable[Value]) -> int:
        """Bytes of a shortest document for one of `wanted`."""
        return min((self.value(value) for value in wanted), default=FAR)


def _least_size(value: Value) -> int:
    if isinstance(value, Among):
        return min(map(text_size, value.keys), default=FAR)
    size = shortest_size(value.value if isinstance(value, But) else value)
    if size is None:
        return FAR
    if not isinstance(value, But):
        return size
    here = value.alternatives()
    sizes = [4] if here.literals else []
    sizes += [2] if here.arrays or here.objects else []
    sizes += [length for rx, quotes in ((here.number, 0), (here.string, 2))
              if rx is not NONE and (length := (shortest_length(rx) or 0) + quotes)]  # fmt: skip
    return max(size, min(sizes, default=FAR))


_MOST_DIFFERENT = 64
"""How many different members or items a bound tells apart."""


def _words(languages: Iterable[Rx]) -> int:
    lengths = [length for rx in languages if (length := shortest_length(rx)) is not None]
    return min(lengths, default=FAR)


def _text(_bounds: LowerBounds, rx: Rx) -> int:
    return _words((rx,))


def _literal(bounds: LowerBounds, data: bytes, then: int, offset: int) -> int:
    return len(data) - offset + bounds.of(then)


def _last_byte(_bounds: LowerBounds, _byte: int, _outcome: int) -> int:
    return 1


def _number(_bounds: LowerBounds, languages: tuple[Rx, ...]) -> int:
    return _words(languages)


def _string(_bounds: LowerBounds, canonical: bool, languages: tuple[Rx, ...]) -> int:
    if strings.in_label(canonical, languages):
        return 1
    return 1 + _words(languages)


def _held_number(_bounds: LowerBounds, parts: held.Parts) -> int:
    return _words([rx for rx, _ in parts])


def _held_string(_bounds: LowerBounds, _canonical: bool, parts: held.Parts) -> int:
    return 1 + _words([rx for rx, _ in parts])


def _held_escape(_bounds: LowerBounds, _canonical: bool, parts: held.Parts) -> int:
    return max(2, 1 + _words([rx for rx, _ in parts]))


def _escape(_bounds: LowerBounds, _canonical: bool, languages: tuple[Rx, ...]) -> int:
    return max(2, 1 + _words(languages))


def _continuation(bounds: LowerBounds, size: int, pieces: code_points.Pieces) -> int:
    return {64: 1, 4096: 2, 262144: 3}[size] + min(bounds.of(state) for _, _, state in pieces)


def _rest(bounds: LowerBounds, size: int, _ranges: code_points.Ranges, state: int) -> int:
    return {64: 1, 4096: 2, 262144: 3}[size] + bounds.of(state)


def _led(bounds: LowerBounds, characters: Rx, state: int, number: int) -> int:
    return _rest(bounds, code_points.spelling(characters).leads[number][2], (), state)


def _spread(bounds: LowerBounds, classes: CharacterClasses, states: tuple[int, ...], number: int) -> int:
    size, pieces = classes.leads[number]
    return {64: 1, 4096: 2, 262144: 3}[size] + min([bounds.of(states[index]) for _, _, index in pieces])


def _hex(bounds: LowerBounds, digits: int, _lower: bool, pieces: code_points.Pieces) -> int:
    return digits + min(bounds.of(state) for _, _, state in pieces)


def _low_surrogate(bounds: LowerBounds, units: code_points.Pieces) -> int:
    return 6 + min(bounds.of(state) for _, _, state in units)


def _value(bounds: LowerBounds, _style: Any, wanted: tuple[Value, ...]) -> int:
    return bounds.least(wanted)


def _spaced(bounds: LowerBounds, _gap: Rx, _style: Any, wanted: tuple[Value, ...]) -> int:
    return bounds.least(wanted)


def _spaced_alternatives(_bounds: LowerBounds, _gap: Rx, _style: Any, each: tuple[Alternatives, ...]) -> int:
    return 1


def _alternatives(_bounds: LowerBounds, _style: Any, each: tuple[Alternatives, ...]) -> int:
    return 1


def _expanded_words(bounds: LowerBounds, names: keys.WordList, first: int, end: int, depth: int) -> int:
    return min(len(word) - depth + bounds.of(then) for word, then in names.words[first:end])


def _beside(bounds: LowerBounds, words: tuple[keys.Word, ...], inside: int) -> int:
    return min(min([len(word) for word, _ in words]), bounds.of(inside))


def _one_beside(bounds: LowerBounds, rest: bytes, _outcome: int, inside: int, offset: int) -> int:
    return min(len(rest) - offset, bounds.of(inside))


def _object_rest(bounds: LowerBounds, plan: Plan, progress: Any) -> int:
    """Bytes of the required members that are missing, each with a comma, and of the closing brace."""
    total = 1
    missing = plan.missing(progress)
    for one in missing:
        total += 1 + 1 + len(keys.encoded_key(one.name)) + 1 + bounds.value(one.value)
    more = plan.wanted(progress) - len(missing)
    if more > 0:
        total += _others(bounds, plan, progress, more)
    return total


def _others(bounds: LowerBounds, plan: Plan, progress: Any, number: int) -> int:
    """Bytes of that many more members beside the required ones."""
    base = progress.base if isinstance(progress, Members) else progress
    by_keys = plan.by_keys if isinstance(plan, LinkedMembers) else plan
    sizes = [
        3 + len(keys.encoded_key(one.name)) + bounds.value(one.value)
        for one in by_keys.available(base)
        if not one.required
    ]
    for group in by_keys.groups:
        value = bounds.value(group.value)
        sizes += [4 + length + value for length in by_keys.name_lengths(group, base, min(number, _MOST_DIFFERENT))]
    sizes.sort()
    return sum(sizes[:number]) if len(sizes) >= min(number, _MOST_DIFFERENT) else FAR


def _objects(bounds: LowerBounds, frame: ObjectFrame, progress: Progress) -> int:
    rest = [
        _object_rest(bounds, plan, one)
        for plan, one in zip(frame.plans, at_best(progress), strict=True)
        if one is not None
    ]
    return min(rest, default=FAR)


def _object_first(bounds: LowerBounds, _gap: Rx, frame: ObjectFrame, progress: Progress) -> int:
    return max(1, _objects(bounds, frame, progress) - 1)


def _object_next(bounds: LowerBounds, _gap: Rx, frame: ObjectFrame, progress: Progress) -> int:
    return _objects(bounds, frame, progress)


def _object_comma(bounds: LowerBounds, _gap: Rx, frame: ObjectFrame, progress: Progress) -> int:
    return max(5, _objects(bounds, frame, progress) - 1)


def _object_key(bounds: LowerBounds, frame: ObjectFrame, progress: Progress) -> int:
    return max(4, _objects(bounds, frame, progress) - 2)


def _object_colon(
    bounds: LowerBounds,
    _gap: Rx,
    frame: ObjectFrame,
    wanted: tuple[Value, ...],
    _indices: object,
    after: Progress,
) -> int:
    return 1 + bounds.least(wanted) + _objects(bounds, frame, after)


def _after_key(bounds: LowerBounds, frame: ObjectFrame, progress: Progress) -> int:
    """The rest without the longest key that is in it, its quotes and the comma before."""
    rest = []
    for plan, one in zip(frame.plans, progress, strict=True):
        if one is not None:
            missing = plan.missing(one)
            longest = max([len(keys.encoded_key(prop.name)) for prop in missing], default=0)
            if plan.wanted(one) > len(missing):
                longest = max(longest, _longest_other_key(plan, one, plan.wanted(one) - len(missing)))
            rest.append(_object_rest(bounds, plan, one) - 2 - longest)
    return max(3, min(rest, default=FAR))


def _longest_other_key(plan: Plan, progress: Any, number: int) -> int:
    """Bytes of the longest key, with its closing quote, that `_others` may have counted."""
    base = progress.base if isinstance(progress, Members) else progress
    by_keys = plan.by_keys if isinstance(plan, LinkedMembers) else plan
    lengths = [len(keys.encoded_key(one.name)) for one in by_keys.available(base) if not one.required]
    for group in by_keys.groups:
        lengths += [1 + length for length in by_keys.name_lengths(group, base, min(number, _MOST_DIFFERENT))]
    return max(lengths, default=0)


def _after_value(bounds: LowerBounds, frame: ObjectFrame, after: Progress, _indices: object) -> int:
    return _objects(bounds, frame, after)


def _arrays(bounds: LowerBounds, frame: arrays.ArrayFrame, progress: Progress) -> int:
    """Bytes of the items that are missing, each with a comma, and of the closing bracket."""
    rest = []
    for plan, seen in zip(frame.plans, at_best(progress), strict=True):
        if seen is None:
            continue
        shape, total = plan.shape, 1
        least = seen[0] + plan.missing(seen) if isinstance(plan, LinkedItems) else shape.min_items
        inside = range(seen[0], min(least, len(shape.prefix)))
        total += sum(1 + bounds.value(shape.prefix[index]) for index in inside)
        beyond = least - max(seen[0], len(shape.prefix))
        if beyond > 0:
            total += beyond + _different(bounds, plan, seen, beyond)
        if isinstance(plan, LinkedItems):
            total = max(total, _counted(bounds, plan, seen))
        rest.append(total)
    return min(rest, default=FAR)


def _counted(bounds: LowerBounds, plan: LinkedItems, progress: Items) -> int:
    """Bytes of the items that one of the counts is short of, and of the closing bracket."""
    shape, most = plan.shape, 1
    for count, number in zip(shape.counts, progress.counts, strict=True):
        if number < count.least:
            items = {*shape.prefix[progress.number :], shape.rest}
            size = min(bounds.value(conjunction(item, count.value)) for item in items)
            most = max(most, 1 + (count.least - number) * (1 + size))
    return most


def _different(bounds: LowerBounds, plan: ItemPlan, progress: Any, number: int) -> int:
    """Bytes of that many more items behind the prefix."""
    rest = plan.shape.rest
    if isinstance(plan, LinkedItems) and plan.shape.unique and 1 < number <= _MOST_DIFFERENT:
        sizes = least_sizes(cast(Node, rest), progress.seen, number)
        if sizes is not None:
            return sum(sizes) if len(sizes) == number else FAR
    return number * bounds.value(rest)


def _array_first(bounds: LowerBounds, _gap: Rx, frame: arrays.ArrayFrame, progress: Progress) -> int:
    return max(1, _arrays(bounds, frame, progress) - 1)


def _array_next(bounds: LowerBounds, _gap: Rx, frame: arrays.ArrayFrame, progress: Progress) -> int:
    return _arrays(bounds, frame, progress)


def _array_item(bounds: LowerBounds, _gap: Rx, frame: arrays.ArrayFrame, progress: Progress) -> int:
    return max(2, _arrays(bounds, frame, progress) - 1)


def _after_item(bounds: LowerBounds, frame: arrays.ArrayFrame, after: Progress, _indices: object) -> int:
    return _arrays(bounds, frame, after)


_RULES: dict[Callable[..., Any], Callable[..., int]] = {
    text.expand_text: _text,
    expand_literal: _literal,
    scalars.expand_last_byte: _last_byte,
    scalars.expand_number: _number,
    strings.expand_string: _string,
    strings.expand_escape: _escape,
    strings.expand_hex: _hex,
    held.expand_held_number: _held_number,
    held.expand_held_string: _held_string,
    held.expand_held_escape: _held_escape,
    strings.expand_low_surrogate: _low_surrogate,
    code_points.expand_continuation: _continuation,
    character_classes.expand_led: _spread,
    code_points.expand_led: _led,
    code_points.expand_rest: _rest,
    values.expand_value: _value,
    values.expand_alternatives: _alternatives,
    values.expand_spaced: _spaced,
    values.expand_spaced_alternatives: _spaced_alternatives,
    keys.expand_words: _expanded_words,
    keys.expand_beside: _beside,
    keys.expand_one_beside: _one_beside,
    objects.expand_first: _object_first,
    objects.expand_next: _object_next,
    objects.expand_comma: _object_comma,
    objects.expand_name: _object_key,
    objects.expand_colon: _object_colon,
    objects.resolve_key: _after_key,
    objects.resolve_value: _after_value,
    arrays.expand_first: _array_first,
    arrays.expand_next: _array_next,
    arrays.expand_item: _array_item,
    arrays.resolve_item: _after_item,
}
