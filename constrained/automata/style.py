"""How JSON is written: where whitespace may stand, the order of keys, which escapes are used."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from constrained.automata.machine import Key, Machine
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


class Punctuation:
    """States that read whitespace, or one of a few bytes after it: their class maps, worked out once.

    Attributes:
        moves: the whitespace that may come, and what may follow of it.
        may_end: whether the bytes may come without whitespace.
    """

    __slots__ = ("_gap", "_groups", "_maps", "may_end", "moves")

    def __init__(self, gap: Rx) -> None:
        self._gap = gap
        self.moves: tuple[tuple[Rx, Rx], ...] = moves(gap)
        self.may_end = gap.nullable
        self._groups = bytearray(256)
        for number, (characters, _) in enumerate(self.moves, 1):
            for low, high in characters.a:
                for byte in range(low, high + 1):
                    self._groups[byte] = number
        self._maps: dict[bytes, int] = {}

    def map_number(self, machine: Machine, symbols: bytes) -> int:
        """The class map: first the classes of whitespace, then one for each of `symbols`."""
        number = self._maps.get(symbols)
        if number is None:
            groups = bytearray(self._groups)
            for place, byte in enumerate(symbols, len(self.moves) + 1):
                groups[byte] = place
            number = self._maps[symbols] = machine.map_number(bytes(groups))
        return number

    def begun(self, machine: Machine, state: int, key: Callable[[], Key]) -> list[int]:
        """The actions of `state` at the end of the text and on whitespace; `key` is its key, with all whitespace to come."""
        actions = [0]
        for _, to in self.moves:
            if to is self._gap:
                actions.append(goto(state))
            else:
                function, _, *rest = key()
                actions.append(goto(machine.state((function, to, *rest))))
        return actions


def punctuation(machine: Machine, gap: Rx) -> Punctuation:
    """The class maps around the whitespace `gap`, the same ones for all states of the machine."""
    found: Punctuation = machine.kept((Punctuation, gap), lambda: Punctuation(gap))
    return found
