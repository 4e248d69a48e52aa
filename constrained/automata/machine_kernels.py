"""Kernels that a machine calls: all of them loaded before the first state, and copies of its memo."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from constrained.kernels import tables as t
from constrained.kernels.machine import memo_copy, memo_find, memo_insert
from constrained.kernels.object_places import add_object, make_piece
from constrained.kernels.runs import write_beside, write_literal

if TYPE_CHECKING:
    from constrained.automata.machine import Machine

FIRST_MEMO = 1 << 12


def copied_memo(entries: NDArray[np.int64], least: int) -> NDArray[np.int64]:
    """A memo with `entries`, int64[n, 2], and room for `least`, the size being a power of two."""
    memo: NDArray[np.int64] = np.full((1 << (least - 1).bit_length(), 2), -1, dtype=np.int64)
    memo_copy(entries, memo)
    return memo


def load_kernels(machine: Machine) -> None:
    """Call each kernel once on the empty `machine`, so that no step waits for one to be compiled, or read from disk."""
    nothing: NDArray[np.uint8] = np.frombuffer(b"?", dtype=np.uint8)[:0]  # not to be written, as what spells names
    write_literal(machine.states, machine.actions, nothing, 0, 0, 0, 0)
    write_beside(machine.states, machine.actions, nothing.astype(np.int32), nothing.astype(np.int64), 0, 0, 0, 0)
    memo = np.full((2, 2), -1, dtype=np.int64)
    memo_insert(memo, 0, memo_find(memo, 0))
    numbers: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
    counts = machine.objects.counts.copy()
    add_object(machine.handles, nothing, numbers, numbers, numbers, numbers, np.zeros(2, dtype=np.int64))
    machine.objects.origins[: machine.state_count] = 0
    machine.objects.counts[:] = counts
    make_piece(machine.handles, memo, machine.piece, t.UNKNOWN_POP)
