"""Python's side of the tables that objects with properties in their order have in kernels (`constrained.kernels.object_tables`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from constrained.kernels import handles as h
from constrained.kernels import object_tables as o
from constrained.memory import reserved
from grammars.regular import Rx, moves

if TYPE_CHECKING:
    from constrained.automata.machine import Machine

_SPELLINGS_PER_STATE = 16
_GAPS = 1 << 12
_INTERNED = 1 << 16
_SPACES = 256


Key = tuple[Any, ...]


class Held(Protocol):
    """An object in the tables."""

    def key(self, offset: int, gap: Rx | None = None) -> Key:
        """What the state at a place stands for, where `gap` may still come (None: all whitespace)."""

    def names_key(self, machine: Machine, kind: int, record: list[int], offset: int) -> Key:
        """What a state inside names stands for."""

    def look_at(self, machine: Machine, what: int) -> None:
        """Work out what a kernel has to know next, as `object_places.make_piece` says."""


class ObjectTables:
    """The tables of one machine.

    Attributes:
        counts: int64[8], how much is used of them and of the machine's other tables.
        origins: int32[states, 3], what each state is that kernels have made.
        by_slot: the tables by their slots among handles.
    """

    def __init__(self, states: int) -> None:
        self.counts: NDArray[np.int64] = np.zeros(o.COUNTS, dtype=np.int64)
        self.origins: NDArray[np.int32] = reserved((states, o.ORIGIN_COLUMNS), np.int32)
        self._records: NDArray[np.int32] = reserved((states, o.RECORD_COLUMNS), np.int32)
        self._members: NDArray[np.int32] = reserved((states // 4 + 1, o.MEMBER_COLUMNS), np.int32)
        self._objects: NDArray[np.int32] = reserved((states // 4 + 1, o.OBJECT_COLUMNS), np.int32)
        self._gaps: NDArray[np.int32] = reserved((_GAPS, o.GAP_COLUMNS), np.int32)
        self.by_slot: dict[int, NDArray[Any]] = {
            h.T_COUNTS: self.counts, h.T_OBJECTS: self._objects, h.T_MEMBERS: self._members, h.T_GAPS: self._gaps,
            h.T_SPELLINGS: reserved((states * _SPELLINGS_PER_STATE,), np.uint8), h.T_ORIGINS: self.origins,
            h.T_RECORDS: self._records, h.T_INTERNED: reserved((_INTERNED, 2), np.int64),
        }  # fmt: skip
        self._held: list[Any] = []
        self._answering: Callable[[Any], Held]
        self._rows: dict[Rx, int] = {}
        self._rests: list[Rx] = []

    def bytes_used(self) -> int:
        """Memory in use, in bytes."""
        _, _, _, objects, members, spellings, records, interned = self.counts.tolist()
        rows = o.OBJECT_COLUMNS * objects + o.MEMBER_COLUMNS * members + o.RECORD_COLUMNS * records
        return int(4 * rows + spellings + 16 * interned + 600 * objects)

    def gap_row(self, machine: Machine, gap: Rx) -> int | None:
        """The row of the whitespace `gap`, entered at the first call; None if it is of a kind that the tables do not hold."""
        row = self._rows.get(gap)
        if row is None:
            row = self._rows[gap] = self._enter_gap(machine, gap)
        return None if row < 0 else row

    def _enter_gap(self, machine: Machine, gap: Rx) -> int:
        rests: dict[Rx, int] = {gap: 0}
        todo = [gap]
        steps = []
        for rest in todo:
            steps.append(moves(rest))
            for _, to in steps[-1]:
                if to not in rests:
                    rests[to] = len(rests)
                    todo.append(to)
            if len(rests) > o.MOST_GAPS or len(steps[-1]) > o.MOST_MOVES:
                return -1
        first = len(self._rests)
        if first + len(rests) > _GAPS:
            return -1
        self._rests += todo
        self._gaps[first, o.G_COUNT] = len(rests)
        for row, (rest, step) in enumerate(zip(todo, steps, strict=True), first):
            groups = bytearray(_SPACES)
            for number, (characters, to) in enumerate(step, 1):
                self._gaps[row, o.G_TO + number - 1] = rests[to]
                for low, high in characters.a:
                    groups[low : high + 1] = bytes([number]) * (high + 1 - low)
            self._gaps[row, o.G_MOVES], self._gaps[row, o.G_MAY_END] = len(step), rest.nullable
            for number, symbols in enumerate(o.SYMBOLS):
                if rest.nullable or not symbols:
                    with_symbols = bytearray(groups)
                    for place, byte in enumerate(symbols, len(step) + 1):
                        with_symbols[byte] = place
                    self._gaps[row, o.G_MAPS + number] = machine.map_number(bytes(with_symbols))
        return first

    def hold(self, number: int, frame: object, answering: Callable[[Any], Held]) -> None:
        """Have what `answering` makes of `frame` answer for object `number`, the next one."""
        assert number == len(self._held)
        self._held.append(frame)
        self._answering = answering

    def look_at(self, machine: Machine, number: int, what: int) -> None:
        """`Held.look_at` of an object."""
        self._answering(self._held[number]).look_at(machine, what)

    def settle_member(self, number: int, index: int, column: int, value: int) -> None:
        """Write what has been found out about a property of an object."""
        self._members[int(self._objects[number, o.B_MEMBERS]) + index, column] = value

    def settle_others(self, number: int, string: int, may_come: bool, free: bool) -> None:
        """Write what has been found out about the undeclared keys of an object."""
        row = self._objects[number]
        row[o.B_STRING], row[o.B_FREE] = string, o.YES if free else o.NO
        row[o.B_OTHERS] = o.YES if may_come else o.NO

    def key(self, machine: Machine, state: int) -> Key | None:
        """What a state stands for; None if it was not made by kernels."""
        kind, first, second = (int(number) for number in self.origins[state])
        if kind == o.NOT_HERE:
            return None
        if kind == o.AT_PLACE:
            return self._answering(self._held[first]).key(second)
        if kind == o.IN_GAP:
            offset, rest = divmod(second, o.MOST_GAPS)
            return self._answering(self._held[first]).key(
                offset, self._rests[int(self._objects[first, o.B_GAP]) + rest]
            )
        record: list[int] = self._records[first].tolist()
        return self._answering(self._held[record[o.R_OBJECT]]).names_key(machine, kind, record, second)
