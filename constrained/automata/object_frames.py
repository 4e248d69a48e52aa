"""What the states of one kind of object share, and how far its alternatives have come."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from constrained.automata.children import MANY, Progress, Wanted
from constrained.automata.frame import Frame, ValueStart, frame_of
from constrained.automata.keys import encoded_key, name_numbers, name_of
from constrained.automata.linked_members import LinkedMembers, Members, Plan, property_plan
from constrained.automata.machine import Machine
from constrained.automata.outcomes import DECLARED
from constrained.automata.pending import Pending
from constrained.automata.property_plans import NO_NAMES, OrderedPlan, loose_end, seen_names, unknown_names
from constrained.automata.style import Style
from grammars.json_schema.shapes import ObjectShape
from grammars.regular import Rx

Spelled = tuple[tuple[bytes, ...], tuple[int, ...], tuple[int, ...]]
Entries = tuple[tuple[ObjectShape, int], ...]
_MOST_IN_RUN = 4096


class ObjectFrame(Frame):
    """What the states of one kind of object share; compared by identity.

    Attributes:
        plans: one for each alternative.
        owners: the schema that each alternative belongs to.
        names: all names that some alternative declares, in order of first appearance.
        sole: the only plan, where there is one and keys alone decide what follows; what most objects come down to.
        key_string: the state after the quote of an undeclared key of the sole plan (0: there is none); None: not asked for yet.
        run: the first state of the object's run (see `object_runs`), or 0 where it has none.
        number: that of the object in its tables, where it has a run.
    """

    __slots__ = (
        "_is_loose", "_spelled", "key_string", "names", "number", "owners", "plans", "run", "sole", "style", "value_start",
    )  # fmt: skip

    linked_plan = LinkedMembers

    def __init__(self, style: Style, entries: Entries, value_start: ValueStart) -> None:
        self.style = style
        self.value_start = value_start
        self.plans: tuple[Plan, ...] = tuple([property_plan(shape, style.any_order) for shape, _ in entries])
        self._is_loose: bool | None = None
        self.owners = tuple([owner for _, owner in entries])
        plan = self.plans[0]
        if len(entries) == 1:
            self.names = tuple(plan.numbers)
        else:
            self.names = tuple(dict.fromkeys([name for plan in self.plans for name in plan.numbers]))
        self.sole = None if len(self.plans) > 1 or isinstance(plan, LinkedMembers) else plan
        self.run = 0
        self.number = -1
        self.key_string: int | None = None
        self._spelled: Spelled | None = None

    def in_order(self) -> OrderedPlan | None:
        """The sole plan, if its progress is the index of the next declared property until another key comes."""
        plan = self.sole
        if isinstance(plan, OrderedPlan) and not plan.is_bounded and len(plan.properties) <= _MOST_IN_RUN:
            return plan
        return None

    def is_loose(self) -> bool:
        """Whether undeclared keys are looked up when the next key comes (see `property_plans`); asked before the first one."""
        if self._is_loose is None:
            self._is_loose = all(plan.can_be_loose for plan in self.plans)
            for plan in self.plans:
                plan.is_loose = self._is_loose
        return self._is_loose

    def narrowed(self, machine: Machine, progress: Progress) -> tuple[ObjectFrame, Progress]:
        """The frame and progress of the alternatives that are left, where those are few of many and keys alone decide."""
        if len(progress) <= MANY:
            return self, progress
        left = [number for number, one in enumerate(progress) if one is not None]
        plain = all(type(progress[number]) is tuple and len(progress[number]) == 2 for number in left)
        if len(left) * 2 > len(progress) or not plain:
            return self, progress
        entries = tuple([(self.plans[number].shape, self.owners[number]) for number in left])
        frame = frame_of(machine, ObjectFrame, self.style, entries, self.value_start)
        return frame, tuple([progress[number] for number in left])

    def spelled(self, machine: Machine) -> Spelled:
        """For the sole plan, of each property: the bytes of its name, its outcome; and the properties sorted by bytes."""
        if self._spelled is None:
            words = tuple([encoded_key(name) for name in self.names])
            outcomes = tuple([DECLARED + number for number in name_numbers(machine, self.names)])
            self._spelled = words, outcomes, tuple(sorted(range(len(words)), key=words.__getitem__))
        return self._spelled

    def index_of(self, machine: Machine, outcome: int) -> int:
        """For the sole plan, the property with the outcome of a key."""
        return int(self.plans[0].numbers[name_of(machine, outcome - DECLARED)])

    def continuing(self, progress: Progress) -> Progress:
        """The alternatives that may have another property."""
        if self.sole is not None:
            one = progress[0]
            return progress if self.sole.offers_undeclared(one) or self.sole.offered(one) else (None,)
        return tuple(
            one if one is not None and (plan.offers_undeclared(one) or plan.offered(one)) else None
            for plan, one in zip(self.plans, progress, strict=True)
        )

    def offered_names(self, progress: Progress) -> list[str]:
        """Names declared somewhere that may come next."""
        live = [(plan, one) for plan, one in zip(self.plans, progress, strict=True) if one is not None]
        if len(self.plans) == 1:
            plan, one = live[0]
            return [plan.properties[index].name for index in plan.offered(one)]
        found: dict[str, None] = {}
        for plan, one in live:
            for index in plan.offered(one):
                found.setdefault(plan.properties[index].name)
            if plan.offers_undeclared(one):
                for name in self.names:
                    if name not in plan.numbers and name not in found and plan.named(one, name) is not None:
                        found[name] = None
        return list(found)

    def with_name(self, progress: Progress, name: str) -> tuple[tuple[Wanted, ...], Progress]:
        """What the value of `name` must be for each alternative, and the progress after it."""
        wanted: list[Wanted] = []
        after: list[Any] = []
        for plan, one in zip(self.plans, progress, strict=True):
            value: Wanted = None
            then: Any = None
            if one is not None:
                index = plan.numbers.get(name)
                if index is not None:
                    if index in plan.offered(one):
                        value, then = plan.declared(one, index)
                elif plan.offers_undeclared(one):
                    value, then = plan.named(one, name) or (None, None)
            wanted.append(value)
            after.append(then)
        return tuple(wanted), tuple(after)

    def groups(self, progress: Progress) -> tuple[tuple[Rx, ...], list[dict[int, tuple[Wanted, Any]]]]:
        """Languages of undeclared keys that may come next, and for each alternative value and progress for each of them."""
        numbers: dict[Rx, int] = {}
        members: list[dict[int, tuple[Wanted, Any]]] = []
        for plan, one in zip(self.plans, progress, strict=True):
            here: dict[int, tuple[Wanted, Any]] = {}
            if one is not None and plan.offers_undeclared(one):
                for names, value, after in plan.undeclared(one):
                    here[numbers.setdefault(names, len(numbers))] = (value, after)
            members.append(here)
        return tuple(numbers), members

    def has_free_names(self, progress: Progress) -> bool:
        """Whether any text may be a key now (the declared ones and those that have come apart)."""
        return any(
            one is not None and plan.has_free_names and plan.offers_undeclared(one)
            for plan, one in zip(self.plans, progress, strict=True)
        )

    def seen(self, progress: Progress) -> frozenset[str]:
        """The undeclared keys that have come."""
        return NO_NAMES.union(*[seen_names(_keys(one)) for one in progress if one is not None])


def _keys(progress: Any) -> tuple[Any, ...]:
    """Progress by keys alone."""
    if isinstance(progress, Pending):
        progress = progress.best
    return progress.base if isinstance(progress, Members) else progress


def noted(frame: ObjectFrame, progress: Progress, name: str) -> Progress:
    """`progress`, where nothing is pending, if the key `name` had come before."""
    after: list[Any] = []
    for plan, one in zip(frame.plans, progress, strict=True):
        keys = _keys(one) if one is not None else ()
        if name in plan.numbers or len(keys) < 4:
            after.append(one)
        else:
            keys = (*keys[:2], keys[2] | {name}, keys[3])
            after.append(one._replace(base=keys) if isinstance(one, Members) else keys)
    return tuple(after)


def textless(progress: tuple[Any, ...]) -> tuple[Any, ...]:
    """`progress` (or another part of a key) with numbers of keys in place of keys; itself if there are none."""
    after: list[Any] = []
    for one in progress:
        keys = _keys(one) if one is not None else ()
        if type(keys) is tuple and len(keys) == 4 and isinstance(keys[2], frozenset) and keys[2]:
            after.append((type(one), keys[0], keys[1], len(keys[2]), getattr(one, "served", 0)))
        else:
            after.append(one)
    return progress if all(new is old for new, old in zip(after, progress, strict=True)) else tuple(after)


def any_key_follows(frame: ObjectFrame, progress: Progress) -> bool:
    """Whether keys are free enough for one that must not come again to take no way to the end; a sufficient test."""
    return any(
        one is not None and plan.has_free_names and plan.offers_undeclared(one)
        for plan, one in zip(frame.plans, progress, strict=True)
    )


def loose(progress: Progress) -> int:
    """Whether undeclared keys have to be looked up: 0, LOOSE or AGAIN."""
    return max([loose_end(_keys(one)) for one in progress if one is not None], default=0)


def looked_up(frame: ObjectFrame, progress: Progress, names: Iterable[str]) -> Progress:
    """`progress` with the keys that have come."""
    return tuple([
        (*one[:2], frozenset(name for name in names if name not in plan.numbers), 0)
        if one is not None and not isinstance(one, Members) and loose_end(one) else one
        for plan, one in zip(frame.plans, progress, strict=True)
    ])  # fmt: skip


def is_open(progress: Progress) -> bool:
    """Whether an undeclared key has come of which the text would have to be known."""
    return any(one is not None and unknown_names(_keys(one)) > 0 for one in progress)


def forgotten(progress: Progress) -> Progress:
    """`progress`, where nothing is pending, as if the keys that are not known could not come again."""
    after: list[Any] = []
    for one in progress:
        if one is None or not unknown_names(_keys(one)):
            after.append(one)
        elif isinstance(one, Members):
            after.append(one._replace(base=(*one.base[:3], 0)))
        else:
            after.append((*one[:3], 0))
    return tuple(after)
