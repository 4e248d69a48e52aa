"""The rows of one machine over one vocabulary."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from constrained.automata.machine import Machine
from constrained.kernels import handles as h
from constrained.kernels import machine as m
from constrained.kernels import row_making as making
from constrained.kernels import tables as t
from constrained.kernels import walk_registers as w
from constrained.kernels.branches import L_KNOWN, NOT_KEPT
from constrained.kernels.object_keys import keep_settled, settled_table
from constrained.limits import DEFAULT_LIMITS, Limits
from constrained.masks.generation import Generation
from constrained.masks.kept_rows import LEAST_COST, STATE_COST, LocalRow, kept_rows
from constrained.masks.open_tokens import OpenTokens
from constrained.masks.tally import Counters, Tally
from constrained.masks.token_tables import token_tables
from constrained.vocabulary import Vocabulary
from grammars.errors import LimitExceeded

if TYPE_CHECKING:
    from constrained.masks.completion_store import CompletionStore
    from constrained.masks.row_table import RowTable

_ROWS_SHARE, _TABLE_SHARE = 2, 4
"""Rows may take one half of `Limits.bytes`, rows written out for devices one quarter."""
_NO_BUDGET = 1 << 62
_LEAST_WALK = 16_000
"""Nodes that walks of exits came to, from which on they are prepared for the next one: about what preparing them costs."""
_TURN = 0.01
"""Seconds of making a row behind which others who wait for the machine go first."""
_LARGE = 1024
"""Tokens behind an exit that are worth a local row of their own."""
_NO_ROW: NDArray[np.uint32] = np.empty(0, dtype=np.uint32)
_PIECES = (t.UNKNOWN_STATE, t.UNKNOWN_POP, t.UNKNOWN_MEMBER, t.TABLES_FULL)
_NUMBERS = itertools.count()


class _Full(Exception):
    """No row more fits into the generation."""


class CellsFull(LimitExceeded):
    """The scratch cells above a matcher's stack were too few for a walk."""


