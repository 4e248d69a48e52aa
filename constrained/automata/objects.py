"""JSON objects: the alternatives of a frame run side by side through keys and values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from constrained.automata.children import Progress, distinct, survivors
from constrained.automata.keys import BARRED, DECLARED, encoded_key, expand_words, key_start, name_number, name_of
from constrained.automata.machine import Machine
from constrained.automata.property_plans import OrderedPlan, Plan, UnorderedPlan
from constrained.automata.style import Style, add_gap
from constrained.automata.transitions import Transitions
from constrained.kernels.tables import goto, pop_after, push, push_after
from grammars.errors import UnsupportedFeature
from grammars.json_schema.shapes import ObjectShape, Value
from grammars.regular import Rx

Entries = tuple[tuple[ObjectShape, int], ...]
QUOTE, COMMA, COLON, CLOSE = 0x22, 0x2C, 0x3A, 0x7D


class ObjectFrame:
    """What the states of one kind of object share; compared by identity.

    Attributes:
        plans: one for each alternative.
        owners: the schema that each alternative belongs to.
        names: all names that some alternative declares, in order of first appearance.
    """

    __slots__ = ("names", "owners", "plans", "style", "value_start")

    def __init__(self, style: Style, entries: Entries, value_start: Callable[..., int]) -> None:
        self.style = style
        self.value_start = value_start
        for shape, _ in entries:
            if shape.witnesses:
                raise UnsupportedFeature(
                    "an object in which some undeclared property must fail a schema is not supported",
                    shape.witnesses[0].value.pointer,
                )
        self.plans: tuple[Plan, ...] = tuple(
            (UnorderedPlan if style.any_order else OrderedPlan)(shape) for shape, _ in entries
        )
        self.owners = tuple(owner for _, owner in entries)
        self.names = tuple(dict.fromkeys(name for plan in self.plans for name in plan.numbers))

    def start(self) -> Progress:
        """Progress at the opening brace."""
        return tuple(plan.start() for plan in self.plans)

    def complete(self, progress: Progress) -> int:
        """The owners of alternatives that may end here, as a bit set."""
        holds = 0
        for plan, owner, one in zip(self.plans, self.owners, progress, strict=True):
            if one is not None and plan.complete(one):
                holds |= 1 << owner
        return holds

    def continuing(self, progress: Progress) -> Progress:
        """The alternatives that may have another property."""
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
                    if name not in plan.numbers and name not in found and plan.group_of(name) is not None:
                        found[name] = None
        return list(found)

    def with_name(self, progress: Progress, name: str) -> tuple[tuple[Value | None, ...], Progress]:
        """What the value of the declared `name` must be for each alternative, and the progress after it."""
        wanted: list[Value | None] = []
        after: list[tuple[int, ...] | None] = []
        for plan, one in zip(self.plans, progress, strict=True):
            value, then = None, None
            if one is not None:
                index = plan.numbers.get(name)
                if index is not None:
                    if index in plan.offered(one):
                        value, then = plan.properties[index].value, plan.with_declared(one, index)
                elif plan.offers_undeclared(one):
                    group = plan.group_of(name)
                    if group is not None:
                        value, then = group.value, plan.with_undeclared(one)
            wanted.append(value)
            after.append(then)
        return tuple(wanted), tuple(after)

    def groups(self, progress: Progress) -> tuple[tuple[Rx, ...], tuple[dict[int, Value], ...]]:
        """Languages of undeclared keys that may come next, and for each alternative the value under each of them."""
        numbers: dict[Rx, int] = {}
        values: list[dict[int, Value]] = []
        for plan, one in zip(self.plans, progress, strict=True):
            here: dict[int, Value] = {}
            if one is not None and plan.offers_undeclared(one):
                for group in plan.groups:
                    here[numbers.setdefault(group.names, len(numbers))] = group.value
            values.append(here)
        return tuple(numbers), tuple(values)


def object_start(machine: Machine, style: Style, entries: Entries, value_start: Callable[..., int]) -> int:
    """The state just after the opening brace."""
    frame = machine.kept((ObjectFrame, style, entries), lambda: ObjectFrame(style, entries, value_start))
    return machine.state((expand_first, style.gap, frame, frame.start()))


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
            made.on(COMMA, COMMA, goto(machine.state((expand_comma, frame.style.gap, frame, left))))
    return made


def expand_comma(machine: Machine, gap: Any, frame: ObjectFrame, progress: Progress) -> Transitions:
    """After a comma: a key."""
    made = Transitions()
    add_gap(machine, made, gap, expand_comma, frame, progress)
    if gap.nullable:
        made.on(QUOTE, QUOTE, _key(machine, frame, progress))
    return made


def _key(machine: Machine, frame: ObjectFrame, progress: Progress) -> int:
    """The action on the opening quote of a key: names of a trie, or a frame of its own where undeclared keys may come."""
    languages, _ = frame.groups(progress)
    if not languages:
        return goto(machine.state((expand_name, frame, progress)))
    offered = set(frame.offered_names(progress))
    words = sorted(
        (encoded_key(name), DECLARED + name_number(machine, name) if name in offered else BARRED)
        for name in frame.names
    )
    start = key_start(machine, tuple(words), languages)
    return push_after(start, machine.state((resolve_key, frame, progress)), waits=True)


def expand_name(machine: Machine, frame: ObjectFrame, progress: Progress) -> Transitions | int:
    """After the opening quote of a key that can only be a declared name."""
    names = frame.offered_names(progress)
    words = sorted((encoded_key(name), _colon(machine, frame, *frame.with_name(progress, name))) for name in names)
    return expand_words(machine, tuple(words), 0, len(words), 0)


def resolve_key(machine: Machine, outcome: int, frame: ObjectFrame, progress: Progress) -> int:
    """A key has ended: a declared name, or one in the languages of the bit set `outcome`."""
    if outcome >= DECLARED:
        return _colon(machine, frame, *frame.with_name(progress, name_of(machine, outcome - DECLARED)))
    _, values = frame.groups(progress)
    wanted: list[Value | None] = []
    after: list[tuple[int, ...] | None] = []
    for plan, one, here in zip(frame.plans, progress, values, strict=True):
        value = next((value for index, value in here.items() if outcome >> index & 1), None)
        wanted.append(value)
        after.append(None if value is None or one is None else plan.with_undeclared(one))
    return _colon(machine, frame, tuple(wanted), tuple(after))


def _colon(machine: Machine, frame: ObjectFrame, wanted: tuple[Value | None, ...], after: Progress) -> int:
    """The state after a key."""
    if not any(after):
        return 0
    values, indices = distinct(wanted)
    return machine.state((expand_colon, frame.style.gap, frame, values, indices, after))


def expand_colon(
    machine: Machine, gap: Any, frame: ObjectFrame, values: tuple[Value, ...], indices: tuple[int, ...], after: Progress
) -> Transitions:
    """After a key: a colon."""
    made = Transitions()
    add_gap(machine, made, gap, expand_colon, frame, values, indices, after)
    if gap.nullable:
        made.on(
            COLON, COLON, goto(machine.state((expand_member, frame.style.gap, frame, values, indices, after)))
        )
    return made


def expand_member(
    machine: Machine, gap: Any, frame: ObjectFrame, values: tuple[Value, ...], indices: tuple[int, ...], after: Progress
) -> Transitions:
    """After a colon: the value."""
    made = Transitions()
    add_gap(machine, made, gap, expand_member, frame, values, indices, after)
    if gap.nullable:
        start = frame.value_start(machine, frame.style, values)
        if len(values) == 1:
            made.otherwise(push(start, machine.state((expand_next, frame.style.gap, frame, after))))
        else:
            made.otherwise(push(start, machine.state((resolve_value, frame, after, indices)), waits=True))
    return made


def resolve_value(machine: Machine, outcome: int, frame: ObjectFrame, after: Progress, indices: tuple[int, ...]) -> int:
    """A value has ended and satisfies the schemas in `outcome`."""
    left = survivors(after, indices, outcome)
    return machine.state((expand_next, frame.style.gap, frame, left)) if any(left) else 0
