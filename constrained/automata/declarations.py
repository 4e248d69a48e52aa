"""What is known of a state beside its transitions, and spares walks most of their steps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from constrained.kernels import tables as t
from constrained.kernels.branches import (
    ALL_WIDE,
    ANY_NUMBER,
    ASCII_KNOWN,
    COUNTED,
    IS_STRING,
    L_KNOWN,
    LOOP_COLUMNS,
    MOST_SHIFT,
    READS_KEYS,
)

_LOW_HALF = (1 << 64) - 1


class Declarations:
    """Declarations about the states of a machine, written into its tables.

    Attributes:
        states, loops: tables of `constrained.kernels.tables`.
    """

    states: NDArray[np.int32]
    loops: NDArray[np.uint64]
    _state_items: memoryview[int]
    _loop_items: memoryview[int]

    def rest_on(self, state: int, base: int, slack: int) -> None:
        """Declare that `state` cannot be told from `base` by looking at `slack` more bytes or fewer.

        With a slack of 0 the base only helps: walks of both run in step where they have become equal.  Frames that have
        a base are left by consuming a byte (never by a byte that belongs to the frame below).
        """
        if base != state:
            at = state * t.STATE_COLUMNS
            self._state_items[at + t.S_BASE] = base
            self._state_items[at + t.S_SLACK] = slack

    def base(self, state: int) -> tuple[int, int]:
        """What `state` rests on, -1 if nothing, and with which slack."""
        at = state * t.STATE_COLUMNS
        return self._state_items[at + t.S_BASE], self._state_items[at + t.S_SLACK]

    def loop_wide(self, state: int, flags: int = ALL_WIDE) -> None:
        """Declare that characters outside ASCII lead back to `state`, or to what soon cannot be told from it.

        `flags`: all of them, or MOST_WIDE, all but some of `tables.WIDE_SPACES`; with SAME_WIDE, to `state` itself.
        """
        self._loop_items[state * LOOP_COLUMNS + L_KNOWN] |= flags

    def counts(self, state: int, ascii_bits: int, wide: int, most: int | None) -> None:
        """Declare that any text of up to `most` characters (None: of any number) may follow in `state`, and no longer one.

        A text of those ASCII characters whose bits are set and of others as `wide` says (0, or as for `loop_wide`); `state` is
        one between characters.
        """
        limit = ANY_NUMBER if most is None else min(most, ANY_NUMBER)
        items, at = self._loop_items, state * LOOP_COLUMNS
        items[at], items[at + 1] = ascii_bits & _LOW_HALF, ascii_bits >> 64
        known = items[at + L_KNOWN] & ((1 << MOST_SHIFT) - 1)
        items[at + L_KNOWN] = known | ASCII_KNOWN | COUNTED | wide | (limit << MOST_SHIFT)

    def is_string(self, state: int) -> None:
        """Declare that `state` is one inside a string, between two characters: its local row may be kept on disk."""
        self._loop_items[state * LOOP_COLUMNS + L_KNOWN] |= IS_STRING

    def open(self, state: int, kind: int) -> None:
        """Declare that `state`, which has no base, stands for several that a text will tell apart (`OPEN_HERE`, `OPEN_AHEAD`)."""
        self._state_items[state * t.STATE_COLUMNS + t.S_SLACK] = kind

    def reads_keys(self, state: int) -> None:
        """Declare that the keys of its object say what `state`, which is open and follows a comma, stands for."""
        self._loop_items[state * LOOP_COLUMNS + L_KNOWN] |= READS_KEYS

    def is_open(self, state: int) -> bool:
        """Whether `state` stands for several that a text will tell apart."""
        return t.OPEN_HERE <= self._state_items[state * t.STATE_COLUMNS + t.S_SLACK] < 0
