"""Text that a configuration dictates: as long as exactly one byte can follow."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from constrained.kernels.jit import kernel
from constrained.kernels.machine import dispatch
from constrained.kernels.tables import ACCEPTED, OK, REJECTED

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt8 = NDArray[np.uint8]


@kernel
def forced_bytes(
    states: Int32, maps: UInt8, actions: Int64, memo: Int64, cells: Int32, position: Int64, out: UInt8
) -> int:  # fmt: skip
    """Append to `out` the bytes that must follow, from position[0:3] = (state, cell, top).

    `position` is int64[7]: the configuration, bytes written, then detail and outcome of the status returned; position[6]
    becomes 1 where nothing at all may follow the last byte.  Stops with OK where several bytes, none, or the end of the
    text may come next, or `out` is full; resumable on other statuses.
    """
    while position[3] < out.shape[0]:
        state, cell, top = position[0], position[1], position[2]
        status, after, _, _, outcome = dispatch(states, maps, actions, memo, cells, state, cell, top, 256, -1, 0)
        may_end = status == ACCEPTED
        if status != ACCEPTED and status != REJECTED:
            position[4], position[5] = after, outcome
            return status
        found = -1
        for symbol in range(256):
            status, after, cell_after, top_after, outcome = dispatch(
                states, maps, actions, memo, cells, state, cell, top, symbol, -1, 0
            )
            if status == REJECTED:
                continue
            if status != OK:
                position[4], position[5] = after, outcome
                return status
            if found >= 0 or may_end:
                return OK
            found = symbol
        if found < 0:
            position[6] = 1
            return OK
        status, after, cell_after, top_after, outcome = dispatch(
            states, maps, actions, memo, cells, state, cell, top, found, -1, 0
        )
        out[position[3]] = found
        position[0], position[1], position[2] = after, cell_after, top_after
        position[3] += 1
    return OK
