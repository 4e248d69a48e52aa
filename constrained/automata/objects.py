"""JSON objects: the alternatives of a frame run side by side through keys and values."""

from __future__ import annotations

from typing import Any

from constrained.automata.children import Indices, Progress, Wanted, distinct, survivors
from constrained.automata.keys import (
    BARRED,
    encoded_key,
    key_beside,
    key_start,
    name_number,
    name_of,
    words_start,
)
from constrained.automata.machine import Machine
from constrained.automata.object_frames import ObjectFrame, is_open, loose
from constrained.automata.outcomes import DECLARED, holds_of, outcome_of
from constrained.automata.pending import Pending
from constrained.automata.property_plans import AGAIN, OrderedPlan, UnorderedPlan, seen_names
from constrained.automata.strings import string_start
from constrained.automata.style import add_gap
from constrained.automata.transitions import Transitions
from constrained.kernels.tables import OPEN_AHEAD, OPEN_HERE, goto, pop_after, push_after
from grammars.json_schema.object_algebra import has
from grammars.json_schema.shapes import Value
from grammars.regular import NONE, Rx, difference, literals, moves

QUOTE, COMMA, COLON, CLOSE = 0x22, 0x2C, 0x3A, 0x7D


def expand_first(machine: Machine, gap: Any, frame: ObjectFrame, progress: Progress) -> Transitions:
    """After the brace: a key or the end."""
    made = Transitions()
    add_gap(machine, made, gap, expand_first, frame, progress)
    if gap.nullable:
        holds = frame.complete(progress)
        if holds:
            made.on(CLOSE, CLOSE, pop_after(outcome_of(machine, holds)))
        left = frame.continuing(progress)
        if any(left):
            made.on(QUOTE, QUOTE, key_action(machine, frame, left))
    return made


def expand_next(machine: Machine, gap: Any, frame: ObjectFrame, progress: Progress) -> Transitions:
    """After a value: a comma or the end."""
    made = Transitions()
    add_gap(machine, made, gap, expand_next, frame, progress)
    if gap.nullable:
        holds = frame.complete(progress)
        if holds:
            made.on(CLOSE, CLOSE, pop_after(outcome_of(machine, holds)))
        left = frame.continuing(progress)
        if any(left):
            made.on(COMMA, COMMA, goto(after_comma(machine, frame, left)))
    return made


def after_value(machine: Machine, frame: ObjectFrame, progress: Progress) -> int:
    """The state after a value."""
    if frame.run and len(progress[0]) == 2:
        return frame.run + int(progress[0][0])
    return machine.state((expand_next, frame.style.gap, frame, progress))


def after_comma(machine: Machine, frame: ObjectFrame, progress: Progress) -> int:
    """The state after a comma."""
    if frame.run and len(progress[0]) == 2:
        return frame.run + len(frame.names) + 1 + int(progress[0][0])
    return _comma(machine, frame, frame.style.gap, progress)


def _comma(machine: Machine, frame: ObjectFrame, gap: Any, progress: Progress) -> int:
    state = machine.state((expand_comma, gap, frame, progress))
    if is_open(progress):
        machine.open(state, OPEN_AHEAD)
    elif loose(progress):
        machine.open(state, OPEN_HERE)
        machine.reads_keys(state)
    return state


def expand_comma(machine: Machine, gap: Any, frame: ObjectFrame, progress: Progress) -> Transitions:
    """After a comma: a key."""
    made = Transitions()
    for characters, to in moves(gap):
        state = goto(_comma(machine, frame, to, progress))
        for low, high in characters.a:
            made.on(low, high, state)
    if gap.nullable:
        made.on(QUOTE, QUOTE, key_action(machine, frame, progress))
    return made


def key_action(machine: Machine, frame: ObjectFrame, progress: Progress) -> int:
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
        return goto(_declared_names(machine, frame, plan, progress))
    string = undeclared_start(machine, frame, plan)
    if not string:
        return goto(_declared_names(machine, frame, plan, progress))
    words, outcomes, by_word = frame.spelled(machine)
    offered = set(plan.offered(one))
    if plan.has_free_names:  # whatever begins like a name that may not come can still become another one
        names = tuple([(words[index], outcomes[index] if index in offered else BARRED) for index in by_word])
    else:
        names = tuple([(words[index], outcomes[index]) for index in by_word if index in offered])
    start = key_beside(machine, names, string)
    return push_after(start, machine.state((resolve_key, frame, progress)), waits=True)


def undeclared_start(machine: Machine, frame: ObjectFrame, plan: OrderedPlan | UnorderedPlan) -> int:
    """The state just after the quote of an undeclared key, for the sole plan; 0 if there can be none."""
    if frame.key_string is None:
        frame.key_string = _undeclared_start(machine, frame, plan)
    return frame.key_string


def _undeclared_start(machine: Machine, frame: ObjectFrame, plan: OrderedPlan | UnorderedPlan) -> int:
    languages = tuple(dict.fromkeys([group.names for group in plan.groups]))
    if not plan.has_free_names:
        languages = tuple([_without(rx, frame.names) for rx in languages])
        if all([rx is NONE for rx in languages]):
            return 0
    return string_start(machine, languages, canonical=True)


def _without(names: Rx, barred: tuple[str, ...]) -> Rx:
    held = [name for name in barred if has(names, name)]
    return difference(names, literals(held)) if held else names


def _declared_names(machine: Machine, frame: ObjectFrame, plan: OrderedPlan | UnorderedPlan, progress: Progress) -> int:
    """`expand_name` for a sole plan, at once where its states after keys cost nothing."""
    offered = plan.offered(progress[0])
    if len(offered) > 1:
        return machine.state((expand_name, frame, progress))
    spelled, _, _ = frame.spelled(machine)
    words = [(spelled[index], _sole_colon(machine, frame, plan, progress, index)) for index in offered]
    return words_start(machine, tuple(sorted(words)))


def expand_name(machine: Machine, frame: ObjectFrame, progress: Progress) -> int:
    """After the opening quote of a key that can only be a declared name."""
    names = frame.offered_names(progress)
    words = [(encoded_key(name), _colon(machine, frame, *frame.with_name(progress, name))) for name in names]
    return words_start(machine, tuple(sorted(words)))


def resolve_key(machine: Machine, outcome: int, frame: ObjectFrame, progress: Progress) -> int:
    """A key has ended: a declared name, or one in the languages of the set `outcome`."""
    if outcome >= DECLARED:
        if frame.sole is not None:
            colon = _sole_colon(machine, frame, frame.sole, progress, frame.index_of(machine, outcome))
            machine.expand(colon)  # which is read next in any case
            return colon
        return _colon(machine, frame, *frame.with_name(progress, name_of(machine, outcome - DECLARED)))
    _, members = frame.groups(progress)
    holds = holds_of(machine, outcome)
    found = [next((member for index, member in here.items() if holds >> index & 1), (None, None)) for here in members]
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
    if frame.run:
        return frame.run + 2 * len(frame.names) + 2 + index
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
            then = push_after(start, after_value(machine, frame, left))
        else:
            then = push_after(start, machine.state((resolve_value, frame, after, indices)), waits=True)
        made.on(COLON, COLON, then)
    return made


def resolve_value(machine: Machine, outcome: int, frame: ObjectFrame, after: Progress, indices: Indices) -> int:
    """A value has ended and satisfies the schemas in `outcome`."""
    left = survivors(after, indices, holds_of(machine, outcome))
    return after_value(machine, *frame.narrowed(machine, left)) if any(left) else 0
