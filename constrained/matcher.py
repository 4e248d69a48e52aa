"""One sequence under a constraint: what has been committed, and which tokens may come next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from constrained.automata.completions import UNKNOWN, pushed
from constrained.automata.settling import looks_back, settled
from constrained.budget import Budget
from constrained.errors import TokenRejected
from constrained.kernels import handles as h
from constrained.kernels import machine as m
from constrained.kernels import tables as t
from constrained.kernels.forced import forced_bytes
from constrained.masks.row_store import CellsFull
from constrained.vocabulary import VocabularyError
from grammars.errors import LimitExceeded

if TYPE_CHECKING:
    import torch

    from constrained.automata.completions import Stack
    from constrained.compile import Constraint
    from constrained.device.batch import BatchRows
    from constrained.masks.generation import Generation
    from constrained.masks.row_table import RowTable

_MOST_FORCED = 4096
_SPARE_CELLS = 64
_MOST_SCRATCH = 1 << 16
_FIRST_TOKENS = 1024
_FIRST_BYTES = 8192


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
        self._handles = constraint.store.handles
        self._own: NDArray[np.int64] = np.zeros((h.OWN, 3), dtype=np.int64)
        self.cells: NDArray[np.int32] = np.zeros((self._scratch + 32, t.CELL_COLUMNS), dtype=np.int32)
        self._history: NDArray[np.int32] = np.empty((_FIRST_TOKENS, 4), dtype=np.int32)
        self._text: NDArray[np.uint8] = np.empty(_FIRST_BYTES, dtype=np.uint8)
        h.hold_own(self._own, self.cells, self._history, self._text)
        self._registers: NDArray[np.int64] = np.zeros(16, dtype=np.int64)
        self.store.tally.enrol(id(self), self._registers)
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
        h.begin(
            self.cells, self._registers, self.constraint.start, self._machine.done, self._machine.limits.stack_depth
        )

    def fill_mask(self, row: NDArray[np.uint32]) -> None:
        """Write the mask of the next token into `row`, uint32[ceil(vocab.size / 32)]: token i is bit i % 32 of word i // 32.

        After an end token the row is empty.

        Raises:
            LimitExceeded: the row cannot be made within the limits.
        """
        if self._finished:
            row[:] = 0
            return
        store = self.store
        if row.shape != store.row_shape:
            raise store.wrong_shape(row)
        rows = store.rows
        number = h.write_found(rows.handles, self._registers, row)
        if number < 0:
            rows, number = self._write_row(row)
        if self._budget is not None:
            self._budget.restrict(self, number, row)
        if number in rows.open_tokens:
            self._look_at_text(number, rows.open_tokens[number], row)

    def restrict(self, rows: Generation, number: int, row: NDArray[np.uint32]) -> None:
        """Take out of `row`, row `number` of `rows`, which this place has, what the budget forbids; add what the text allows."""
        if self._finished:
            return
        if self._budget is not None:
            self._budget.restrict(self, number, row)
        if number in rows.open_tokens:
            self._look_at_text(number, rows.open_tokens[number], row)

    def accept(self, token: int) -> None:
        """Commit one token.

        Raises:
            TokenRejected: the token is not allowed here; the matcher is as it was.
            LimitExceeded: the stack grew past its limit; the matcher is as it was.
        """
        if not self._finished:
            status = h.commit_token(self._handles, self._machine.memo, self._own, self._registers, token)
            if status == t.OK or (status != t.REJECTED and self._commit_slowly(status, token)):
                self._tokens.append(token)
                if self._budget is not None and not self._budget.admits(self, token):
                    self._take_back(1)
                    raise TokenRejected(
                        f"token {token} is not allowed: the text could not be finished within "
                        f"max_tokens={self._budget.max_tokens}",
                        token,
                    )
                return
            if token in self._ends and self.is_accepting():
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

    def __del__(self) -> None:
        store = self.__dict__.get("store")
        if store is not None:
            store.tally.dismiss(id(self))

    def fork(self) -> Matcher:
        """A copy that goes its own way."""
        other = Matcher.__new__(Matcher)
        other.__dict__.update(self.__dict__)
        other._own = self._own.copy()
        other.cells, other._history, other._text = self.cells.copy(), self._history.copy(), self._text.copy()
        h.hold_own(other._own, other.cells, other._history, other._text)
        other._registers = self._registers.copy()
        other._registers[m.M_HITS] = 0
        self.store.tally.enrol(id(other), other._registers)
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
        """Number of the current mask in `constraint.table`.

        A table that has grown past its share of `Limits.bytes` is replaced by an empty one at such a call; numbers belong
        to the table that `constraint.table` is after it (`table_row` gives both).
        """
        return self.table_row()[1]

    def table_row(self) -> tuple[RowTable, int]:
        """A table of rows, and the number of the current mask in it."""
        place = self.shared_row()
        if place is None:
            row = np.zeros(self.constraint.vocabulary.row_words, dtype=np.uint32)
            self.fill_mask(row)
            table = self.store.table_with_room()
            place = table, table.slot_for(row)
        return place

    def shared_row(self) -> tuple[RowTable, int] | None:
        """`table_row` where the mask is one that all sequences in this place have, else None (near a budget, at the end).

        Masks that are not shared differ from step to step; callers that can send one as it is spare the table.
        """
        if self._finished:
            return None
        rows, number = self.row_here()
        if number in rows.open_tokens or (self._budget is not None and not self._budget.is_far(self, number)):
            return None
        table = self.store.table_with_room()
        return table, table.slot_of(rows, number)

    @staticmethod
    def fill_rows(constraints: Sequence[Matcher], rows: NDArray[np.uint32]) -> None:
        """`fill_masks`, as the engine asks for it."""
        fill_masks(constraints, rows)

    @staticmethod
    def device_rows(
        matchers: Sequence[Matcher | None], masks: Sequence[NDArray[np.uint32] | None], device: torch.device
    ) -> BatchRows:
        """The masks of a batch on `device`; see `BatchRows.of`."""
        from constrained.device.batch import BatchRows

        return BatchRows.of(matchers, masks, device)

    def row_here(self) -> tuple[Generation, int]:
        """The configuration's row in the store, whatever the budget: its generation and its number."""
        number = int(self._registers[m.M_ROW])
        rows = self.store.rows
        return self._find_row() if number < rows.first else (rows, number)

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
        written = int(self._registers[m.M_BYTES])
        return int(self._registers[m.M_STATE]), self.stack(int(self._registers[m.M_CELL]), self._text[:written])

    def configuration_before(self) -> tuple[int, Stack]:
        """The configuration before the last token of the text."""
        state, cell, _, written = self._history[int(self._registers[m.M_LENGTH]) - 1].tolist()
        return state, self.stack(cell, self._text[:written])

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

    @property
    def tokens(self) -> tuple[int, ...]:
        """The committed tokens."""
        return tuple(self._tokens)

    @property
    def text(self) -> bytes:
        """The committed bytes."""
        return self._text[: int(self._registers[m.M_BYTES])].tobytes()

    def _find_row(self) -> tuple[Generation, int]:
        registers = self._registers
        state, cell = int(registers[m.M_STATE]), int(registers[m.M_CELL])
        number = h.row_of(self._handles, self._machine.memo, self.cells, state, cell)
        rows = self.store.rows  # read after the number: so it is of this generation, or of one before
        if number >= rows.first:
            registers[m.M_HITS] += 1
        else:
            rows, number = self._make_row(state, cell)
        registers[m.M_ROW] = number
        return rows, number

    def _make_row(self, state: int, cell: int) -> tuple[Generation, int]:
        return self._with_cells(lambda: self.store.find(self.cells, state, cell, int(self._registers[m.M_TOP])))

    def _write_row(self, row: NDArray[np.uint32]) -> tuple[Generation, int]:
        """Write the row of this place, which the last commit did not find; its generation and number."""
        if row.dtype != np.uint32 or not row.flags.c_contiguous:  # or a kernel would be compiled for them
            rows, number = self._find_row()
            rows.write(number, row)
            return rows, number
        return self._with_cells(lambda: self.store.write(self._own, self.cells, self._registers, row))

    def _with_cells(self, make: Callable[[], tuple[Generation, int]]) -> tuple[Generation, int]:
        """Have a row made; frames of a parser may take many cells for each byte of a token."""
        while True:
            self.reserve_cells()
            try:
                return make()
            except CellsFull:
                if self._scratch > _MOST_SCRATCH:
                    raise
                self._scratch *= 4
            except LimitExceeded as error:
                error.add_note(f"in the mask after {self.text[-40:].decode('utf-8', 'backslashreplace')!r}")
                raise

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

    def _look_at_text(self, number: int, tokens: tuple[int, ...], row: NDArray[np.uint32]) -> None:
        """Add to the row `number` those of its open tokens that the text so far admits."""
        budget = None if self._budget is None or self._budget.is_far(self, number) else self._budget
        for token in tokens:
            data = self._blob[self._bounds[token] : self._bounds[token + 1]]
            if self._run(data, self._position()) == t.OK and (budget is None or budget.fits(self, token)):
                row[token >> 5] |= np.uint32(1 << (token & 31))

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
            position[0] = settled(self._machine, state, int(self.cells[cell, t.C_RETURN]), text)
        return bool(position[0])

    def _supply(self, status: int, missing: int, outcome: int) -> bool:
        """Make what a kernel says is missing in the machine; False if that is not what the status says."""
        machine = self._machine
        if status == t.UNKNOWN_STATE:
            with machine.lock, machine.timed:
                machine.expand(missing)
        elif status == t.UNKNOWN_POP:
            with machine.lock, machine.timed:
                machine.resolve(missing, outcome)
        else:
            return False
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
    """The masks of many sequences, `rows` uint32[len(matchers), words], in one call.

    Rows that exist are written by one kernel, which holds no interpreter lock; those that do not are made first.

    Raises:
        ValueError: `rows` does not have a row for each matcher, or rows of another length.
        LimitExceeded: as `Matcher.fill_mask`; what is in `rows` is not to be used then.
    """
    if len(matchers) != len(rows):
        raise ValueError(f"{len(rows)} rows for {len(matchers)} matchers")
    if not matchers:
        return
    store = matchers[0].store
    if not rows.flags.c_contiguous or any(matcher.store is not store for matcher in matchers):
        for matcher, row in zip(matchers, rows, strict=True):
            matcher.fill_mask(row)
        return
    if rows.shape[1:] != store.row_shape:
        raise ValueError(f"rows of shape {rows.shape}; uint32{[len(matchers), *store.row_shape]} are needed")
    places = [None if matcher.is_finished() else matcher.row_here() for matcher in matchers]
    table = store.rows
    numbers = np.array([-1 if place is None else place[1] for place in places], dtype=np.int64)
    h.write_batch(table.handles, numbers, rows)
    for matcher, place, row in zip(matchers, places, rows, strict=True):
        if place is not None:
            if place[0] is not table:
                place[0].write(place[1], row)
            matcher.restrict(*place, row)


_NOTHING: NDArray[np.uint8] = np.empty(0, dtype=np.uint8)
