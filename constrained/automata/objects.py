"""JSON objects: the alternatives of a frame run side by side through keys and values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from constrained.automata.children import Indices, Progress, Wanted, distinct, survivors
from constrained.automata.keys import BARRED, DECLARED, encoded_key, expand_words, key_start, name_number, name_of
from constrained.automata.linked_members import LinkedMembers, Members, Plan, property_plan
from constrained.automata.machine import Machine
from constrained.automata.pending import Pending
from constrained.automata.property_plans import (
    AGAIN,
    NO_NAMES,
    OrderedPlan,
    UnorderedPlan,
    loose_end,
    seen_names,
    unknown_names,
)
from constrained.automata.style import Style, add_gap
from constrained.automata.transitions import Transitions
from constrained.kernels.tables import OPEN_AHEAD, OPEN_HERE, goto, pop_after, push_after
from grammars.json_schema.object_algebra import has
from grammars.json_schema.shapes import ObjectShape, Value
from grammars.regular import NONE, Rx, difference, literals, moves

Entries = tuple[tuple[ObjectShape, int], ...]
QUOTE, COMMA, COLON, CLOSE = 0x22, 0x2C, 0x3A, 0x7D


class ObjectFrame:
    """What the states of one kind of object share; compared by identity.

    Attributes:
        plans: one for each alternative.
        owners: the schema that each alternative belongs to.
        names: all names that some alternative declares, in order of first appearance.
        sole: the only plan, where there is one and keys alone decide what follows; what most objects come down to.
    """

    __slots__ = ("_is_loose", "_spelled", "names", "owners", "plans", "sole", "style", "value_start")

    def __init__(self, style: Style, entries: Entries, value_start: Callable[..., int]) -> None:
        self.style = style
        self.value_start = value_start
        self.plans: tuple[Plan, ...] = tuple([property_plan(shape, style.any_order) for shape, _ in entries])
        self._is_loose: bool | None = None
        self.owners = tuple(owner for _, owner in entries)
        self.names = tuple(dict.fromkeys([name for plan in self.plans for name in plan.numbers]))
        plan = self.plans[0]
        self.sole = None if len(self.plans) > 1 or isinstance(plan, LinkedMembers) else plan
        self._spelled: tuple[list[bytes], list[int], list[int]] | None = None

    def is_loose(self) -> bool:
        """Whether undeclared keys are looked up when the next key comes (see `property_plans`); asked before the first one."""
        if self._is_loose is None:
            self._is_loose = all(plan.can_be_loose for plan in self.plans)
            for plan in self.plans:
                plan.is_loose = self._is_loose
        return self._is_loose

    def start(self) -> Progress:
        """Progress at the opening brace."""
        return tuple([
            None if isinstance(plan, LinkedMembers) and not plan.live(plan.start()) else plan.start() for plan in self.plans
        ])  # fmt: skip

    def complete(self, progress: Progress) -> int:
        """The owners of alternatives that may end here, as a bit set."""
        holds = 0
        for plan, owner, one in zip(self.plans, self.owners, progress, strict=True):
            if one is not None and plan.complete(one):
                holds |= 1 << owner
        return holds

    def spelled(self, machine: Machine) -> tuple[list[bytes], list[int], list[int]]:
        """For the sole plan, of each property: the bytes of its name, its outcome; and the properties sorted by bytes."""
        if self._spelled is None:
            words = [encoded_key(name) for name in self.names]
            outcomes = [DECLARED + name_number(machine, name) for name in self.names]
            self._spelled = words, outcomes, sorted(range(len(words)), key=words.__getitem__)
        return self._spelled

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


def object_start(machine: Machine, style: Style, entries: Entries, value_start: Callable[..., int]) -> int:
    """The state just after the opening brace."""
    frame = machine.kept((ObjectFrame, style, entries), lambda: ObjectFrame(style, entries, value_start))
    progress = frame.start()
    return machine.state((expand_first, style.gap, frame, progress)) if any(progress) else 0


def expand_first(machine: Machine, gap: Any, frame: ObjectFrame, progress: Progress) -> Transitions:
    """After the brace: a key or the end."""
    made = Transitions()
    add_gap(machine, made, gap, expand_first, frame, progress)
    if gap.nullable:
        holds = frame.complete(progress)
        if holds:
            made.on(CLOSE, CLOSE, pop_after(holds))
        left = frame.continuing(progress)
        if any(left):
            made.on(QUOTE, QUOTE, _key(machine, frame, left))
    return made


def expand_next(machine: Machine, gap: Any, frame: ObjectFrame, progress: Progress) -> Transitions:
    """After a value: a comma or the end."""
    made = Transitions()
    add_gap(machine, made, gap, expand_next, frame, progress)
    if gap.nullable:
        holds = frame.complete(progress)
        if holds:
            made.on(CLOSE, CLOSE, pop_after(holds))
        left = frame.continuing(progress)
        if any(left):
            made.on(COMMA, COMMA, goto(_comma(machine, frame, frame.style.gap, left)))
    return made


def _comma(machine: Machine, frame: ObjectFrame, gap: Any, progress: Progress) -> int:
    state = machine.state((expand_comma, gap, frame, progress))
    if is_open(progress):
        machine.open(state, OPEN_AHEAD)
    elif loose(progress):
        machine.open(state, OPEN_HERE)
    return state


def expand_comma(machine: Machine, gap: Any, frame: ObjectFrame, progress: Progress) -> Transitions:
    """After a comma: a key."""
    made = Transitions()
    for characters, to in moves(gap):
        state = goto(_comma(machine, frame, to, progress))
        for low, high in characters.a:
            made.on(low, high, state)
    if gap.nullable:
        made.on(QUOTE, QUOTE, _key(machine, frame, progress))
    return made


def _key(machine: Machine, frame: ObjectFrame, progress: Progress) -> int:
    """The action on the opening quote of a key: names of a trie, or a frame of its own where undeclared keys may come."""
    frame.is_loose()
    if frame.sole is not None and not seen_names(progress[0]):
        return _sole_key(machine, frame, frame.sole, progress)
    languages, _ = frame.groups(progress)
    seen = frame.seen(progress)
    offered = frame.offered_names(progress)
    if frame.has_free_names(progress):  # whatever begins like a name that may not come can still become another one
        barred = [name for name in (*frame.names, *seen) if name not in offered]
    else:
        barred = []
        languages = tuple([_without(rx, (*frame.names, *seen)) for rx in languages])
    if all(rx is NONE for rx in languages):
        return goto(machine.state((expand_name, frame, progress)))
    words = [(encoded_key(name), DECLARED + name_number(machine, name)) for name in offered]
    words += [(encoded_key(name), BARRED) for name in barred]
    start = key_start(machine, tuple(sorted(words)), languages)
    return push_after(start, machine.state((resolve_key, frame, progress)), waits=True)


def _sole_key(machine: Machine, frame: ObjectFrame, plan: OrderedPlan | UnorderedPlan, progress: Progress) -> int:
    """`_key` for the sole plan of a frame, where no undeclared key is known to have come."""
    one = progress[0]
    if not plan.offers_undeclared(one):
        return goto(machine.state((expand_name, frame, progress)))
    languages = tuple(dict.fromkeys([group.names for group in plan.groups]))
    words, outcomes, by_word = frame.spelled(machine)
    offered = set(plan.offered(one))
    if plan.has_free_names:
        names = tuple([(words[index], outcomes[index] if index in offered else BARRED) for index in by_word])
    else:
        names = tuple([(words[index], outcomes[index]) for index in by_word if index in offered])
        languages = tuple([_without(rx, frame.names) for rx in languages])
        if all([rx is NONE for rx in languages]):
            return goto(machine.state((expand_name, frame, progress)))
    start = key_start(machine, names, languages)
    return push_after(start, machine.state((resolve_key, frame, progress)), waits=True)


def _without(names: Rx, barred: tuple[str, ...]) -> Rx:
    held = [name for name in barred if has(names, name)]
    return difference(names, literals(held)) if held else names


def expand_name(machine: Machine, frame: ObjectFrame, progress: Progress) -> Transitions | int:
    """After the opening quote of a key that can only be a declared name."""
    if frame.sole is not None:
        spelled, _, _ = frame.spelled(machine)
        offered = frame.sole.offered(progress[0])
        words = sorted(
            [(spelled[index], _sole_colon(machine, frame, frame.sole, progress, index)) for index in offered]
        )
        return expand_words(machine, tuple(words), 0, len(words), 0)
    names = frame.offered_names(progress)
    words = sorted((encoded_key(name), _colon(machine, frame, *frame.with_name(progress, name))) for name in names)
    return expand_words(machine, tuple(words), 0, len(words), 0)


def resolve_key(machine: Machine, outcome: int, frame: ObjectFrame, progress: Progress) -> int:
    """A key has ended: a declared name, or one in the languages of the bit set `outcome`."""
    if outcome >= DECLARED:
        if frame.sole is not None:
            index = frame.sole.numbers[name_of(machine, outcome - DECLARED)]
            return _sole_colon(machine, frame, frame.sole, progress, index)
        return _colon(machine, frame, *frame.with_name(progress, name_of(machine, outcome - DECLARED)))
    _, members = frame.groups(progress)
    found = [next((member for index, member in here.items() if outcome >> index & 1), (None, None)) for here in members]
    return _colon(machine, frame, tuple([value for value, _ in found]), tuple([after for _, after in found]))


def known_key(machine: Machine, frame: ObjectFrame, progress: Progress, name: str) -> int:
    """The state after the key `name`; 0 if it may not come."""
    return _colon(machine, frame, *frame.with_name(progress, name))


def _sole_colon(
    machine: Machine, frame: ObjectFrame, plan: OrderedPlan | UnorderedPlan, progress: Progress, index: int
) -> int:
    """The state after the declared key `index` of the sole plan, which is offered."""
    value, after = plan.declared(progress[0], index)
    if len(after) > 2:
        return _colon(machine, frame, (value,), (after,))
    return machine.state((expand_colon, frame.style.gap, frame, (value,), (0,), (after,)))


def _colon(machine: Machine, frame: ObjectFrame, wanted: tuple[Wanted, ...], after: Progress) -> int:
    """The state after a key."""
    if not any(after):
        return 0
    values, indices = distinct(wanted)
    state = machine.state((expand_colon, frame.style.gap, frame, values, indices, after))
    if loose(after) == AGAIN:
        machine.open(state, OPEN_AHEAD)
    elif is_open(after):
        # which key it was can matter as early as in its value, where values have more to do than to be valid
        machine.open(state, OPEN_AHEAD if any(isinstance(one, Pending) for one in after) else OPEN_HERE)
    return state


def expand_colon(
    machine: Machine, gap: Any, frame: ObjectFrame, values: tuple[Value, ...], indices: Indices, after: Progress
) -> Transitions:
    """After a key: a colon, and then a frame that reads whitespace and the value."""
    made = Transitions()
    add_gap(machine, made, gap, expand_colon, frame, values, indices, after)
    if gap.nullable:
        start = frame.value_start(machine, frame.style, values)
        if len(values) == 1:
            left = survivors(after, indices, 1)
            then = push_after(start, machine.state((expand_next, frame.style.gap, frame, left)))
        else:
            then = push_after(start, machine.state((resolve_value, frame, after, indices)), waits=True)
        made.on(COLON, COLON, then)
    return made


def resolve_value(machine: Machine, outcome: int, frame: ObjectFrame, after: Progress, indices: Indices) -> int:
    """A value has ended and satisfies the schemas in `outcome`."""
    left = survivors(after, indices, outcome)
    return machine.state((expand_next, frame.style.gap, frame, left)) if any(left) else 0
