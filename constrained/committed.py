"""The text of one sequence and where the machine stands after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from constrained.automata.settling import looks_back, reads_keys, settled
from constrained.automata.stacks import UNKNOWN, pushed
from constrained.kernels import handles as h
from constrained.kernels import machine as m
from constrained.kernels import tables as t
from constrained.kernels.object_keys import keep_settled
from constrained.vocabulary.spelled import MARK, without_special_tokens
from grammars.errors import LimitExceeded

if TYPE_CHECKING:
    from typing import Self

    from constrained.automata.stacks import Stack
    from constrained.compile import Constraint

_SPARE_CELLS = 64
_FIRST_TOKENS = 1024
_FIRST_BYTES = 8192
_NOTHING: NDArray[np.uint8] = np.empty(0, dtype=np.uint8)


class Committed:
    """The bytes that have been committed, and the state and stack of the machine after each token of them.

    Attributes:
        constraint: what the text is held to.
        store: the rows of the constraint's machine.
        cells: the stack, int32[n, 4], `C_*` columns of `constrained.kernels.tables`.
        address: where in memory the registers are, for kernels that look at many sequences.
    """

    def __init__(self, constraint: Constraint) -> None:
        self.constraint = constraint
        self.store = constraint.store
        self._machine = constraint.store.machine
        self._blob = constraint.spelled.table.blob
        self._bounds = constraint.token_bounds
        self._scratch = 2 * self._machine.horizon + _SPARE_CELLS
        self._handles = constraint.store.handles
        self._own: NDArray[np.int64] = np.zeros((h.OWN, 3), dtype=np.int64)
        self.cells: NDArray[np.int32] = np.zeros((self._scratch + 32, t.CELL_COLUMNS), dtype=np.int32)
        self._history: NDArray[np.int32] = np.empty((_FIRST_TOKENS, 4), dtype=np.int32)
        self._text: NDArray[np.uint8] = np.empty(_FIRST_BYTES, dtype=np.uint8)
        self._registers: NDArray[np.int64] = np.zeros(m.REGISTERS, dtype=np.int64)
        self._registers[m.M_STORE] = self.store.identity
        self.address = int(h.hold_own(self._own, self.cells, self._history, self._text, self._registers))
        self.store.tally.enrol(id(self), self._registers)

    def __del__(self) -> None:
        store = self.__dict__.get("store")
        if store is not None:
            store.tally.dismiss(id(self))

    def _begin(self) -> None:
        """Back to the empty text."""
        h.begin(
            self.cells, self._registers, self.constraint.start, self._machine.done, self._machine.limits.stack_depth
        )

    def _copied(self) -> Self:
        """A copy that goes its own way."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._own = self._own.copy()
        other.cells, other._history, other._text = self.cells.copy(), self._history.copy(), self._text.copy()
        other._registers = self._registers.copy()
        other._registers[m.M_HITS] = 0
        other.address = int(h.hold_own(other._own, other.cells, other._history, other._text, other._registers))
        self.store.tally.enrol(id(other), other._registers)
        return other

    def _uncommit(self, length: int) -> None:
        """Go back to the first `length` tokens with bytes."""
        registers = self._registers
        if length < registers[m.M_LENGTH]:
            state, cell, top, written = self._history[length].tolist()
            registers[m.M_STATE], registers[m.M_CELL], registers[m.M_TOP] = state, cell, top
            registers[m.M_BYTES], registers[m.M_LENGTH] = written, length
            registers[m.M_ROW] = -1

    @property
    def text(self) -> bytes:
        """The committed bytes; special tokens that the grammar names are no part of it."""
        data = self._text[: int(self._registers[m.M_BYTES])].tobytes()
        return data if MARK not in data else without_special_tokens(data)

    def is_sentence(self) -> bool:
        """Whether the committed text is a sentence of the language."""
        if not self._machine.may_end(int(self._registers[m.M_STATE])):
            return False
        position = self._position(wants_end=True)
        return self._run(_NOTHING, position) == t.ACCEPTED

    def position(self) -> tuple[int, int, int]:
        """State, cell and top: where the machine stands."""
        registers = self._registers
        return int(registers[m.M_STATE]), int(registers[m.M_CELL]), int(registers[m.M_TOP])

    def configuration(self) -> tuple[int, Stack]:
        """State and stack as a value."""
        written = int(self._registers[m.M_BYTES])
        return int(self._registers[m.M_STATE]), self.stack(int(self._registers[m.M_CELL]), self._text[:written])

    def configuration_after(self, token: int) -> tuple[int, Stack]:
        """The configuration that `token`, which is allowed, leads to."""
        position = self._position()
        data = self._blob[self._bounds[token] : self._bounds[token + 1]]
        self._run(data, position)
        text = np.concatenate([self._text[: int(self._registers[m.M_BYTES])], data])
        return int(position[0]), self.stack(int(position[1]), text)

    def stack(self, cell: int, text: NDArray[np.uint8] | None = None) -> Stack:
        """The return states from `cell` down, after `text`, uint8[n] (None: it is not known)."""
        frames = []
        while cell:
            then, cell, _, mark = self.cells[cell].tolist()
            frames.append((then, mark))
        stack: Stack = None
        for then, mark in reversed(frames):
            stack = pushed(self._machine, then, stack, UNKNOWN if text is None else text[mark:].tobytes())
        return stack

    def reserve_cells(self) -> None:
        """Room above the top for a walk of any token."""
        top = int(self._registers[m.M_TOP])
        if top + self._scratch > self.cells.shape[0]:
            self._check_depth()
            self._use_cells(2 * top + 2 * self._scratch, top)

    def _commit_slowly(self, status: int, token: int) -> bool:
        """Supply what the kernel asks for until the token is committed (True) or refused (False)."""
        machine, registers = self._machine, self._registers
        first, last = self._bounds[token], self._bounds[token + 1]
        while status != t.OK:
            if status == t.REJECTED:
                return False
            if status == t.OPEN:
                return self._commit_in_parts(first, last)
            if self._supply(status, int(registers[m.M_DETAIL]), int(registers[m.M_OUTCOME])):
                pass
            elif status == t.HISTORY_FULL:
                self._grow_history(last - first)
            elif status == t.CELLS_FULL:
                self._grow_cells()
            elif status == t.TOO_DEEP:
                raise self._too_deep()
            else:
                raise AssertionError(f"commit ended with status {status}")
            status = h.commit_token(self._handles, machine.memo, self._own, registers, token)
        return True

    def _commit_in_parts(self, first: int, last: int) -> bool:
        """Commit a token that comes through an open state; False if it is refused."""
        data = self._blob[first:last]
        position = self._position()
        if self._run(data, position) != t.OK:
            return False
        registers = self._registers
        if self.cells[int(position[1]), t.C_DEPTH] > registers[m.M_DEEPEST]:
            raise self._too_deep()
        length, written = int(registers[m.M_LENGTH]), int(registers[m.M_BYTES])
        if length >= len(self._history) or written + len(data) > len(self._text):
            self._grow_history(len(data))
        self._text[written : written + len(data)] = data
        self._history[length] = (*self.position(), written)
        registers[m.M_LENGTH] = length + 1
        registers[m.M_STATE], registers[m.M_CELL], registers[m.M_TOP] = position[:3]
        registers[m.M_BYTES] = written + len(data)
        registers[m.M_ROW] = -1
        return True

    def _settle(self, data: NDArray[np.uint8], position: NDArray[np.int64]) -> bool:
        """Put the state in place that the open one of `position` stands for after `data`; False if there is none."""
        state, after, _, consumed, before, _, written = position.tolist()
        cell = before
        with self._machine.lock:
            own = looks_back(self._machine, state)
        while self.cells[cell, t.C_NEXT] != after and not own:
            cell = int(self.cells[cell, t.C_NEXT])
        if own:
            cell = after
        mark = int(self.cells[cell, t.C_MARK])
        text = self._text[min(mark, written) : written].tobytes() + data[max(0, mark - written) : consumed].tobytes()
        with self._machine.lock, self._machine.timed:
            position[0] = found = settled(self._machine, state, int(self.cells[cell, t.C_RETURN]), text)
            if own and reads_keys(self._machine, state):
                object_text = np.frombuffer(text, dtype=np.uint8)
                keep_settled(object_text, self._machine.settled, np.zeros(16, dtype=np.int64), state, found)
        return bool(position[0])

    def _supply(self, status: int, missing: int, outcome: int) -> bool:
        """Make what a kernel says is missing in the machine; False if that is not what the status says."""
        if status not in (t.UNKNOWN_STATE, t.UNKNOWN_POP):
            return False
        with self._machine.lock, self._machine.timed:
            self._machine.supply(status, missing, outcome)
        return True

    def _too_deep(self) -> LimitExceeded:
        return LimitExceeded(f"nested deeper than {self._machine.limits.stack_depth} (Limits.stack_depth)")

    def _check_depth(self) -> None:
        """Called whenever the stack's memory grows, so that what is run ahead of the text does not go on for ever."""
        if self.cells[int(self._registers[m.M_CELL]), t.C_DEPTH] > self._machine.limits.stack_depth:
            raise self._too_deep()

    def _grow_cells(self) -> None:
        self._check_depth()
        self._use_cells(2 * self.cells.shape[0], self.cells.shape[0])

    def _use_cells(self, count: int, kept: int) -> None:
        """Have room for `count` cells, the first `kept` of which stay as they are."""
        cells = np.zeros((count, t.CELL_COLUMNS), dtype=np.int32)
        cells[:kept] = self.cells[:kept]
        self.cells = cells
        h.hold(self._own, h.O_CELLS, cells)

    def _grow_history(self, more: int) -> None:
        """Room for twice as many tokens, and for twice as many bytes and `more`."""
        self._history = np.concatenate([self._history, np.empty_like(self._history)])
        self._text = np.concatenate([self._text, np.empty(len(self._text) + more, dtype=np.uint8)])
        h.hold(self._own, h.O_HISTORY, self._history)
        h.hold(self._own, h.O_TEXT, self._text)

    def _position(self, *, wants_end: bool = False) -> NDArray[np.int64]:
        registers = self._registers
        position = np.zeros(7, dtype=np.int64)
        position[0], position[1], position[2] = registers[m.M_STATE], registers[m.M_CELL], registers[m.M_TOP]
        position[5] = int(wants_end)
        position[6] = registers[m.M_BYTES]
        return position

    def _run(self, data: NDArray[np.uint8], position: NDArray[np.int64]) -> int:
        """Run bytes from `position` as far as they go; the status of the kernel `run`, never one that asks for a piece."""
        machine = self._machine
        wants_end = int(position[5])
        while True:
            status = h.run_bytes(self._handles, machine.memo, self.cells, data, position)
            if status == t.CELLS_FULL:
                self._grow_cells()
            elif status == t.OPEN:
                if not self._settle(data, position):
                    position[3] -= 1
                    return t.REJECTED
            elif not self._supply(int(status), int(position[4]), int(position[5])):
                return int(status)
            position[5] = wants_end
