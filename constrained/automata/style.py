"""How JSON is written: where whitespace may stand, the order of keys, which escapes are used."""

from __future__ import annotations

from typing import NamedTuple

from constrained.automata.machine import Machine
from constrained.automata.transitions import Transitions
from constrained.kernels.tables import goto
from grammars.regular import Rx, moves


class Style(NamedTuple):
    """Options of a JSON grammar that its frames depend on.

    Attributes:
        gap: what may stand between two JSON tokens, over JSON's four whitespace characters.
        any_order: properties may come in any order.
        canonical: only necessary escapes, as printers write them.
    """

    gap: Rx
    any_order: bool
    canonical: bool


def add_gap(machine: Machine, made: Transitions, gap: Rx, expand: object, *rest: object) -> None:
    """Edges that read whitespace of `gap` and stay in the state `(expand, remaining gap, *rest)`."""
    for characters, to in moves(gap):
        state = goto(machine.state((expand, to, *rest)))
        for low, high in characters.a:
            made.on(low, high, state)
