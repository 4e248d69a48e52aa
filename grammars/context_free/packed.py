"""Parse tables as two arrays: read in no time, and taken apart where a state is reached."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Mapping, Sequence
from typing import overload

from grammars.context_free.grammar import Action, LalrTable


class PackedMaps(Sequence[Mapping[int, int]]):
    """A sequence of mappings between numbers."""

    __slots__ = ("_flat", "_made", "_starts")

    def __init__(self, flat: array[int], starts: array[int]) -> None:
        """
        Args:
            flat: keys and values by turns, one mapping after the other.
            starts: where each mapping begins, and the end.
        """
        self._flat = flat
        self._starts = starts
        self._made: dict[int, Mapping[int, int]] = {}

    @staticmethod
    def of(maps: Sequence[Mapping[int, int]]) -> PackedMaps:
        """The mappings, packed."""
        flat, starts = array("i"), array("i", [0])
        for one in maps:
            for pair in one.items():
                flat.extend(pair)
            starts.append(len(flat))
        return PackedMaps(flat, starts)

    def __len__(self) -> int:
        return len(self._starts) - 1

    @overload
    def __getitem__(self, index: int) -> Mapping[int, int]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Mapping[int, int]]: ...
    def __getitem__(self, index: int | slice) -> Mapping[int, int] | Sequence[Mapping[int, int]]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        found = self._made.get(number)
        if found is None:
            part = self._flat[self._starts[number] : self._starts[number + 1]]
            found = self._made[number] = dict(zip(part[::2], part[1::2], strict=True))
        return found

    def __reduce__(self) -> tuple[object, ...]:
        return unpacked, (sys.byteorder, self._flat.tobytes(), self._starts.tobytes())


def unpacked(order: str, flat: bytes, starts: bytes) -> PackedMaps:
    """The mappings of two arrays of 32-bit numbers in one byte order."""
    arrays = array("i"), array("i")
    for made, data in zip(arrays, (flat, starts), strict=True):
        made.frombytes(data)
        if order != sys.byteorder:
            made.byteswap()
    return PackedMaps(*arrays)


class PackedActions(Sequence[Mapping[int, Action]]):
    """The actions of a parse table: a shift to n is the number 2 n, a reduction of rule n is 2 n + 1."""

    __slots__ = ("_made", "_maps")

    def __init__(self, maps: PackedMaps) -> None:
        self._maps = maps
        self._made: dict[int, Mapping[int, Action]] = {}

    @staticmethod
    def of(actions: Sequence[Mapping[int, Action]]) -> PackedActions:
        """The actions, packed."""
        return PackedActions(
            PackedMaps.of([
                {terminal: 2 * number + (what == "reduce") for terminal, (what, number) in one.items()} for one in actions
            ])
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self._maps)

    @overload
    def __getitem__(self, index: int) -> Mapping[int, Action]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Mapping[int, Action]]: ...
    def __getitem__(self, index: int | slice) -> Mapping[int, Action] | Sequence[Mapping[int, Action]]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        found = self._made.get(index)
        if found is None:
            found = self._made[index] = {
                terminal: ("reduce" if code & 1 else "shift", code >> 1) for terminal, code in self._maps[index].items()
            }
        return found

    def __reduce__(self) -> tuple[object, ...]:
        return PackedActions, (self._maps,)


def packed(table: LalrTable) -> LalrTable:
    """The same table with its actions and gotos packed."""
    return LalrTable(
        table.start, table.end, PackedActions.of(table.actions), PackedMaps.of(table.gotos), tuple(table.accepts)
    )
