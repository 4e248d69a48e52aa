"""Which items may come next in one array shape, such that the array can still be finished."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import product
from typing import Any, NamedTuple, cast

from constrained.automata.constants import NO_KEYS, Key, Keys, admits, has_more, has_other, is_wild, some_keys
from constrained.automata.excluded import ArrayBut
from constrained.automata.pending import Conditions, Mark, Pending, node, pending
from grammars.errors import LimitExceeded
from grammars.json_schema.feasibility import counting_caps, counting_options
from grammars.json_schema.formulas import Node, conjunction
from grammars.json_schema.shapes import ArrayShape, Value

MOST_STEPS = 20_000
MOST_DISTINCT = 1_000


class Items(NamedTuple):
    """How far an array has come.

    Attributes:
        number: of items so far, or the least number that means the same for all that follows.
        counts: for each count of the shape how many items satisfied it, as far as that matters.
        twin: two items were equal, or need not be.
        agree: excluded arrays that begin with the items so far.
        seen: items so far, where they must differ or one must come again.
        unknown: how many more there were whose text is not known (a walk does not look at texts).
    """

    number: int
    counts: tuple[int, ...]
    twin: bool
    agree: Keys
    seen: Keys
    unknown: int


_Reached = tuple[Items, Node | None]
"""In a search, a progress with the value that will be there twice, once it has been there."""


class PlainItems:
    """Items that are independent of one another.  Progress is (number of items,)."""

    def __init__(self, shape: ArrayShape) -> None:
        self.shape = shape

    def start(self) -> tuple[int, ...]:
        return (0,)

    def complete(self, progress: tuple[int, ...]) -> bool:
        """Whether the array may end here."""
        return progress[0] >= self.shape.min_items

    def item(self, progress: tuple[int, ...]) -> tuple[Value, tuple[int, ...]] | None:
        """What the next item must be and the progress after it, or None if there can be none."""
        shape, index = self.shape, progress[0]
        if shape.max_items is not None and index >= shape.max_items:
            return None
        value = shape.prefix[index] if index < len(shape.prefix) else shape.rest
        if value.is_empty():
            return None
        after = index + 1
        if shape.max_items is None:
            after = min(after, max(len(shape.prefix), shape.min_items))
        return value, (after,)


class LinkedItems:
    """Items of a shape that counts them, that asks for equal or for different ones, or that excludes some arrays."""

    def __init__(self, shape: ArrayShape, excluded: Keys) -> None:
        self.shape = shape
        self._excluded = excluded
        counting_caps(shape)  # refuses too many
        self._caps = [count.least if count.most is None else count.most for count in shape.counts]
        self._floor = max(len(shape.prefix), shape.min_items, *[count.start for count in shape.counts], 0)
        self._pending: dict[Items, Pending | None] = {}
        self._ways: dict[Items, Keys | None] = {}
        if excluded and shape.repeated:
            raise LimitExceeded("arrays with equal items cannot be told apart", shape.rest.pointer, "uniqueItems")

    def start(self) -> Items:
        return Items(0, (0,) * len(self._caps), not self.shape.repeated, self._excluded, NO_KEYS, 0)

    def complete(self, progress: Items) -> bool:
        """Whether the array may end here."""
        return (
            progress.number >= self.shape.min_items
            and progress.twin
            and all(n >= count.least for n, count in zip(progress.counts, self.shape.counts, strict=True))
            and not any(_length(other) == progress.number for other in progress.agree)
        )

    def missing(self, progress: Items) -> int:
        """How many items must still come, at least."""
        short = [count.least - n for n, count in zip(progress.counts, self.shape.counts, strict=True)]
        return max([0, self.shape.min_items - progress.number, not progress.twin, *short])

    def known(self, progress: Items, item: Key) -> Items:
        """The progress with the one item that was not known."""
        return progress._replace(seen=progress.seen | {item}, unknown=0)

    def forgotten(self, progress: Items) -> Items:
        """The progress as if nothing that is not known could come again."""
        return progress._replace(unknown=0)

    def records(self, progress: Items) -> bool:
        """Whether items have to be known."""
        return self.shape.unique or not progress.twin

    def indifferent(self, progress: Items, ended: int, endless: bool) -> bool:
        """Whether there is a way to the end whatever the one item of progress is that is not known; a sufficient test.

        `ended` items came after it, of which the last has not ended yet; `endless`: it has endlessly many ways to.
        """
        shape = self.shape
        if not shape.unique:
            return not shape.repeated
        if shape.counts or progress.agree or progress.unknown != ended + 1 or not endless:
            return False
        last = max(shape.min_items, progress.number + 1 - ended)
        most = len(progress.seen) + last + 2
        positions = range(progress.number, min(last, max(progress.number, len(shape.prefix)) + 1))
        return all(has_more(self._item_at(index), most) for index in positions)

    def live(self, progress: Items) -> bool:
        """Whether the array can be finished."""
        return self._way(progress) is not None

    def item(self, progress: Items) -> tuple[Pending, Pending] | None:
        """What the next item must be, and the progress after it, or None if there can be none."""
        if progress not in self._pending:
            self._pending[progress] = self._next_item(progress)
        found = self._pending[progress]
        return None if found is None else (found, found)

    def _next_item(self, progress: Items) -> Pending | None:
        shape, index = self.shape, progress.number
        if shape.max_items is not None and index >= shape.max_items:
            return None
        base = self._item_at(index)
        if base.is_empty():
            return None
        conditions = {
            one: count.value
            for one, count in enumerate(shape.counts)
            if index >= count.start and (count.most is not None or progress.counts[one] < count.least)
        }

        def after(holds: Conditions, tag: Hashable, new: bool = True) -> Items:
            agree, twin = cast("tuple[Keys, bool]", tag or (NO_KEYS, progress.twin))
            return self._after(progress, holds, agree, twin, unknown=int(new))

        def holding(key: Key) -> Conditions:
            return frozenset(one for one, value in conditions.items() if admits(value, key))

        if shape.repeated and not progress.twin:
            return self._repeating(progress, base, conditions, after)
        excluded = progress.seen if shape.unique else NO_KEYS

        def allowed(holds: Conditions) -> bool:
            then = self._counted(progress, holds)
            return then is not None and self.live(after(holds, None, new=False))

        marks = []
        barred: set[Key] = set()
        nexts = dict.fromkeys(_item(other, index) for other in progress.agree if _length(other) > index)
        for key in nexts:
            if key in excluded or not admits(base, key):
                continue
            holds = holding(key)
            agree = frozenset(o for o in progress.agree if _length(o) > index and _item(o, index) == key)
            then = self._after(progress, holds, agree, progress.twin, unknown=0)
            if shape.unique:
                then = self.known(then, key)
            if is_wild(key) and has_other(base, excluded | barred | {key}):
                barred.add(key)  # rather than to follow it
            elif self._counted(progress, holds) is not None and self.live(then):
                marks.append(Mark(frozenset([key]), holds, (agree, progress.twin)))
            else:
                barred.add(key)
        if shape.unique:
            barred |= self._needed_later(progress, base, tuple(conditions), after, allowed, holding)
        return pending([base], conditions, allowed, excluded | barred, marks, after)

    def _needed_later(
        self, progress: Items, base: Node, names: tuple[int, ...], after: Any, allowed: Any, holding: Any
    ) -> set[Key]:
        """Items without which what must follow cannot be made up of different ones."""
        found: set[Key] = set()
        for chosen in product((0, 1), repeat=len(names)):
            holds = frozenset(name for name, taken in zip(names, chosen, strict=True) if taken)
            if not allowed(holds):
                continue
            for key in self._way(after(holds, None, new=False)) or ():
                if key in found or key in progress.seen or not admits(base, key):
                    continue
                own = holding(key)
                if not allowed(own) or not self.live(self.known(after(own, None, new=False), key)):
                    found.add(key)
        return found

    def _repeating(self, progress: Items, base: Node, conditions: dict[int, Value], after: Any) -> Pending | None:
        """The next item where two equal ones have not been met."""
        met = (NO_KEYS, True)

        def allowed(holds: Conditions) -> bool:
            return self._counted(progress, holds) is not None

        if progress.unknown:  # it may be equal to one of those; whoever asks looks again when they are known
            return pending([base], conditions, allowed, NO_KEYS, (), lambda holds, tag: after(holds, met))
        groups: dict[Conditions, set[Key]] = {}
        for key in progress.seen:
            if admits(base, key):
                holds = frozenset(one for one, value in conditions.items() if admits(value, key))
                if allowed(holds) and self.live(after(holds, met, new=False)):
                    groups.setdefault(holds, set()).add(key)
        marks = [Mark(frozenset(keys), holds, met) for holds, keys in groups.items()]

        def free(holds: Conditions) -> bool:
            return allowed(holds) and self.live(after(holds, None, new=False))

        def bound(twin: Node) -> Any:
            return lambda holds: allowed(holds) and self._reaches(after(holds, None, new=False), twin)

        made = pending([base], conditions, free, progress.seen, marks, after)
        parts = [made] if made is not None else []
        # ... or an item that a later one can be equal to, where nothing else will do
        for twin in self._later_values(progress):
            both = conjunction(base, twin)
            one = pending([both], conditions, bound(twin), progress.seen, (), after)
            if one is not None:
                parts.append(one)
        return _united(parts)

    def _after(self, progress: Items, holds: Conditions, agree: Keys, twin: bool, unknown: int) -> Items:
        index = progress.number + 1
        if self.shape.max_items is None and not agree:
            index = min(index, self._floor)
        counts = list(progress.counts)
        for one in holds:
            counts[one] = min(counts[one] + 1, self._caps[one])
        recorded = self.shape.unique or not twin
        return Items(
            index, tuple(counts), twin, agree,
            progress.seen if recorded else NO_KEYS, progress.unknown + unknown if recorded else 0,
        )  # fmt: skip

    def _counted(self, progress: Items, holds: Conditions) -> tuple[int, ...] | None:
        """The counts after an item, or None if they are too many."""
        counts = [n + (one in holds) for one, n in enumerate(progress.counts)]
        if any(count.most is not None and n > count.most for n, count in zip(counts, self.shape.counts, strict=True)):
            return None
        return tuple(counts)

    def _item_at(self, index: int) -> Node:
        return node(self.shape.prefix[index] if index < len(self.shape.prefix) else self.shape.rest)

    # ---- whether there is a way to the end

    def _way(self, progress: Items) -> Keys | None:
        """Items that one way to the end cannot do without (others may stand for the rest); None if there is no way."""
        progress = progress._replace(unknown=0)
        if progress not in self._ways:
            if self.shape.unique:
                self._ways[progress] = self._distinct_way(progress)
            else:
                self._ways[progress] = NO_KEYS if self._reaches(progress) else None
        return self._ways[progress]

    def _horizon(self, progress: Items) -> int:
        """No way to the end needs an array longer than this."""
        more = sum(max(0, count.least - n) for n, count in zip(progress.counts, self.shape.counts, strict=True))
        horizon = max(self._floor, progress.number) + more + 2 * (not progress.twin) + 1
        horizon = max([horizon, *[_length(other) + 1 for other in progress.agree]])
        return horizon if self.shape.max_items is None else min(horizon, self.shape.max_items)

    def _options(self, progress: Items) -> Iterator[tuple[Node, Items]]:
        """What the next item can be and the progress after it, excluded arrays apart."""
        for value, added in counting_options(self._item_at(progress.number), self.shape.counts, progress.number):
            holds = frozenset(one for one, n in enumerate(added) if n)
            if self._counted(progress, holds) is not None and not value.is_empty():
                then = self._after(progress, holds, NO_KEYS, progress.twin, unknown=0)
                yield node(value), then._replace(number=progress.number + 1)

    def _reaches(self, progress: Items, twin: Node | None = None) -> bool:
        """Whether an end can be reached; with `twin`, by an item that is one of its instances."""
        horizon = self._horizon(progress)
        todo: list[_Reached] = [(progress, None)]
        visited = set(todo)
        while todo:
            here, held = todo.pop()
            if self.complete(here):
                return True
            if here.number >= horizon:
                continue
            for after in self._steps(here, held, twin):
                if after not in visited:
                    visited.add(after)
                    todo.append(after)
            if len(visited) > MOST_STEPS:
                raise LimitExceeded("too many ways to finish an array", self.shape.rest.pointer)
        return False

    def _steps(self, here: Items, held: Node | None, twin: Node | None) -> Iterator[_Reached]:
        index = here.number
        nexts = frozenset(_item(other, index) for other in here.agree if _length(other) > index)
        for value, then in self._options(here):
            for key in nexts:
                if admits(value, key):
                    agree = frozenset(o for o in here.agree if _length(o) > index and _item(o, index) == key)
                    yield then._replace(agree=agree), held
            if not has_other(value, nexts):
                continue
            yield then, held
            if here.twin:
                continue
            met = then._replace(twin=True, seen=NO_KEYS)
            if twin is not None:
                if value is twin:
                    yield met, None
            elif held is not None:
                if not conjunction(held, value).is_empty():
                    yield met, None
            else:
                if any(admits(value, key) for key in here.seen):
                    yield met, None
                yield then, value

    def _later_values(self, progress: Items) -> list[Node]:
        """The different values that an item after the next one can have."""
        found: dict[Node, None] = {}
        for index in range(progress.number + 1, self._horizon(progress)):
            for value, _ in counting_options(self._item_at(index), self.shape.counts, index):
                if not value.is_empty():
                    found[node(value)] = None
        return list(found)

    def _distinct_way(self, progress: Items) -> Keys | None:
        shape = self.shape
        if shape.counts or progress.agree:
            return self._searched_way(progress)
        missing = shape.min_items - progress.number
        if missing <= 0:
            return NO_KEYS
        needed = len(progress.seen) + missing + 1
        positions = range(progress.number, min(shape.min_items, max(progress.number, len(shape.prefix)) + 1))
        tight = [value for index in positions if not has_more(value := self._item_at(index), needed)]
        if tight and tight[-1] is self._item_at(shape.min_items - 1) and shape.min_items > len(shape.prefix):
            tight += [tight[-1]] * (shape.min_items - 1 - positions[-1])
        if len(tight) > MOST_DISTINCT:
            raise LimitExceeded(f"more than {MOST_DISTINCT} different items", shape.rest.pointer, "minItems")
        choices = []
        for value in tight:
            keys = some_keys(value, needed)
            if len(keys) < needed:
                choices.append([key for key in keys if key not in progress.seen])
        return _matched(choices)

    def _searched_way(self, progress: Items) -> Keys | None:
        """A depth-first search over concrete items."""
        horizon = self._horizon(progress)
        steps = 0
        todo: list[tuple[Items, Keys]] = [(progress, NO_KEYS)]
        while todo:
            here, chosen = todo.pop()
            steps += 1
            if steps > MOST_STEPS:
                raise LimitExceeded("too many ways to finish an array of different items", self.shape.rest.pointer)
            if self.complete(here):
                return chosen
            if here.number >= horizon:
                continue
            taken = progress.seen | chosen
            nexts = {_item(other, here.number) for other in here.agree if _length(other) > here.number}
            grown = []
            for value, then in self._options(here):
                spare = horizon - here.number + 1  # as many as can be wanted elsewhere: more are as good as these
                for key in some_keys(value, len(taken) + len(nexts) + spare):
                    if key in taken:
                        continue
                    agree = NO_KEYS
                    if key in nexts:
                        index = here.number
                        agree = frozenset(o for o in here.agree if _length(o) > index and _item(o, index) == key)
                    else:
                        spare -= 1
                    if spare >= 0:
                        grown.append((then._replace(agree=agree), chosen | {key}))
            todo += reversed(grown)
        return None


def _length(array: Key) -> int:
    return len(cast("tuple[Any, ...]", array)) - 1


def _item(array: Key, index: int) -> Key:
    return cast("tuple[Key, ...]", array)[index + 1]


def _matched(choices: list[list[Key]]) -> Keys | None:
    """A different key for every position, as a set; None if there are too few (augmenting paths)."""
    holder: dict[Key, int] = {}

    def place(position: int, tried: set[Key]) -> bool:
        for key in choices[position]:
            if key not in tried:
                tried.add(key)
                if key not in holder or place(holder[key], tried):
                    holder[key] = position
                    return True
        return False

    return frozenset(holder) if all(place(position, set()) for position in range(len(choices))) else None


def _united(parts: list[Pending]) -> Pending | None:
    """One that allows what any of them allows."""
    if len(parts) < 2:
        return parts[0] if parts else None
    values: list[Value] = []
    told = []
    split: list[Any] = []
    for part in parts:
        shift = len(values)
        values += part.values
        told += [(index + shift, mark) for index, mark in part._marks]
        split += [
            (index + shift, holds, tuple((at + shift, one) for at, one in tests)) for index, holds, tests in part._parts
        ]
    first = parts[0]
    return Pending(tuple(values), first.best, first.after, tuple(split), tuple(told))


def item_plan(shape: ArrayShape | ArrayBut) -> PlainItems | LinkedItems:
    """The plan of an array shape."""
    if isinstance(shape, ArrayBut):
        return LinkedItems(shape.shape, shape.excluded)
    if shape.counts or shape.unique or shape.repeated:
        return LinkedItems(shape, NO_KEYS)
    return PlainItems(shape)


ItemPlan = PlainItems | LinkedItems
