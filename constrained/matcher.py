"""One sequence under a constraint: what has been committed, and which tokens may come next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from constrained.budget import Budget
from constrained.errors import TokenRejected
from constrained.kernels import machine as m
from constrained.kernels import tables as t
from constrained.kernels.forced import forced_bytes
from constrained.vocabulary import VocabularyError
from grammars.errors import LimitExceeded

if TYPE_CHECKING:
    from constrained.automata.completions import Stack
    from constrained.compile import Constraint

_MOST_FORCED = 4096
_SPARE_CELLS = 64
_FIRST_TOKENS = 64


class Matcher:
    """The state of one sequence; not to be shared between threads.

    The committed text is a prefix of a sentence of the language, and every token in a mask keeps it one.
    """

    def __init__(self, constraint: Constraint, max_tokens: int | None = None) -> None:
        self.constraint = constraint
        self.store = constraint.store
        self._machine = constraint.store.machine
        vocabulary = constraint.vocabulary
        self._blob = vocabulary.table.blob
        self._bounds = constraint.token_bounds
        self._ends = constraint.end_tokens
        self._scratch = 2 * self._machine.horizon + _SPARE_CELLS
        self.cells: NDArray[np.int32] = np.zeros((self._scratch + 32, t.CELL_COLUMNS), dtype=np.int32)
        self._history: NDArray[np.int32] = np.empty((_FIRST_TOKENS, 4), dtype=np.int32)
        self._text: NDArray[np.uint8] = np.empty(512, dtype=np.uint8)
        self._registers: NDArray[np.int64] = np.zeros(16, dtype=np.int64)
        self._tokens: list[int] = []
        self._finished = False
        self._budget: Budget | None = None
        self.reset()
        if max_tokens is not None:
            self._budget = Budget(self, max_tokens, constraint.completions)

    def reset(self) -> None:
        """Back to the empty text."""
        if self._budget is not None:
            self._budget.forget(0)
        self._tokens.clear()
        self._finished = False
        registers = self._registers
        registers[m.M_STATE] = self.constraint.start
        registers[m.M_CELL] = 1
        registers[m.M_TOP] = 2
        registers[m.M_LENGTH] = registers[m.M_BYTES] = 0
        registers[m.M_ROW] = -1
        self.cells[1] = (self._machine.done, 0, 1, 0)

    def fill_mask(self, row: NDArray[np.uint32]) -> None:
        """Write the mask of the next token into `row`, uint32[ceil(vocab.size / 32)]: token i is bit i % 32 of word i // 32.

        After an end token the row is empty.

        Raises:
            LimitExceeded: the row cannot be made within the limits.
        """
        number = int(self._registers[m.M_ROW])
        if number < 0:
            number = self._find_row()
        if self._finished:
            row[:] = 0
            return
        self.store.write(number, row)
        if self._budget is not None:
            self._budget.restrict(self, number, row)

    def accept(self, token: int) -> None:
        """Commit one token.

        Raises:
            TokenRejected: the token is not allowed here; the matcher is as it was.
            LimitExceeded: the stack grew past its limit; the matcher is as it was.
        """
        if not self._finished:
            try:
                first, last = self._bounds[token], self._bounds[token + 1]
            except IndexError:
                first = last = 0
            if first < last and token >= 0:
                machine = self._machine
                status = m.commit(
                    machine.states, machine.maps, machine.actions, machine.memo, self.cells, self._history, self._text,
                    self._registers, self._blob, first, last,
                )  # fmt: skip
                if status == t.OK or (status != t.REJECTED and self._commit_slowly(status, first, last)):
                    self._tokens.append(token)
                    if self._budget is not None and not self._budget.admits(self, token):
                        self._take_back(1)
                        raise TokenRejected(
                            f"token {token} is not allowed: the text could not be finished within "
                            f"max_tokens={self._budget.max_tokens}",
                            token,
                        )
                    return
            elif token in self._ends and self.is_accepting():
                self._finished = True
                self._tokens.append(token)
                return
        raise TokenRejected(self._why_rejected(token), token)

    def accept_many(self, tokens: Iterable[int]) -> int:
        """Commit the longest prefix of `tokens` that is allowed; its length."""
        count = 0
        for token in tokens:
            try:
                self.accept(token)
            except TokenRejected:
                break
            count += 1
        return count

    def masks_ahead(self, tokens: Sequence[int], rows: NDArray[np.uint32]) -> None:
        """The masks before each of `tokens` and after the last, `rows` uint32[len(tokens) + 1, words]; nothing is committed.

        Rows after the first token that is not allowed are empty.
        """
        count = 0
        try:
            for token in tokens:
                self.fill_mask(rows[count])
                try:
                    self.accept(token)
                except TokenRejected:
                    rows[count + 1 : len(tokens) + 1] = 0
                    return
                count += 1
            self.fill_mask(rows[count])
        finally:
            self.rollback(count)

    def rollback(self, count: int) -> None:
        """Take the last `count` tokens back.

        Raises:
            ValueError: fewer tokens have been committed.
        """
        if not 0 <= count <= len(self._tokens):
            raise ValueError(f"cannot take {count} tokens back: {len(self._tokens)} have been committed")
        if count:
            self._take_back(count)
            if self._budget is not None:
                self._budget.forget(int(self._registers[m.M_LENGTH]))

    def _take_back(self, count: int) -> None:
        registers = self._registers
        length = int(registers[m.M_LENGTH]) - count + self._finished
        if length < registers[m.M_LENGTH]:
            state, cell, top, written = self._history[length].tolist()
            registers[m.M_STATE], registers[m.M_CELL], registers[m.M_TOP] = state, cell, top
            registers[m.M_BYTES], registers[m.M_LENGTH] = written, length
            registers[m.M_ROW] = -1
        self._finished = False
        del self._tokens[-count:]

    def fork(self) -> Matcher:
        """A copy that goes its own way."""
        other = Matcher.__new__(Matcher)
        other.__dict__.update(self.__dict__)
        other.cells = self.cells.copy()
        other._history = self._history.copy()
        other._text = self._text.copy()
        other._registers = self._registers.copy()
        other._tokens = self._tokens.copy()
        other._budget = None if self._budget is None else self._budget.forked()
        return other

    def is_accepting(self) -> bool:
        """Whether the committed text is a sentence of the language."""
        if self._finished:
            return True
        position = self._position(wants_end=True)
        return self._run(_NOTHING, position) == t.ACCEPTED

    def is_finished(self) -> bool:
        """Whether an end token was committed."""
        return self._finished

    def forced_tokens(self) -> list[int]:
        """Tokens that the grammar dictates from here, as the tokenizer would write them; nothing is committed.

        Tokens at the end that a longer token could still take the place of are left out.
        """
        if self._finished:
            return []
        data, closed = self._forced_bytes()
        if not data:
            return []
        vocabulary = self.constraint.vocabulary
        try:
            tokens = vocabulary.canonical(data)
        except VocabularyError:
            return []
        if closed:
            return tokens
        start = 0
        for count, token in enumerate(tokens):
            if vocabulary.trie.is_proper_prefix(data[start:]):
                return tokens[:count]
            start += self._bounds[token + 1] - self._bounds[token]
        return tokens

    def _forced_bytes(self) -> tuple[bytes, bool]:
        """The bytes that must follow, and whether the text must end after them."""
        machine = self._machine
        position = np.zeros(7, dtype=np.int64)
        position[:3] = self.position()
        out = np.empty(_MOST_FORCED, dtype=np.uint8)
        while True:
            self.reserve_cells()
            status = forced_bytes(
                machine.states, machine.maps, machine.actions, machine.memo, self.cells, position, out
            )
            if status == t.OK:
                return out[: int(position[3])].tobytes(), bool(position[6])
            if not self._supply(int(status), int(position[4]), int(position[5])):
                self._grow_cells()

    def state_row(self) -> int:
        """Number of the current mask in `constraint.table`."""
        table = self.constraint.table
        number = int(self._registers[m.M_ROW])
        if number < 0:
            number = self._find_row()
        if self._budget is None and not self._finished:
            return table.slot_of(number)
        row = np.zeros(self.constraint.vocabulary.row_words, dtype=np.uint32)
        self.fill_mask(row)
        return table.slot_for(row)

    def shortest_completion(self) -> bytes:
        """One shortest text that completes the committed one to a sentence."""
        if self._finished:
            return b""
        return self.constraint.completions.text(*self.configuration())

    def position(self) -> tuple[int, int, int]:
        """State, cell and top: where the machine stands."""
        registers = self._registers
        return int(registers[m.M_STATE]), int(registers[m.M_CELL]), int(registers[m.M_TOP])

    def configuration(self) -> tuple[int, Stack]:
        """State and stack as a value."""
        return int(self._registers[m.M_STATE]), self.stack(int(self._registers[m.M_CELL]))

    def configuration_before(self) -> tuple[int, Stack]:
        """The configuration before the last token of the text."""
        state, cell, _, _ = self._history[int(self._registers[m.M_LENGTH]) - 1].tolist()
        return state, self.stack(cell)

    def configuration_after(self, token: int) -> tuple[int, Stack]:
        """The configuration that `token`, which is allowed, leads to."""
        position = self._position()
        self._run(self._blob[self._bounds[token] : self._bounds[token + 1]], position)
        return int(position[0]), self.stack(int(position[1]))

    def stack(self, cell: int) -> Stack:
        """The return states from `cell` down."""
        returns = []
        while cell:
            returns.append(int(self.cells[cell, t.C_RETURN]))
            cell = int(self.cells[cell, t.C_NEXT])
        stack: Stack = None
        for then in reversed(returns):
            stack = (then, stack)
        return stack

    @property
    def tokens(self) -> tuple[int, ...]:
        """The committed tokens."""
        return tuple(self._tokens)

    @property
    def text(self) -> bytes:
        """The committed bytes."""
        return self._text[: int(self._registers[m.M_BYTES])].tobytes()

    def _find_row(self) -> int:
        registers = self._registers
        self.reserve_cells()
        number = self.store.find(
            self.cells, int(registers[m.M_STATE]), int(registers[m.M_CELL]), int(registers[m.M_TOP])
        )
        registers[m.M_ROW] = number
        return number

    def reserve_cells(self) -> None:
        """Room above the top for a walk of any token."""
        top = int(self._registers[m.M_TOP])
        if top + self._scratch > self.cells.shape[0]:
            cells = np.zeros((2 * top + 2 * self._scratch, t.CELL_COLUMNS), dtype=np.int32)
            cells[:top] = self.cells[:top]
            self.cells = cells

    def _commit_slowly(self, status: int, first: int, last: int) -> bool:
        """Supply what the kernel asks for until the token is committed (True) or refused (False)."""
        machine, registers = self._machine, self._registers
        while status != t.OK:
            if status == t.REJECTED:
                return False
            if self._supply(status, int(registers[m.M_DETAIL]), int(registers[m.M_OUTCOME])):
                pass
            elif status == t.HISTORY_FULL:
                self._history = np.concatenate([self._history, np.empty_like(self._history)])
                self._text = np.concatenate([self._text, np.empty(len(self._text) + last - first, dtype=np.uint8)])
            else:
                self._grow_cells()
            status = m.commit(
                machine.states, machine.maps, machine.actions, machine.memo, self.cells, self._history, self._text,
                registers, self._blob, first, last,
            )  # fmt: skip
        return self._within_depth()

    def _supply(self, status: int, missing: int, outcome: int) -> bool:
        """Make what a kernel says is missing in the machine; False if that is not what the status says."""
        machine = self._machine
        if status == t.UNKNOWN_STATE:
            with machine.lock:
                machine.expand(missing)
        elif status == t.UNKNOWN_POP:
            with machine.lock:
                machine.resolve(missing, outcome)
        else:
            return False
        return True

    def _within_depth(self) -> bool:
        cell = int(self._registers[m.M_CELL])
        most = self._machine.limits.stack_depth
        if self.cells[cell, t.C_DEPTH] > most:
            self._tokens.append(-1)
            self._take_back(1)
            raise LimitExceeded(f"nested deeper than {most} (Limits.stack_depth)")
        return True

    def _grow_cells(self) -> None:
        cells = np.zeros((2 * self.cells.shape[0], t.CELL_COLUMNS), dtype=np.int32)
        cells[: self.cells.shape[0]] = self.cells
        self.cells = cells

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
            status = m.run(machine.states, machine.maps, machine.actions, machine.memo, self.cells, data, position)
            if status == t.CELLS_FULL:
                self._grow_cells()
            elif not self._supply(int(status), int(position[4]), int(position[5])):
                return int(status)
            position[5] = wants_end

    def _why_rejected(self, token: int) -> str:
        after = self.text[-40:].decode("utf-8", "backslashreplace")
        if self._finished:
            return f"token {token} after the end token: the text is finished"
        size = self.constraint.vocabulary.size
        if not 0 <= token < size:
            return f"token {token} is not in the vocabulary (0 to {size - 1})"
        data = self.constraint.vocabulary.token_bytes(token)
        if token in self._ends:
            return f"end token {token} is not allowed after {after!r}: the text is not complete"
        if not data:
            return f"token {token} is a special token or has no bytes: text cannot produce it"
        position = self._position()
        self._run(np.frombuffer(data, dtype=np.uint8), position)
        done = int(position[3])
        return f"token {token} ({data!r}) is not allowed after {after!r}: its byte {done} ({data[done : done + 1]!r}) cannot follow"


def fill_masks(matchers: Sequence[Matcher], rows: NDArray[np.uint32]) -> None:
    """The masks of many sequences, `rows` uint32[len(matchers), words], in one call."""
    for matcher, row in zip(matchers, rows, strict=True):
        matcher.fill_mask(row)


_NOTHING: NDArray[np.uint8] = np.empty(0, dtype=np.uint8)
