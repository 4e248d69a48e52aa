"""The rows of one machine over one vocabulary."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from constrained.automata.machine import Machine
from constrained.automata.settling import indifferent
from constrained.kernels import handles as h
from constrained.kernels import tables as t
from constrained.kernels import walk_registers as w
from constrained.kernels.branches import branch
from constrained.kernels.machine import M_HITS
from constrained.kernels.rows import write_rows
from constrained.limits import DEFAULT_LIMITS, Limits
from constrained.vocabulary import Vocabulary
from grammars.errors import LimitExceeded

if TYPE_CHECKING:
    from constrained.masks.completion_store import CompletionStore
    from constrained.masks.row_table import RowTable

_CHAINS = 1 << 29
"""Chain nodes of the memo are numbered from here, states below; their keys stay below `POP_KEY`."""
assert _CHAINS > t.OPERAND_MASK and _CHAINS << 33 <= t.POP_KEY
_STEP_ENTRIES = 64
"""Memo entries that one composition may make at most, but for deep pops, which reserve their own."""
_MOST_TALLIES = 1024
"""What matchers that have gone had found is added up when there are this many numbers."""


@dataclass(frozen=True, slots=True)
class Counters:
    """What the store has done so far.

    Attributes:
        hits: rows that were there when a token was committed or a mask was asked for.
        misses: rows that had to be composed.
        local_walks: walks of the whole trie from one state.
        walked_nodes: trie nodes visited by all walks.
        states, rows: how many exist.
        bytes: memory of tables, rows and memos.
    """

    hits: int
    misses: int
    local_walks: int
    walked_nodes: int
    states: int
    rows: int
    bytes: int


class RowStore:
    """Rows by configuration.  Reads need no lock; what is missing is made under the machine's.

    Attributes:
        machine: the machine whose states rows are for.
        rows, pool, dense: the tables of `write_row`.
        open_tokens: for some rows, tokens that are not in the row and are allowed where the text so far admits them.
    """

    def __init__(self, vocabulary: Vocabulary, limits: Limits = DEFAULT_LIMITS) -> None:
        self.limits = limits
        self.size = vocabulary.size
        offsets = vocabulary.table.offsets.tolist()
        self.token_bounds: list[int] = offsets
        self._blob: NDArray[np.uint8] = np.ascontiguousarray(vocabulary.table.blob)
        self.end_tokens = frozenset(vocabulary.eos_token_ids)
        self.machine = Machine(max(1, vocabulary.longest_token), limits)
        trie = vocabulary.trie
        nodes = len(trie.byte)
        # one entry past the last node, so that its tokens have an end
        self.trie: NDArray[np.int32] = np.zeros((nodes + 1, t.TRIE_COLUMNS), dtype=np.int32)
        self.trie[:nodes, t.T_BYTE_DEPTH] = trie.byte.astype(np.int32) | (trie.depth.astype(np.int32) << 8)
        self.trie[:nodes, t.T_END] = trie.end
        self.trie[: nodes + 1, t.T_TOKENS] = trie.token_start
        self.trie[:nodes, t.T_HEIGHT] = trie.height
        self._nodes: NDArray[np.int32] = np.empty((nodes, t.NODE_COLUMNS), dtype=np.int32)
        self._bytes: NDArray[np.uint8] = np.empty(nodes, dtype=np.uint8)
        self._below: NDArray[np.uint64] = np.zeros((nodes, 2), dtype=np.uint64)
        branch(self.trie, self._nodes, self._bytes, self._below)
        self.token_ids: NDArray[np.int32] = np.ascontiguousarray(trie.token_ids)
        self.eos: NDArray[np.int32] = np.array(
            [token for token in vocabulary.eos_token_ids if 0 <= token < vocabulary.size], dtype=np.int32
        )
        words = vocabulary.row_words
        self.row_shape = (words,)
        # Reserved, not used: room for what a store may still need that has passed its budget and takes no new grammars.
        reserve = 4 * limits.bytes
        room = max(reserve // 4, 16 * (vocabulary.size + 1024))
        self.pool: NDArray[np.int32] = np.empty(room, dtype=np.int32)
        self.dense: NDArray[np.uint32] = np.empty((max(64, reserve // (4 * words)), words), dtype=np.uint32)
        self.locals: NDArray[np.int32] = np.empty((limits.states, t.LOCAL_COLUMNS), dtype=np.int32)
        self.rows: NDArray[np.int32] = np.empty((limits.states, t.ROW_COLUMNS), dtype=np.int32)
        self.exits: NDArray[np.int32] = np.empty((max(reserve // 12, 4 * nodes), 3), dtype=np.int32)
        depth = self.machine.horizon + 2
        self._frames: NDArray[np.int32] = np.zeros((depth, w.FRAME_COLUMNS), dtype=np.int32)
        self._cells: NDArray[np.int32] = np.zeros((limits.stack_depth + depth, t.CELL_COLUMNS), dtype=np.int32)
        self._registers: NDArray[np.int64] = np.zeros(32, dtype=np.int64)
        self._registers[w.W_CHAIN] = _CHAINS
        self._registers[w.W_LIMIT_DENSE] = max(16, words // 4)
        self._registers[w.W_HORIZON] = self.machine.horizon
        self.handles = self._handles(vocabulary.table.offsets)
        self.open_tokens: dict[int, tuple[int, ...]] = {}
        self._open_locals: dict[int, list[int]] = {}
        self._completions: CompletionStore | None = None
        self._found_by: dict[int, NDArray[np.int64]] = {}
        self._found_before = 0
        self._tallies: deque[int] = deque()
        self._tally_lock = threading.Lock()
        self._misses = 0
        self._local_walks = 0

    def _handles(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """The tables by their addresses; none of them ever moves."""
        machine = self.machine
        self._bounds: NDArray[np.int64] = np.ascontiguousarray(offsets, dtype=np.int64)
        handles = np.zeros((h.TABLES, 3), dtype=np.int64)
        for slot, table in {
            h.T_STATES: machine.states, h.T_MAPS: machine.maps, h.T_ACTIONS: machine.actions, h.T_LOOPS: machine.loops,
            h.T_NODES: self._nodes, h.T_BYTES: self._bytes, h.T_BELOW: self._below, h.T_TOKEN_IDS: self.token_ids,
            h.T_EOS: self.eos, h.T_POOL: self.pool, h.T_DENSE: self.dense, h.T_LOCALS: self.locals, h.T_ROWS: self.rows,
            h.T_EXITS: self.exits, h.T_FRAMES: self._frames, h.T_SCRATCH: self._cells, h.T_BLOB: self._blob,
            h.T_BOUNDS: self._bounds,
        }.items():  # fmt: skip
            h.hold(handles, slot, table)
        return handles

    def counters(self) -> Counters:
        """A snapshot of the counters."""
        registers = self._registers
        return Counters(
            hits=self._hits(),
            misses=self._misses,
            local_walks=self._local_walks,
            walked_nodes=int(registers[w.W_WALKED]),
            states=self.machine.state_count,
            rows=int(registers[w.W_ROWS]),
            bytes=self.bytes_used(),
        )

    def enrol(self, matcher: int, registers: NDArray[np.int64]) -> None:
        """Count in what a new matcher finds; it counts in its own registers, so that a hit costs no more for it."""
        self._found_by[matcher] = registers
        if len(self._tallies) > _MOST_TALLIES and self._tally_lock.acquire(blocking=False):
            try:
                self._add_tallies()
            finally:
                self._tally_lock.release()

    def dismiss(self, matcher: int) -> None:
        """A matcher goes; what it found stays counted.  The garbage collector may call this anywhere: it takes no lock."""
        registers = self._found_by.pop(matcher, None)
        if registers is not None:
            self._tallies.append(int(registers[M_HITS]))

    def _hits(self) -> int:
        with self._tally_lock:
            self._add_tallies()
            return self._found_before + sum(int(registers[M_HITS]) for registers in [*self._found_by.values()])

    def _add_tallies(self) -> None:
        while self._tallies:
            self._found_before += self._tallies.popleft()

    def bytes_used(self) -> int:
        """Memory in use, in bytes."""
        registers = self._registers
        table: RowTable | None = self.__dict__.get("table")
        used: int = (
            self.machine.bytes_used()
            + int(registers[w.W_POOL]) * 4
            + int(registers[w.W_EXITS]) * 12
            + int(registers[w.W_DENSE]) * self.dense.shape[1] * 4
            + int(registers[w.W_ROWS] + registers[w.W_LOCALS]) * 20
            + (0 if table is None else table.nbytes)
        )
        return used

    @cached_property
    def table(self) -> RowTable:
        """The rows that have been asked for by number."""
        from constrained.masks.row_table import RowTable

        return RowTable(self, self.dense.shape[1])

    def completions(self, vocabulary: Vocabulary) -> CompletionStore:
        """The completions of this store's machine, made at the first call."""
        with self.machine.lock:
            if self._completions is None:
                from constrained.masks.completion_store import CompletionStore

                self._completions = CompletionStore(self, vocabulary)
            return self._completions

    def write(self, number: int, row: NDArray[np.uint32]) -> None:
        """Write the row `number` into `row`, uint32[row_words].

        Raises:
            ValueError: the row has another shape.
        """
        if row.shape != self.row_shape:
            raise self.wrong_shape(row)
        h.write_numbered(self.handles, number, row)

    def wrong_shape(self, row: NDArray[np.uint32]) -> ValueError:
        """The error for a row of another shape than uint32[row_words]."""
        return ValueError(f"a row of shape {row.shape} for {self.size} logits; uint32{list(self.row_shape)} is needed")

    def write_batch(self, numbers: NDArray[np.int64], batch: NDArray[np.uint32]) -> None:
        """Write the rows `numbers` into `batch`, C-contiguous uint32[len(numbers), row_words]; -1 is the empty row."""
        if batch.shape != (len(numbers), *self.row_shape):
            raise ValueError(f"rows of shape {batch.shape}; uint32{[len(numbers), *self.row_shape]} are needed")
        write_rows(self.rows, self.dense, self.pool, numbers, batch)

    def find(self, cells: NDArray[np.int32], state: int, cell: int, top: int) -> int:
        """Number of the row of a configuration; `cells` from `top` on are scratch.

        Raises:
            LimitExceeded: the configuration, or making its row, goes past a limit.
        """
        machine = self.machine
        with machine.lock:
            found = h.row_of(self.handles, machine.memo, cells, state, cell)
            if found >= 0:
                return found
            self._misses += 1
            if machine.states[state, t.S_LOCAL] < 0:
                self._make_local(state)
            registers = self._registers
            spare = _STEP_ENTRIES + int(cells[cell, t.C_DEPTH])
            machine.reserve_memo(spare)
            status = h.compose_row(self.handles, machine.memo, cells, registers, state, cell, top)
            while status != t.OK:
                self._count_memo()
                self._supply(status)
                machine.reserve_memo(spare)
                status = h.compose_row(self.handles, machine.memo, cells, registers, -1, cell, top)
            self._count_memo()
            number = int(registers[w.W_FOUND])
            if self._open_locals or registers[w.W_OPEN]:
                tokens = self._open_locals.get(int(machine.states[state, t.S_LOCAL]), []) + self._taken_open()
                if tokens:
                    self._sort_open(number, tokens, cells, state, cell, top)
            return number

    def _count_memo(self) -> None:
        """Count what a kernel has put into the machine's memo."""
        self.machine.memo_used += int(self._registers[w.W_MEMO])
        self._registers[w.W_MEMO] = 0

    def _taken_open(self) -> list[int]:
        """The tokens that a walk has set apart."""
        count = int(self._registers[w.W_OPEN])
        self._registers[w.W_OPEN] = 0
        return self.pool[len(self.pool) - count :].tolist() if count else []

    def _sort_open(
        self, number: int, tokens: list[int], cells: NDArray[np.int32], state: int, cell: int, top: int
    ) -> None:
        """Put the tokens that are allowed whatever the text so far is into the new row `number`, keep the others apart."""
        kept = []
        end = int(self._registers[w.W_POOL])
        for token in tokens:
            after, below = self._followed(token, cells, state, cell, top)
            then = int(cells[below, t.C_RETURN]) if below >= top and cells[below, t.C_NEXT] < top else None
            if indifferent(self.machine, after, then):
                self.pool[end] = token
                end += 1
            else:
                kept.append(token)
        self.rows[number, t.R_MORE_END] = end
        self._registers[w.W_POOL] = end
        if kept:
            self.open_tokens[number] = tuple(kept)

    def _followed(self, token: int, cells: NDArray[np.int32], state: int, cell: int, top: int) -> tuple[int, int]:
        """State and cell after a token as a walk sees them."""
        position = np.array([state, cell, top, 0, 0, 0, 0], dtype=np.int64)
        data = self._blob[self.token_bounds[token] : self.token_bounds[token + 1]]
        machine = self.machine
        while h.run_bytes(self.handles, machine.memo, cells, data, position) == t.OPEN:
            position[5] = 0
        return int(position[0]), int(position[1])

    def _make_local(self, state: int) -> None:
        """Walk the trie from `state` alone, its bases first."""
        states = self.machine.states
        self.machine.expand(state)  # declares the base of what it leads to, and is needed first anyway
        pending = [state]
        while pending:
            state = pending[-1]
            if states[state, t.S_LOCAL] >= 0:
                pending.pop()
                continue
            base = int(states[state, t.S_BASE])
            if base >= 0 and states[base, t.S_LOCAL] < 0:
                pending.append(base)
                continue
            pending.pop()
            if base >= 0 and states[state, t.S_SLACK] >= self.machine.horizon:
                states[state, t.S_LOCAL] = states[base, t.S_LOCAL]
            else:
                self._walk_local(state)

    def _walk_local(self, state: int) -> None:
        machine, registers = self.machine, self._registers
        self._local_walks += 1
        made = machine.state_count
        status = h.walk_state(self.handles, machine.memo, registers, state)
        while True:
            if status == t.OK:
                if registers[w.W_OPEN]:
                    self._open_locals[int(machine.states[state, t.S_LOCAL])] = self._taken_open()
                return
            self._supply(status)
            status = h.walk_state(self.handles, machine.memo, registers, -1)
            if machine.state_count - made > self.limits.step_states:
                raise LimitExceeded(f"one mask needs more than {self.limits.step_states} states (Limits.step_states)")

    def _supply(self, status: int) -> None:
        """Make what a kernel said is missing."""
        missing = int(self._registers[w.W_DETAIL])
        if status == t.UNKNOWN_STATE:
            self.machine.expand(missing)
        elif status == t.UNKNOWN_POP:
            self.machine.resolve(missing, int(self._registers[w.W_OUTCOME]))
        elif status == t.NO_ROOM:
            raise LimitExceeded("the rows of this vocabulary have outgrown their memory (Limits.bytes)")
        else:
            raise LimitExceeded(f"nested deeper than {self.limits.stack_depth} (Limits.stack_depth)")