class RowStore:
    """Rows by configuration.  Reads need no lock; what is missing is made under the machine's.

    When the rows have outgrown their share of `Limits.bytes`, all of them are let go at once: a new generation of tables
    begins, and matchers find their rows again, which are made again where they are needed.

    Attributes:
        identity: a number that no other store of the process has.
        tokens: the tables of the vocabulary.
        machine: the machine whose states rows are for.
        rows: the generation in use.  A number that was found before `rows` is read is a row of it iff it is `rows.first`
            or more; one that was found afterwards may be of a generation that has begun meanwhile, which kernels see.
        handles: the tables that never change, those of the machine among them.
        tally: rows found by all matchers.
    """

    def __init__(self, vocabulary: Vocabulary, limits: Limits = DEFAULT_LIMITS) -> None:
        self.identity = next(_NUMBERS)
        self.limits = limits
        self.size = vocabulary.size
        self.tokens = tokens = token_tables(vocabulary)
        self.token_bounds = tokens.bounds_list
        self.end_tokens = frozenset(vocabulary.eos_token_ids)
        self.machine = Machine(max(1, vocabulary.longest_token), limits)
        words = vocabulary.row_words
        self.row_shape = (words,)
        depth = self.machine.horizon + 2
        frames: NDArray[np.int32] = np.zeros((depth, w.FRAME_COLUMNS), dtype=np.int32)
        scratch: NDArray[np.int32] = np.zeros((limits.stack_depth + depth, t.CELL_COLUMNS), dtype=np.int32)
        machine = self.machine
        self._fixed: dict[int, NDArray[Any]] = {
            **machine.objects.by_slot,
            h.T_STATES: machine.states, h.T_MAPS: machine.maps, h.T_ACTIONS: machine.actions, h.T_LOOPS: machine.loops,
            h.T_NODES: tokens.nodes, h.T_BYTES: tokens.bytes, h.T_BELOW: tokens.below, h.T_TOKEN_IDS: tokens.token_ids,
            h.T_LENGTHS: tokens.lengths, h.T_EOS: tokens.eos, h.T_BLOB: tokens.blob, h.T_BOUNDS: tokens.bounds,
            h.T_MEMO_USED: machine.memo_used, h.T_SETTLED: machine.settled, h.T_FRAMES: frames, h.T_SCRATCH: scratch,
        }  # fmt: skip
        self.handles = h.handles_of(h.TABLES, self._fixed)
        self._open = OpenTokens(machine, tokens, self.handles)
        self._budget = limits.bytes // _ROWS_SHARE
        self._registers: NDArray[np.int64] = np.zeros(w.REGISTERS, dtype=np.int64)
        self._items = self._registers.data.cast("B").cast("q")  # quicker than numpy, an item at a time
        self._timed = limits.timed()
        self._registers[w.W_LIMIT_DENSE] = max(16, words // 4)
        self._registers[w.W_HORIZON] = self.machine.horizon
        self._registers[[w.W_LEAST_WALK, w.W_LARGE]] = _LEAST_WALK, _LARGE
        self._registers[w.W_STEP_STATES] = limits.step_states
        self.rows = self._new_rows()
        self.tally = Tally()
        self._kept = kept_rows(vocabulary)
        self._registers[w.W_KEEPS] = -1 if self._kept is None else LEAST_COST
        self._table: RowTable | None = None
        self._table_lock = threading.Lock()
        self._completions: CompletionStore | None = None
        self._kept_rows = 0
        self._evictions = 0
        self._compile_kernels(scratch)

    def _compile_kernels(self, cells: NDArray[np.int32]) -> None:
        """Make the row of the dead state once and forget it: no step's time is to go into the compiling of kernels."""
        states, memo, registers = self.machine.states, self.machine.memo, self._registers.copy()
        own: NDArray[np.int64] = np.zeros((h.OWN, 3), dtype=np.int64)
        h.hold(own, h.O_CELLS, cells)
        h.row_of(self.handles, memo, cells, 0, 0)
        registers[w.W_BUDGET] = _NO_BUDGET
        registers[w.W_STAGE] = making.BEGIN
        row: NDArray[np.uint32] = np.empty(self.row_shape, dtype=np.uint32)
        making.make_row(self.rows.handles, memo, own, registers, np.zeros(m.REGISTERS, dtype=np.int64), row)
        making.file_row_of(self.handles, memo, cells, registers)
        making.add_local(self.rows.handles, registers, row, np.zeros((0, 3), dtype=np.int32))
        states[0, [t.S_ROW, t.S_LOCAL]] = -1
        for nothing in (
            self.tokens.blob[:0],
            np.empty(0, dtype=np.uint8),
        ):  # bytes of tokens cannot be written, others can
            h.run_bytes(self.handles, memo, cells, nothing, np.zeros(7, dtype=np.int64))
        m.memo_copy(memo[:0], memo)
        making.bytes_of_rows(registers, self.row_shape[0])
        self.rows.write(-1, row)
        keep_settled(np.frombuffer(b"{", dtype=np.uint8), settled_table(), np.zeros(16, dtype=np.int64), 0, 0)

    def counters(self) -> Counters:
        """A snapshot of the counters."""
        registers = self._registers
        return Counters(
            hits=self.tally.total(),
            misses=int(registers[w.W_MISSES]),
            local_walks=int(registers[w.W_WALKS]),
            kept_rows=self._kept_rows,
            walked_nodes=int(registers[w.W_WALKED]),
            states=self.machine.state_count,
            rows=int(registers[w.W_ROWS]),
            bytes=self.bytes_used(),
            evictions=self._evictions,
        )

    def bytes_used(self) -> int:
        """Memory in use, in bytes."""
        table = self._table
        return self.machine.bytes_used() + self._bytes_of_rows() + (0 if table is None else table.nbytes)

    def _bytes_of_rows(self) -> int:
        registers = self._registers
        open_lists = self._budget - min(self._budget, int(registers[w.W_BUDGET]))
        return int(making.bytes_of_rows(registers, self.row_shape[0])) + open_lists

    def outgrown(self) -> bool:
        """Whether memory has passed `Limits.bytes`, or numbers run out, so that new grammars get a fresh store."""
        few_rows = bool(self._registers[w.W_ROWS] > h.LAST_ROW // 2)
        return few_rows or self.machine.is_crowded() or self.bytes_used() > self.limits.bytes

    def evict(self) -> None:
        """Let all rows go.  Matchers find theirs again; the memory is free when no kernel reads it any more."""
        machine = self.machine
        with machine.lock:
            machine.forget_rows()
            self.rows = self._new_rows()
            self._evictions += 1
            if self._completions is not None:
                self._completions.growth.clear()

    def _new_rows(self) -> Generation:
        """A generation of rows, and the registers that go with it."""
        registers = self._registers
        registers[w.W_FIRST] = registers[w.W_ROWS]
        registers[w.W_CHAIN] = w.CHAINS
        registers[w.W_BUDGET] = self._budget
        for top in (w.W_POOL, w.W_EXITS, w.W_DENSE, w.W_LOCALS, w.W_RESUME, w.W_OPEN, w.W_JOINED, w.W_JOINED_TOKENS):
            registers[top] = 0
        return Generation(
            int(registers[w.W_FIRST]), self._budget, self.row_shape[0], len(self.tokens.nodes), self._fixed
        )

    @property
    def table(self) -> RowTable:
        """The rows that have been asked for by number; another table takes its place when it is full."""
        table = self._table
        return self.table_with_room() if table is None else table

    def table_with_room(self) -> RowTable:
        """The table to put rows into."""
        table = self._table
        most = self.limits.bytes // _TABLE_SHARE
        if table is None or table.is_full(most):
            with self._table_lock:
                table = self._table
                if table is None or table.is_full(most):
                    from constrained.masks.row_table import RowTable

                    table = self._table = RowTable(self.row_shape[0])
        return table

    def completions(self, vocabulary: Vocabulary) -> CompletionStore:
        """The completions of this store's machine, made at the first call."""
        with self.machine.lock:
            if self._completions is None:
                from constrained.masks.completion_store import CompletionStore

                self._completions = CompletionStore(self, vocabulary)
            return self._completions

    def wrong_shape(self, row: NDArray[np.uint32]) -> ValueError:
        """The error for a row of another shape than uint32[row_words]."""
        return ValueError(f"a row of shape {row.shape} for {self.size} logits; uint32{list(self.row_shape)} is needed")

    def find(
        self,
        own: NDArray[np.int64],
        cells: NDArray[np.int32],
        matcher: NDArray[np.int64],
        row: NDArray[np.uint32] = _NO_ROW,
    ) -> tuple[Generation, int]:
        """The row of where a matcher stands: its generation and number.

        Args:
            own: the matcher's handles.
            cells: its cells, which `own` names; those from its top on are scratch.
            matcher: its registers.
            row: uint32[words], where the row is written; empty: it is not.

        Raises:
            LimitExceeded: the configuration, or making its row, goes past a limit.
        """
        machine, items = self.machine, self._items
        with machine.lock:
            rows = self.rows
            items[w.W_STAGE] = making.BEGIN
            status = making.make_row(rows.handles, machine.memo, own, self._registers, matcher, row)
            if status == t.OK:
                return rows, items[w.W_FOUND]
            rows, number = self._finished(status, own, cells, matcher, row)
        matcher[m.M_ROW] = number
        return rows, number

    def _finished(
        self,
        status: int,
        own: NDArray[np.int64],
        cells: NDArray[np.int32],
        matcher: NDArray[np.int64],
        row: NDArray[np.uint32],
    ) -> tuple[Generation, int]:
        """`find`, where `make_row` came back with `status`."""
        registers = self._registers
        with self._timed.anew():  # one of its own, since other threads may come in between
            try:
                return self._made(status, own, cells, matcher, row)
            except _Full:
                self.evict()
            registers[w.W_BUDGET] = _NO_BUDGET  # a row that is larger than the budget is still made
            registers[w.W_MISSES] -= 1
            try:
                registers[w.W_STAGE] = making.BEGIN
                status = making.make_row(self.rows.handles, self.machine.memo, own, registers, matcher, row)
                return self._made(status, own, cells, matcher, row, alone=True)
            except _Full:
                raise LimitExceeded(
                    f"one row needs more memory than {self.limits.bytes} bytes allow (Limits.bytes)"
                ) from None
            finally:
                registers[w.W_BUDGET] += self._budget - _NO_BUDGET

    def _made(
        self,
        status: int,
        own: NDArray[np.int64],
        cells: NDArray[np.int32],
        matcher: NDArray[np.int64],
        row: NDArray[np.uint32],
        *,
        alone: bool = False,
    ) -> tuple[Generation, int]:
        """Supply what the kernel asks for until the row is there; its generation and number.

        Other threads that want rows go first now and then, unless it is to be `alone`: the walk then begins again, over
        states that are there by now.
        """
        machine, registers, rows = self.machine, self._registers, self.rows
        made, lock = machine.state_count, machine.lock
        turn, since = _TURN, perf_counter()
        while status != t.OK:
            if status in _PIECES:
                self._expand(status, made)
                if lock.is_wanted and not alone and perf_counter() - since > turn:
                    made += self._give_way()
                    rows, again = self.rows, perf_counter()
                    status = making.make_row(rows.handles, machine.memo, own, registers, matcher, row)
                    since = perf_counter()
                    turn = max(_TURN, 2 * (since - again))  # so that walking again is a third of the time at most
                    continue
            elif status == t.OPEN_ROW:
                return rows, self._without_open(rows, cells, matcher, row)
            else:
                self._supply(status)
            status = making.make_row(rows.handles, machine.memo, own, registers, matcher, row)
        return rows, self._items[w.W_FOUND]

    def _without_open(
        self, rows: Generation, cells: NDArray[np.int32], matcher: NDArray[np.int64], row: NDArray[np.uint32]
    ) -> int:
        """The number of the row that is made but for its open tokens, which are sorted, after which it can be found."""
        machine, number = self.machine, self._items[w.W_FOUND]
        state, cell, top = matcher[: m.M_TOP + 1].tolist()
        local = int(machine.states[state, t.S_LOCAL])
        self._sort_open(number, rows.open_locals.get(local, []) + self._taken_open(), cells, state, cell, top)
        machine.reserve_memo(making.STEP_ENTRIES + int(cells[cell, t.C_DEPTH]))
        making.file_row_of(self.handles, machine.memo, cells, self._registers)
        if len(row):
            rows.write(number, row)
        return number

    def _give_way(self) -> int:
        """Let other threads go first, behind which the walk has to begin again; how many states they have made."""
        known = self.machine.state_count
        self.machine.lock.give_way()
        self._items[w.W_STAGE] = making.BEGIN
        self._items[w.W_MISSES] -= 1
        return self.machine.state_count - known

    def _expand(self, status: int, made: int) -> None:
        """Make the state that a walk came to; there were `made` states when the step began."""
        machine, items = self.machine, self._items
        known = machine.state_count
        machine.supply(status, items[w.W_DETAIL], items[w.W_OUTCOME])
        count = machine.state_count
        if count != known:
            items[w.W_COST] += STATE_COST * (count - known)
            if count - made > self.limits.step_states:
                raise LimitExceeded(f"one mask needs more than {self.limits.step_states} states (Limits.step_states)")

    def _supply(self, status: int) -> None:
        """Do what else a kernel asks for before it goes on."""
        registers = self._registers
        if status == t.MEMO_FULL:
            self.machine.reserve_memo(int(registers[w.W_DETAIL]))
        elif status == t.ASK_KEPT:
            self._look_for_kept(int(registers[w.W_DETAIL]))
        elif status == t.OPEN_LOCAL:
            local = int(self.machine.states[int(registers[w.W_STATE]), t.S_LOCAL])
            tokens = self.rows.open_locals[local] = self._taken_open()
            registers[w.W_BUDGET] -= _list_bytes(tokens)
        elif status == t.DEAR_LOCAL:
            self._keep(int(registers[w.W_STATE]), int(registers[w.W_COST]))
        elif status == t.NO_ROOM:
            raise _Full
        else:
            raise CellsFull(f"nested deeper than {self.limits.stack_depth} (Limits.stack_depth)")

    def _taken_open(self) -> list[int]:
        """The tokens that a walk has set apart."""
        count = int(self._registers[w.W_OPEN])
        self._registers[w.W_OPEN] = 0
        pool = self.rows.pool
        return pool[len(pool) - count :].tolist() if count else []

    def _sort_open(
        self, number: int, tokens: list[int], cells: NDArray[np.int32], state: int, cell: int, top: int
    ) -> None:
        """Put the tokens that are allowed whatever the text so far is into the new row `number`, keep the others apart.

        Nobody can find the row yet.
        """
        allowed, kept = self._open.told_apart(tokens, cells, state, cell, top)
        rows, registers = self.rows, self._registers
        begin = int(registers[w.W_POOL])
        end = begin + len(allowed)
        rows.pool[begin:end] = allowed
        rows.rows[number - rows.first, t.R_MORE_END] = registers[w.W_POOL] = end
        if kept:
            rows.open_tokens[number] = kept
            rows.rows[number - rows.first, t.R_OPEN] = 1
            registers[w.W_BUDGET] -= _list_bytes(kept)

    def _look_for_kept(self, state: int) -> None:
        """Use the local row of an earlier process for a string, if there is one."""
        key = self.machine.key(state)
        found = None if self._kept is None else self._kept.get(key[1], key[2])
        if found is None:
            self.machine.loops[state, L_KNOWN] |= np.uint64(NOT_KEPT)
            return
        local = int(making.add_local(self.rows.handles, self._registers, found.dense, found.exits))
        if local < 0:
            raise _Full
        self.machine.states[state, t.S_LOCAL] = local
        self._kept_rows += 1

    def _keep(self, state: int, cost: int) -> None:
        """Have the local row of a string kept for other processes."""
        key = self.machine.key(state)
        if self._kept is not None:
            dense, exits = self.rows.local_row(int(self.machine.states[state, t.S_LOCAL]))
            if (exits[:, t.E_STATE] < 0).all():  # an exit by a byte of the frame below names a state of this machine
                self._kept.put(key[1], key[2], LocalRow(dense, exits, cost))


def _list_bytes(tokens: Sequence[int]) -> int:
    """Memory of a list of tokens, about."""
    return 120 + 40 * len(tokens)
