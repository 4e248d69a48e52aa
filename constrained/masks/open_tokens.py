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
            after, below, by_label = self._followed(token, cells, state, cell, top)
            then = int(cells[below, t.C_RETURN]) if below >= top and cells[below, t.C_NEXT] < top else None
            # where a label ends makes a difference whatever comes after it
            free = not (in_label or by_label) and indifferent(self._machine, after, then)
            (allowed if free else kept).append(token)
        return allowed, tuple(kept)

    def _followed(self, token: int, cells: NDArray[np.int32], state: int, cell: int, top: int) -> tuple[int, int, bool]:
        """State and cell after a token as a walk sees them, and whether the way there leads through a label."""
        position = np.array([state, cell, top, 0, 0, 0, 0], dtype=np.int64)
        bounds = self._tokens.bounds_list
        data = self._tokens.blob[bounds[token] : bounds[token + 1]]
        machine = self._machine
        by_label = False
        while h.run_bytes(self._handles, machine.memo, cells, data, position) == t.OPEN:
            position[5] = 0
            by_label = by_label or is_label(machine, int(position[0]))
        return int(position[0]), int(position[1]), by_label
