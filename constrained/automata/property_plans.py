"""Which properties may come next in one object shape, in schema order or in any order.

A plan turns a shape into small integers: progress is a tuple (what has come, how many properties), and a plan says for
a progress which declared properties and whether undeclared ones may follow, such that the object can still be finished.
"""

from __future__ import annotations

from grammars.json_schema.shapes import KeyGroup, ObjectShape, Property
from grammars.regular import matches, words

Progress = tuple[int, ...]
_MOST_COUNTED_KEYS = 256


class PropertyPlan:
    """What both orders share.

    Attributes:
        shape: the object shape.
        numbers: index of each declared name.
    """

    def __init__(self, shape: ObjectShape) -> None:
        self.shape = shape
        self.properties = shape.properties
        self.numbers = {one.name: index for index, one in enumerate(shape.properties)}
        self._alive: dict[int, bool] = {}
        self._groups: tuple[KeyGroup, ...] | None = None
        self._bounded = shape.min_properties > 0 or shape.max_properties is not None

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

    def declared_left(self, progress: Progress) -> int:
        """How many declared properties may still come."""
        raise NotImplementedError

    def counted(self, progress: Progress) -> int:
        """The count after one more property, kept only as far as it matters."""
        if not self._bounded:
            return 0
        count = progress[1] + 1
        return count if self.shape.max_properties is not None else min(count, self.shape.min_properties)

    def feasible(self, progress: Progress) -> bool:
        """Whether the bounds on the number of properties can still be met."""
        if not self._bounded:
            return True
        most = self.shape.max_properties
        if most is not None and progress[1] + self.required_left(progress) > most:
            return False
        missing = self.shape.min_properties - progress[1]
        if missing <= 0:
            return True
        missing -= self.declared_left(progress)
        return missing <= 0 or self._undeclared_at_least(missing)

    def complete(self, progress: Progress) -> bool:
        """Whether the object may end here."""
        return self.required_left(progress) == 0 and progress[1] >= self.shape.min_properties

    def _undeclared_at_least(self, number: int) -> bool:
        for group in self.groups:
            names = words(group.names, _MOST_COUNTED_KEYS)
            if names is None:
                return True
            number -= sum(name not in self.numbers for name in names)
        return number <= 0


class OrderedPlan(PropertyPlan):
    """Declared properties in their order, required ones not skipped, undeclared ones after all declared ones.

    Progress is (index of the next declared property, count).
    """

    def __init__(self, shape: ObjectShape) -> None:
        super().__init__(shape)
        count = len(shape.properties)
        self._next_required = [count] * (count + 1)
        self._required_from = [0] * (count + 1)
        for index in range(count - 1, -1, -1):
            needed = shape.properties[index].required
            self._next_required[index] = index if needed else self._next_required[index + 1]
            self._required_from[index] = self._required_from[index + 1] + needed

    def required_left(self, progress: Progress) -> int:
        return self._required_from[progress[0]]

    def missing(self, progress: Progress) -> list[Property]:
        return [one for one in self.properties[progress[0] :] if one.required]

    def declared_left(self, progress: Progress) -> int:
        return sum(self.alive(index) for index in range(progress[0], len(self.properties)))

    def offered(self, progress: Progress) -> list[int]:
        """Indices of the declared properties that may come next."""
        last = min(self._next_required[progress[0]] + 1, len(self.properties))
        return [
            index for index in range(progress[0], last)
            if self.alive(index) and self.feasible(self.with_declared(progress, index))
        ]  # fmt: skip

    def offers_undeclared(self, progress: Progress) -> bool:
        """Whether an undeclared property may come next."""
        return (
            self.required_left(progress) == 0 and bool(self.groups) and self.feasible(self.with_undeclared(progress))
        )

    def with_declared(self, progress: Progress, index: int) -> Progress:
        """Progress after the declared property `index`."""
        return (index + 1, self.counted(progress))

    def with_undeclared(self, progress: Progress) -> Progress:
        """Progress after an undeclared property."""
        return (len(self.properties), self.counted(progress))


class UnorderedPlan(PropertyPlan):
    """Every declared property once, in any order, undeclared ones in between.

    Progress is (bit set of the declared properties that have come, count).
    """

    def __init__(self, shape: ObjectShape) -> None:
        super().__init__(shape)
        self._required = sum(1 << index for index, one in enumerate(shape.properties) if one.required)

    def required_left(self, progress: Progress) -> int:
        return (self._required & ~progress[0]).bit_count()

    def missing(self, progress: Progress) -> list[Property]:
        return [one for index, one in enumerate(self.properties) if one.required and not progress[0] >> index & 1]

    def declared_left(self, progress: Progress) -> int:
        return sum(self.alive(index) for index in range(len(self.properties)) if not progress[0] >> index & 1)

    def offered(self, progress: Progress) -> list[int]:
        """Indices of the declared properties that may come next."""
        return [
            index for index in range(len(self.properties))
            if not progress[0] >> index & 1
            and self.alive(index)
            and self.feasible(self.with_declared(progress, index))
        ]  # fmt: skip

    def offers_undeclared(self, progress: Progress) -> bool:
        """Whether an undeclared property may come next."""
        return bool(self.groups) and self.feasible(self.with_undeclared(progress))

    def with_declared(self, progress: Progress, index: int) -> Progress:
        """Progress after the declared property `index`."""
        return (progress[0] | 1 << index, self.counted(progress))

    def with_undeclared(self, progress: Progress) -> Progress:
        """Progress after an undeclared property."""
        return (progress[0], self.counted(progress))


Plan = OrderedPlan | UnorderedPlan
