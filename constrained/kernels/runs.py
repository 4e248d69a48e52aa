"""Transitions of many consecutive states at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from constrained.kernels.jit import kernel
from constrained.kernels.tables import GOTO, KIND_SHIFT, S_ACTIONS, S_BASE, S_MAP

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt8 = NDArray[np.uint8]


@kernel
def write_literal(
    states: Int32, actions: Int64, letters: UInt8, first: int, block: int, then: int, singles: int
) -> None:
    """States from `first` on that spell `letters`, uint8[n], and go on in `then`.

    Their actions, two each, are written from `block` on; the class map `singles + b` has the byte b alone in class 1.
    """
    count = letters.shape[0]
    for at in range(count):
        actions[block + 2 * at] = 0
        actions[block + 2 * at + 1] = (GOTO << KIND_SHIFT) | (first + at + 1 if at + 1 < count else then)
        states[first + at, S_MAP] = singles + letters[at]
        states[first + at, S_ACTIONS] = block + 2 * at


@kernel
def write_beside(
    states: Int32, actions: Int64, maps: Int32, shared: Int64, first: int, block: int, last: int, base: int
) -> None:
    """States from `first` on with the class maps `maps`, int32[n], the actions `shared`, int64[k], and one action more.

    That one leads to the next state, and is `last` in the last state.  All rest on `base` with a slack of 0.
    """
    count, width = maps.shape[0], shared.shape[0]
    for at in range(count):
        start = block + at * (width + 1)
        for number in range(width):
            actions[start + number] = shared[number]
        actions[start + width] = (GOTO << KIND_SHIFT) | (first + at + 1) if at + 1 < count else last
        states[first + at, S_MAP] = maps[at]
        states[first + at, S_BASE] = base
        states[first + at, S_ACTIONS] = start
