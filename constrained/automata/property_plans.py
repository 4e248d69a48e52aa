"""Which properties may come next in one object shape, in schema order or in any order.

A plan turns a shape into small values: progress is a tuple (what has come, how many properties), followed, once there was
an undeclared key, by (the undeclared keys, how many more there were whose text is not known: walks do not look at texts).
Where any text may be a key, names only matter when the next key comes: until then progress ends in (LOOSE,), so that its
states are the same whatever the names, and a commit looks them up at the comma.
A plan says for a progress which declared properties and which undeclared ones may follow, such that the object can still
be finished.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grammars.json_schema.feasibility import some_words
from grammars.json_schema.shapes import KeyGroup, ObjectShape, Property, Value
from grammars.regular import ALL, Rx, complement, difference, is_empty, is_endless, literals, matches, union, words

Progress = tuple[Any, ...]
NO_NAMES: frozenset[str] = frozenset()
LOOSE, AGAIN = 1, 2
"""Ends of a progress: there were undeclared keys, and they are to be looked up; another one came before they were."""
_MOST_COUNTED_KEYS = 256


def seen_names(progress: Progress) -> frozenset[str]:
    """The undeclared keys that have come, as far as they are known."""
    return progress[2] if len(progress) > 3 else NO_NAMES


def unknown_names(progress: Progress) -> int:
    """How many undeclared keys have come whose text is not known."""
    return int(progress[3]) if len(progress) > 3 else 0


def loose_end(progress: Progress) -> int:
    """LOOSE, AGAIN, or 0."""
    return progress[2] if len(progress) == 3 else 0


class PropertyPlan:
    """What both orders share.

    Attributes:
        shape: the object shape.
        numbers: index of each declared name.
        is_bounded: whether the number of properties matters.
    """

    def __init__(self, shape: ObjectShape, count_to: int = 0, keeps_names: bool = False) -> None:
        """`count_to`: properties are counted at least as far as this; `keeps_names`: progress is never loose."""
        self.shape = shape
        self._count_to = max(count_to, shape.min_properties)
        self.properties = shape.properties
        self.numbers = {one.name: index for index, one in enumerate(shape.properties)}
        self._alive: dict[int, bool] = {}
        self._groups: tuple[KeyGroup, ...] | None = None
        self.is_bounded = self._count_to > 0 or shape.max_properties is not None
        self._few_names: bool | None = None
        self._keeps_names = keeps_names or shape.min_properties > 0
        self._free_names: bool | None = None
        self.is_loose = False
        self._lengths: dict[Any, list[int]] = {}

    def alive(self, index: int) -> bool:
        """Whether the declared property can have a value at all."""
        found = self._alive.get(index)
        if found is None:
            found = self._alive[index] = not self.properties[index].value.is_empty()
        return found

    @property
    def groups(self) -> tuple[KeyGroup, ...]:
        """The groups of undeclared keys whose value can exist."""
        if self._groups is None:
            self._groups = tuple(group for group in self.shape.groups if not group.value.is_empty())
        return self._groups

    def group_of(self, name: str) -> KeyGroup | None:
        """The group that an undeclared `name` falls in."""
        for group in self.groups:
            if matches(group.names, name):
                return group
        return None

    def start(self) -> Progress:
        """Progress at the opening brace."""
        return (0, 0)

    def required_left(self, progress: Progress) -> int:
        """How many required properties have not come yet."""
        raise NotImplementedError

    def missing(self, progress: Progress) -> list[Property]:
        """The required properties that have not come yet."""
        raise NotImplementedError

    def available(self, progress: Progress) -> list[Property]:
        """The declared properties that may still come, now or later."""
        raise NotImplementedError

    def declared_left(self, progress: Progress) -> int:
        """How many declared properties may still come."""
        raise NotImplementedError

    def counted(self, progress: Progress) -> int:
        """The count after one more property, kept only as far as it matters."""
        if not self.is_bounded:
            return 0
        count = int(progress[1]) + 1
        return count if self.shape.max_properties is not None else min(count, self._count_to)

    def feasible(self, progress: Progress) -> bool:
        """Whether the bounds on the number of properties can still be met."""
        if not self.is_bounded:
            return True
        most = self.shape.max_properties
        if most is not None and progress[1] + self.required_left(progress) > most:
            return False
        missing = self.shape.min_properties - progress[1]
        if missing <= 0:
            return True
        missing -= self.declared_left(progress)
        return missing <= 0 or self._spare_names(progress, missing)

    def _within_bounds(self, indices: Sequence[int], progress: Progress) -> Sequence[int]:
        """Those of the declared properties after which the bounds on the number of properties can still be met."""
        if not self.is_bounded:
            return indices
        return [index for index in indices if self.feasible(self.with_declared(progress, index))]

    def complete(self, progress: Progress) -> bool:
        """Whether the object may end here."""
        return self.required_left(progress) == 0 and bool(progress[1] >= self.shape.min_properties)

    def wanted(self, progress: Progress) -> int:
        """How many properties must still come."""
        return max(self.required_left(progress), self.shape.min_properties - int(progress[1]))

    def name_lengths(self, group: KeyGroup, progress: Progress, number: int) -> list[int]:
        """Lengths of the shortest keys of a group that may still come, at most `number`."""
        barred = [*self.numbers, *seen_names(progress)]
        key = (group, frozenset(barred), number)
        if key not in self._lengths:
            names = difference(group.names, literals(barred)) if barred else group.names
            self._lengths[key] = [len(name) for name in some_words(names, number)]
        return self._lengths[key]

    def declared(self, progress: Progress, index: int) -> tuple[Value, Progress]:
        """What the declared property `index` must be, and the progress after it."""
        return self.properties[index].value, self.with_declared(progress, index)

    def named(self, progress: Progress, name: str) -> tuple[Value, Progress] | None:
        """The same for an undeclared `name`, or None if it may not come."""
        group = None if name in seen_names(progress) else self.group_of(name)
        return None if group is None else (group.value, self.with_undeclared(progress, name))

    def undeclared(self, progress: Progress) -> list[tuple[Rx, Value, Progress]]:
        """The same for all undeclared keys: disjoint languages (that may hold declared or seen names)."""
        after = self.with_undeclared(progress)
        return [(group.names, group.value, after) for group in self.groups]

    def with_declared(self, progress: Progress, index: int) -> Progress:
        """Progress after the declared property `index`."""
        raise NotImplementedError

    def with_undeclared(self, progress: Progress, name: str | None = None) -> Progress:
        """Progress after an undeclared property; None: whose name is not known."""
        raise NotImplementedError

    @property
    def has_free_names(self) -> bool:
        """Whether any text may be a key (the declared ones and those that have come apart)."""
        if self._free_names is None:
            names = [group.names for group in self.groups]
            self._free_names = ALL in names or (len(names) > 1 and is_empty(complement(union(*names))))
        return self._free_names

    @property
    def can_be_loose(self) -> bool:
        """Whether names need not be known before the next key comes."""
        return not self._keeps_names and (self.has_free_names or not self.groups)

    def _kept(self, progress: Progress) -> Progress:
        """The end of progress after a declared key."""
        return (loose_end(progress) or LOOSE,) if self.is_loose and len(progress) > 2 else progress[2:]

    def _noted(self, progress: Progress, name: str | None) -> Progress:
        """The end of progress after one more undeclared key."""
        if self.is_loose:
            return (AGAIN if loose_end(progress) else LOOSE,)
        seen, unknown = seen_names(progress), unknown_names(progress)
        return (seen, unknown + 1) if name is None else (seen | {name}, unknown)

    def _spare_names(self, progress: Progress, number: int) -> bool:
        """Whether `number` undeclared keys are left that have not come."""
        if self._few_names is None:
            self._few_names = all(not is_endless(group.names) for group in self.groups)
        if not self._few_names:
            return True
        number += len(seen_names(progress)) + unknown_names(progress)
        for group in self.groups:
            names = words(group.names, max(number, _MOST_COUNTED_KEYS) + len(self.numbers))
            if names is None:
                return True
            number -= sum(name not in self.numbers for name in names)
        return number <= 0


class OrderedPlan(PropertyPlan):
    """Declared properties in their order, required ones not skipped, undeclared ones after all declared ones.

    Progress is (index of the next declared property, count, …).
    """

    def __init__(self, shape: ObjectShape, count_to: int = 0, keeps_names: bool = False) -> None:
        super().__init__(shape, count_to, keeps_names)
        count = len(shape.properties)
        next_required, required_from = [count] * (count + 1), [0] * (count + 1)
        for index in range(count - 1, -1, -1):
            needed = shape.properties[index].required
            next_required[index] = index if needed else next_required[index + 1]
            required_from[index] = required_from[index + 1] + needed
        self._next_required, self._required_from = tuple(next_required), tuple(required_from)
        self._offered: tuple[int, tuple[int, ...]] = (-1, ())  # the last answer: the same place is asked about in a row

    def next_required(self, index: int) -> int:
        """The first required property from `index` on; how many there are if there is none."""
        return self._next_required[index]

    def required_left(self, progress: Progress) -> int:
        return self._required_from[progress[0]]

    def missing(self, progress: Progress) -> list[Property]:
        return [one for one in self.properties[progress[0] :] if one.required]

    def available(self, progress: Progress) -> list[Property]:
        return [self.properties[index] for index in range(progress[0], len(self.properties)) if self.alive(index)]

    def declared_left(self, progress: Progress) -> int:
        return sum(self.alive(index) for index in range(progress[0], len(self.properties)))

    def offered(self, progress: Progress) -> Sequence[int]:
        """Indices of the declared properties that may come next."""
        index = progress[0]
        found = self._offered
        if found[0] != index:
            last = min(self._next_required[index] + 1, len(self.properties))
            found = self._offered = index, tuple([other for other in range(index, last) if self.alive(other)])
        return self._within_bounds(found[1], progress)

    def offers_undeclared(self, progress: Progress) -> bool:
        """Whether an undeclared property may come next."""
        return (
            self.required_left(progress) == 0
            and bool(self.groups)
            and self._spare_names(progress, 1)
            and (not self.is_bounded or self.feasible(self.with_undeclared(progress)))
        )

    def with_declared(self, progress: Progress, index: int) -> Progress:
        """Progress after the declared property `index`."""
        return (index + 1, self.counted(progress), *self._kept(progress))

    def with_undeclared(self, progress: Progress, name: str | None = None) -> Progress:
        """Progress after an undeclared property; None: whose name is not known."""
        return (len(self.properties), self.counted(progress), *self._noted(progress, name))


class UnorderedPlan(PropertyPlan):
    """Every declared property once, in any order, undeclared ones in between.

    Progress is (bit set of the declared properties that have come, count, …).
    """

    def __init__(self, shape: ObjectShape, count_to: int = 0, keeps_names: bool = False) -> None:
        super().__init__(shape, count_to, keeps_names)
        self._required = sum(1 << index for index, one in enumerate(shape.properties) if one.required)
        self._every: tuple[int, ...] | None = None

    def required_left(self, progress: Progress) -> int:
        return (self._required & ~int(progress[0])).bit_count()

    def missing(self, progress: Progress) -> list[Property]:
        return [one for index, one in enumerate(self.properties) if one.required and not progress[0] >> index & 1]

    def available(self, progress: Progress) -> list[Property]:
        return [one for index, one in enumerate(self.properties) if not progress[0] >> index & 1 and self.alive(index)]

    def declared_left(self, progress: Progress) -> int:
        return sum(self.alive(index) for index in range(len(self.properties)) if not progress[0] >> index & 1)

    def offered(self, progress: Progress) -> Sequence[int]:
        """Indices of the declared properties that may come next."""
        every = self._every
        if every is None:
            every = self._every = tuple([index for index in range(len(self.properties)) if self.alive(index)])
        come = int(progress[0])
        return self._within_bounds([index for index in every if not come >> index & 1], progress)

    def offers_undeclared(self, progress: Progress) -> bool:
        """Whether an undeclared property may come next."""
        return (
            bool(self.groups)
            and self._spare_names(progress, 1)
            and (not self.is_bounded or self.feasible(self.with_undeclared(progress)))
        )

    def with_declared(self, progress: Progress, index: int) -> Progress:
        """Progress after the declared property `index`."""
        return (progress[0] | 1 << index, self.counted(progress), *self._kept(progress))

    def with_undeclared(self, progress: Progress, name: str | None = None) -> Progress:
        """Progress after an undeclared property; None: whose name is not known."""
        return (progress[0], self.counted(progress), *self._noted(progress, name))
