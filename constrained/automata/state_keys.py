"""Keys of states, kept such that few objects stay: what a state stands for is put together again for whoever asks.

The garbage collector looks at every tuple that holds an object of the program, again and again, as long as it lives.  Most
states are one of a *series*: their keys differ in the last item alone, a tuple of languages or schemas, which mostly has
one item.  For those the item is all that is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import numpy as np

from constrained.memory import reserved

Key = tuple[Any, ...]
Function = TypeVar("Function", bound=Callable[..., object])
_functions: set[Callable[..., object]] = set()


def in_series(function: Function) -> Function:
    """Mark a function whose states are series: the last item of their keys is a tuple of things that are no tuples."""
    _functions.add(function)
    return function


class Series:
    """States whose keys are `(*head, things)`; `numbers`: by the things, or by the only one."""

    __slots__ = ("head", "number", "numbers")

    def __init__(self, head: Key, number: int) -> None:
        self.head = head
        self.number = number
        self.numbers: dict[Hashable, int] = {}


class StateKeys:
    """Numbers of states by their keys, and the other way round."""

    def __init__(self, states: int) -> None:
        """`states`: there are at most so many."""
        self._numbers: dict[Key, int] = {}
        self._kept: dict[int, Any] = {}
        self._series: list[Series] = [Series((), 0)]  # the first one stands for none
        self._by_head: dict[Key, Series] = {}
        self._series_of = reserved((states,), np.int32).data.cast("B").cast("i")

    def __len__(self) -> int:
        return len(self._kept)

    def number(self, key: Key) -> int | None:
        """The state with this key; None if there is none yet."""
        if key[0] not in _functions:
            return self._numbers.get(key)
        series = self._by_head.get(key[:-1])
        if series is None:
            return None
        things = key[-1]
        return series.numbers.get(things[0] if len(things) == 1 else things)

    def series(self, head: Key) -> Series:
        """The series of the states whose keys begin with `head`."""
        found = self._by_head.get(head)
        if found is None:
            found = self._by_head[head] = Series(head, len(self._series))
            self._series.append(found)
        return found

    def add_to(self, series: Series, kept: object, state: int) -> None:
        """Give a state of a series its key; `kept` is what that ends with, or the only thing in there."""
        series.numbers[kept] = state
        self._series_of[state] = series.number
        self._kept[state] = kept  # last: readers without the lock take it as the sign that all is there

    def add(self, key: Key, state: int) -> None:
        """Give a state its key."""
        if key[0] not in _functions:
            self._numbers[key] = state
            self._kept[state] = key
            return
        things = key[-1]
        self.add_to(self.series(key[:-1]), things[0] if len(things) == 1 else things, state)

    def get(self, state: int) -> Key | None:
        """The key of a state; None if it has none of its own."""
        kept = self._kept.get(state)
        number = 0 if kept is None else self._series_of[state]
        return (*self._series[number].head, kept if type(kept) is tuple else (kept,)) if number else kept
