"""Tokens that a walk has set apart, since it took an open way to them: which are allowed whatever the text so far is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from constrained.automata.a_labels import is_label
from constrained.automata.machine import Machine
from constrained.automata.settling import indifferent
from constrained.kernels import handles as h
from constrained.kernels import tables as t
from constrained.masks.token_tables import TokenTables


class OpenTokens:
    """Tells the open tokens of one machine over one vocabulary apart."""

    def __init__(self, machine: Machine, tokens: TokenTables, handles: NDArray[np.int64]) -> None:
        """`handles`: the tables that never change."""
        self._machine, self._tokens, self._handles = machine, tokens, handles

    def told_apart(
        self, tokens: Sequence[int], cells: NDArray[np.int32], state: int, cell: int, top: int
    ) -> tuple[list[int], tuple[int, ...]]:
        """Of the open tokens of a configuration those that are allowed in any case, and those that a text has to tell."""
        allowed: list[int] = []
        kept: list[int] = []
        in_label = is_label(self._machine, state)
        for token in tokens:
            after, below, opened = self._followed(token, cells, state, cell, top)
            entered = below >= top and cells[below, t.C_NEXT] < top
            then = int(cells[below, t.C_RETURN]) if entered else None
            own = {below, int(cells[below, t.C_NEXT])} if entered else {below}
            # where a label ends makes a difference whatever comes after it, and so may what other frames have read
            free = not in_label and opened <= own and indifferent(self._machine, after, then)
            (allowed if free else kept).append(token)
        return allowed, tuple(kept)

    def _followed(
        self, token: int, cells: NDArray[np.int32], state: int, cell: int, top: int
    ) -> tuple[int, int, set[int]]:
        """State and cell after a token as a walk sees them, and the cells of the open states on the way; -1: of a label."""
        position = np.array([state, cell, top, 0, 0, 0, 0], dtype=np.int64)
        bounds = self._tokens.bounds_list
        data = self._tokens.blob[bounds[token] : bounds[token + 1]]
        machine = self._machine
        opened: set[int] = set()
        while h.run_bytes(self._handles, machine.memo, cells, data, position) == t.OPEN:
            position[5] = 0
            opened.add(-1 if is_label(machine, int(position[0])) else int(position[1]))
        return int(position[0]), int(position[1]), opened
