"""Which properties may come next where some property must serve a witness, or some objects are excluded."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple, cast

from constrained.automata.children import Wanted
from constrained.automata.constants import NO_KEYS, Key, Keys, admits, has_other, is_wild
from constrained.automata.excluded import ObjectBut
from constrained.automata.pending import Conditions, Mark, Pending, node, pending
from constrained.automata.property_plans import OrderedPlan, UnorderedPlan, seen_names
from constrained.automata.property_plans import Progress as Base
from grammars import regular
from grammars.errors import LimitExceeded
from grammars.json_schema.feasibility import MAX_WITNESSES, some_words, witness_cells
from grammars.json_schema.formulas import Node, conjunction
from grammars.json_schema.object_algebra import has
from grammars.json_schema.shapes import ObjectShape, Property, Value
from grammars.regular import NONE, Rx

MOST_STEPS = 20_000


class Members(NamedTuple):
    """How far an object has come.

    Attributes:
        base: progress by keys alone.
        served: bit set of the witnesses that have found a property.
        agree: excluded objects that have all the properties so far.
    """

    base: Base
    served: int
    agree: Keys


class LinkedMembers:
    """A plan by keys, with witnesses and excluded objects on top of it."""

    def __init__(self, shape: ObjectShape, excluded: Keys, any_order: bool) -> None:
        longest = max([0, *[len(cast("frozenset[Any]", one)) for one in excluded]])
        self.by_keys = (UnorderedPlan if any_order else OrderedPlan)(
            shape, longest + 1 if excluded else 0, keeps_names=True
        )
        self.shape = shape
        self.properties = shape.properties
        self.numbers = self.by_keys.numbers
        self.is_loose = self.can_be_loose = False
        self.has_free_names = False
        self._witnesses = shape.witnesses
        self._all_served = (1 << len(shape.witnesses)) - 1
        self._excluded = excluded
        self._pending: dict[tuple[Members, Hashable], Pending | None] = {}
        self._undeclared: dict[Members, list[tuple[Rx, Wanted, Any]]] = {}
        self._live: dict[Members, bool] = {}
        self._split: dict[tuple[Rx, int], list[Rx]] = {}
        self._words: dict[Rx, list[str]] = {}
        if len(shape.witnesses) > MAX_WITNESSES:
            raise LimitExceeded(
                f"more than {MAX_WITNESSES} properties must exist somewhere", shape.witnesses[0].value.pointer
            )

    def start(self) -> Members:
        """Progress at the opening brace."""
        return Members(self.by_keys.start(), 0, self._excluded)

    def complete(self, progress: Members) -> bool:
        """Whether the object may end here."""
        return (
            progress.served == self._all_served
            and self.by_keys.complete(progress.base)
            and not any(len(cast("frozenset[Any]", one)) == progress.base[1] for one in progress.agree)
        )

    def missing(self, progress: Members) -> list[Property]:
        """The required properties that have not come yet."""
        return self.by_keys.missing(progress.base)

    def wanted(self, progress: Members) -> int:
        """How many properties must still come, at least."""
        return max(self.by_keys.wanted(progress.base), progress.served != self._all_served)

    def offered(self, progress: Members) -> Sequence[int]:
        """Indices of the declared properties that may come next."""
        offered = self.by_keys.offered(progress.base)
        if self._is_free(progress):
            return offered
        return [index for index in offered if self._declared(progress, index) is not None]

    def offers_undeclared(self, progress: Members) -> bool:
        """Whether an undeclared property may come next."""
        return self.by_keys.offers_undeclared(progress.base) and bool(self.undeclared(progress))

    def _is_free(self, progress: Members) -> bool:
        """Whether keys alone decide what follows."""
        return not progress.agree and progress.served == self._all_served

    def declared(self, progress: Members, index: int) -> tuple[Wanted, Any]:
        """What the declared property `index`, which is offered, must be, and the progress after it."""
        if self._is_free(progress):
            value, after = self.by_keys.declared(progress.base, index)
            return value, progress._replace(base=after)
        found = self._declared(progress, index)
        assert found is not None
        return found, found

    def named(self, progress: Members, name: str) -> tuple[Wanted, Any] | None:
        """The same for an undeclared `name`, or None if it may not come."""
        found = self.by_keys.named(progress.base, name)
        if found is None:
            return None
        if self._is_free(progress):
            return found[0], progress._replace(base=found[1])
        made = self._member(progress, name, *found, self._open_witnesses(progress, name))
        return None if made is None else (made, made)

    def undeclared(self, progress: Members) -> list[tuple[Rx, Wanted, Any]]:
        """The same for all undeclared keys: disjoint languages (that may hold declared or seen names)."""
        if self._is_free(progress):
            found = self.by_keys.undeclared(progress.base)
            return [(names, value, progress._replace(base=after)) for names, value, after in found]
        if progress not in self._undeclared:
            made = [
                (names, self._member(progress, name if name is not None else names, value, after, served))
                for names, name, value, after, served in self._cells(progress)
            ]
            self._undeclared[progress] = [(names, one, one) for names, one in made if one is not None]
        return self._undeclared[progress]

    def live(self, progress: Members) -> bool:
        """Whether the object can be finished."""
        found = self._live.get(progress)
        if found is None:
            found = self._live[progress] = self._reaches(progress)
        return found

    def _declared(self, progress: Members, index: int) -> Pending | None:
        value, after = self.by_keys.declared(progress.base, index)
        name = self.properties[index].name
        return self._member(progress, name, value, after, self._open_witnesses(progress, name))

    def _open_witnesses(self, progress: Members, name: str) -> tuple[int, ...]:
        return tuple([
            number for number, one in enumerate(self._witnesses)
            if not progress.served >> number & 1 and has(one.names, name)
        ])  # fmt: skip

    def _cells(self, progress: Members) -> Iterator[tuple[Rx, str | None, Value, Base, tuple[int, ...]]]:
        """Undeclared keys by what they mean: language, the name if it is one, value, progress, witnesses it may serve."""
        base, seen = progress.base, seen_names(progress.base)
        special = sorted({
            name for one in progress.agree for name, _ in cast("frozenset[Any]", one)
            if name not in self.numbers and name not in seen
        })  # fmt: skip
        after = self.by_keys.with_undeclared(base)
        barred = [*self.numbers, *seen]
        for names, value, _ in self.by_keys.undeclared(base):
            for name in special:
                if has(names, name):
                    witnesses = self._open_witnesses(progress, name)
                    yield regular.literal(name), name, value, self.by_keys.with_undeclared(base, name), witnesses
            rest = regular.difference(names, regular.literals(special)) if special else names
            for cell in self._witness_cells(rest, progress.served):
                word = _unused(cell, barred)
                if word is not None:
                    yield cell, None, value, after, self._open_witnesses(progress, word)

    def _witness_cells(self, names: Rx, served: int) -> list[Rx]:
        """A language of keys split by the witnesses that are not served yet."""
        at = (names, served)
        if at not in self._split:
            left = [one for number, one in enumerate(self._witnesses) if not served >> number & 1]
            self._split[at] = witness_cells(names, left)
        return self._split[at]

    def _free_words(self, cell: Rx, number: int, barred: set[str]) -> list[str]:
        """Up to `number` keys of a language that are not barred."""
        wanted = number + sum(has(cell, name) for name in barred)
        known = self._words.get(cell, [])
        if len(known) < wanted:
            known = self._words[cell] = list(some_words(cell, wanted))
        return [word for word in known if word not in barred][:number]

    def _member(
        self, progress: Members, key: Hashable, value: Value, base: Base, witnesses: tuple[int, ...]
    ) -> Pending | None:
        """The value under a key: a name, or any other key of a language."""
        at = (progress, key)
        if at not in self._pending:
            self._pending[at] = self._made(progress, key, node(value), base, witnesses)
        return self._pending[at]

    def _made(
        self, progress: Members, key: Hashable, value: Node, base: Base, witnesses: tuple[int, ...]
    ) -> Pending | None:
        conditions = {number: self._witnesses[number].value for number in witnesses}

        def after(holds: Conditions, tag: Hashable) -> Members:
            return Members(base, progress.served | sum(1 << one for one in holds), cast(Keys, tag or NO_KEYS))

        marks = []
        barred: set[Key] = set()
        for item, agree in _agreeing(progress.agree, key).items():
            if admits(value, item):
                holds = frozenset(one for one, condition in conditions.items() if admits(condition, item))
                if is_wild(item) and has_other(value, frozenset({item, *barred})):
                    barred.add(item)  # rather than to follow it
                elif self.live(after(holds, agree)):
                    marks.append(Mark(frozenset([item]), holds, agree))
                else:
                    barred.add(item)
        return pending(
            [value], conditions, lambda holds: self.live(after(holds, None)), frozenset(barred), marks, after
        )

    # ---- whether there is a way to the end

    def _reaches(self, progress: Members) -> bool:
        todo = [progress]
        visited = set(todo)
        while todo:
            here = todo.pop()
            if not self.by_keys.feasible(here.base):
                continue
            if not here.agree:
                if self._witnesses_find(here):
                    return True
                continue
            if self.complete(here):
                return True
            grown = [after for after in self._steps(here) if after not in visited]
            visited.update(grown)
            todo += reversed(grown)
            if len(visited) > MOST_STEPS:
                raise LimitExceeded("too many ways to finish an object", self._pointer())
        return False

    def _steps(self, here: Members) -> Iterator[Members]:
        for index in self.by_keys.offered(here.base):
            value, base = self.by_keys.declared(here.base, index)
            name = self.properties[index].name
            yield from self._members(here, name, node(value), base, self._open_witnesses(here, name))
        if self.by_keys.offers_undeclared(here.base):
            barred = [*self.numbers, *seen_names(here.base)]
            for names, only, value, _, witnesses in list(self._cells(here)):
                host = _unused(names, barred) if only is None else only
                if host is not None:
                    base = self.by_keys.with_undeclared(here.base, host)
                    yield from self._members(here, host, node(value), base, witnesses)

    def _members(
        self, here: Members, name: str, value: Node, base: Base, witnesses: tuple[int, ...]
    ) -> Iterator[Members]:
        agreeing = _agreeing(here.agree, name)
        for size in range(len(witnesses), -1, -1):
            for chosen in combinations(witnesses, size):
                served = conjunction(value, *[self._witnesses[number].value for number in chosen])
                bits = here.served | sum(1 << number for number in chosen)
                if served.is_empty():
                    continue
                if has_other(served, frozenset(agreeing)):
                    yield Members(base, bits, NO_KEYS)
                for item, agree in agreeing.items():
                    if admits(served, item):
                        yield Members(base, bits, agree)

    def _witnesses_find(self, progress: Members) -> bool:
        """Whether every witness that is left finds a property, within `max_properties`."""
        left = [one for number, one in enumerate(self._witnesses) if not progress.served >> number & 1]
        if not left:
            return True
        base = progress.base
        hosts: dict[str, Value] = {one.name: one.value for one in self.by_keys.available(base)}
        seen = seen_names(base)
        for names, value, _ in self.by_keys.undeclared(base):
            for cell in self._witness_cells(names, progress.served):
                hosts.update(dict.fromkeys(self._free_words(cell, len(left), {*self.numbers, *seen}), value))
        required = {one.name for one in self.by_keys.missing(base)}
        most = self.shape.max_properties

        def place(number: int, chosen: dict[str, Node]) -> bool:
            if number == len(left):
                return most is None or base[1] + len(required | chosen.keys()) <= most
            for name, value in hosts.items():
                if has(left[number].names, name):
                    both = conjunction(chosen.get(name, value), left[number].value)
                    if not both.is_empty() and place(number + 1, {**chosen, name: both}):
                        return True
            return False

        return place(0, {})

    def _pointer(self) -> str | None:
        values = [*[one.value for one in self.properties], *[one.value for one in self.shape.groups]]
        return values[0].pointer if values else None


def _agreeing(objects: Keys, key: Hashable) -> dict[Key, Keys]:
    """What the objects have under a key, and which of them have it."""
    found: dict[Key, Keys] = {}
    if isinstance(key, str):
        for one in objects:
            for name, item in cast("frozenset[Any]", one):
                if name == key:
                    found[item] = found.get(item, NO_KEYS) | {one}
    return found


def _unused(names: Rx, barred: list[str]) -> str | None:
    """A name of the language that is not barred."""
    left = regular.difference(names, regular.literals(barred)) if barred else names
    return None if left is NONE else regular.shortest(left)


def property_plan(shape: ObjectShape | ObjectBut, any_order: bool) -> OrderedPlan | UnorderedPlan | LinkedMembers:
    """The plan of an object shape."""
    if isinstance(shape, ObjectBut):
        return LinkedMembers(shape.shape, shape.excluded, any_order)
    if shape.witnesses:
        return LinkedMembers(shape, NO_KEYS, any_order)
    return (UnorderedPlan if any_order else OrderedPlan)(shape)


Plan = OrderedPlan | UnorderedPlan | LinkedMembers
