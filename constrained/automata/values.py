"""JSON value positions: one frame reads a value against several schemas at once and is left with those that hold.

The outcome of a frame is a bit set over the schemas it was entered with; a frame with one schema is left with 1.
"""

from __future__ import annotations

from constrained.automata import arrays
from constrained.automata.children import MANY
from constrained.automata.held import expand_held_number, following, held_parts, held_string
from constrained.automata.machine import Machine
from constrained.automata.object_runs import object_start
from constrained.automata.scalars import expand_number, literal_name
from constrained.automata.state_keys import in_series
from constrained.automata.strings import joint_derivatives, string_start
from constrained.automata.style import Style, add_gap
from constrained.automata.transitions import Transitions
from constrained.kernels.tables import goto
from grammars.json_schema.shapes import Alternatives, Value
from grammars.regular import EPSILON, NONE, Rx

QUOTE, OPEN_BRACKET, OPEN_BRACE = 0x22, 0x5B, 0x7B


def value_start(machine: Machine, style: Style, values: tuple[Value, ...]) -> int:
    """The state before a JSON value that has to satisfy at least one of `values`."""
    return machine.state((expand_value, style, values))


@in_series
def expand_value(machine: Machine, style: Style, values: tuple[Value, ...]) -> int:
    """A value position is the state of what its schemas come down to, which other positions share."""
    return machine.state((expand_alternatives, style, tuple([value.alternatives() for value in values])))


def spaced_start(machine: Machine, style: Style, values: tuple[Value, ...]) -> int:
    """The state before whitespace and then such a value: the same wherever the value stands."""
    return machine.state((expand_spaced, style.gap, style, values))


@in_series
def expand_spaced(machine: Machine, gap: Rx, style: Style, values: tuple[Value, ...]) -> int:
    """Before a value that whitespace may come before; as `expand_value`."""
    each = tuple([value.alternatives() for value in values])
    return machine.state((expand_spaced_alternatives, gap, style, each))


@in_series
def expand_spaced_alternatives(
    machine: Machine, gap: Rx, style: Style, each: tuple[Alternatives, ...]
) -> Transitions | int:
    """Before the first byte of a value, or of whitespace before it."""
    if gap is EPSILON:
        return machine.state((expand_alternatives, style, each))
    made = expand_alternatives(machine, style, each) if gap.nullable else Transitions()
    add_gap(machine, made, gap, expand_spaced_alternatives, style, each)
    return made


@in_series
def expand_alternatives(machine: Machine, style: Style, each: tuple[Alternatives, ...]) -> Transitions:
    """Before the first byte of a value."""
    made = Transitions()
    strings = tuple([one.string for one in each])
    many = len(each) > MANY
    if any([rx is not NONE for rx in strings]):
        if many:
            start = held_string(machine, style.canonical, held_parts(strings))
        else:
            start = string_start(machine, strings, style.canonical)
        made.on(QUOTE, QUOTE, goto(start))
    numbers = tuple([one.number for one in each])
    if any([rx is not NONE for rx in numbers]):
        if many:
            for low, high, after in following(held_parts(numbers)):
                made.on(low, high, goto(machine.state((expand_held_number, after))))
        else:
            for low, high, to in joint_derivatives(numbers):
                made.on(low, high, goto(machine.state((expand_number, to))))
    if any([one.literals for one in each]):
        for name in ("null", "true", "false"):
            holds = sum([1 << index for index, one in enumerate(each) if name in one.literals])
            if holds:
                made.on(ord(name[0]), ord(name[0]), goto(literal_name(machine, name[1:].encode(), holds)))
    array_entries = tuple([(shape, owner) for owner, one in enumerate(each) for shape in one.arrays])
    if array_entries:
        start = arrays.array_start(machine, style, array_entries, value_start)
        if start:
            made.on(OPEN_BRACKET, OPEN_BRACKET, goto(start))
    object_entries = tuple([(shape, owner) for owner, one in enumerate(each) for shape in one.objects])
    if object_entries:
        start = object_start(machine, style, object_entries, spaced_start)
        if start:
            made.on(OPEN_BRACE, OPEN_BRACE, goto(start))
    return made
