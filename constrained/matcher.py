"""One sequence under a constraint: what has been committed, and which tokens may come next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from constrained.budget import Budget
from constrained.committed import Committed
from constrained.errors import TokenRejected
from constrained.kernels import handles as h
from constrained.kernels import machine as m
from constrained.kernels import tables as t
from constrained.kernels.ahead import rows_ahead, rows_there_and_back
from constrained.kernels.forced import forced_bytes
from constrained.masks.row_store import CellsFull
from constrained.vocabulary import VocabularyError
from constrained.vocabulary.spelled import pieces, without_begun_token, without_special_tokens
from grammars.errors import LimitExceeded

if TYPE_CHECKING:
    import torch

    from constrained.compile import Constraint
    from constrained.device.batch import BatchRows
    from constrained.masks.generation import Generation
    from constrained.masks.row_table import RowTable

_MOST_FORCED = 4096
_MOST_SCRATCH = 1 << 16


class Matcher(Committed):
    """The state of one sequence; not to be shared between threads.

    The committed text is a prefix of a sentence of the language, and every token in a mask keeps it one.
    """

    def __init__(self, constraint: Constraint, max_tokens: int | None = None) -> None:
        super().__init__(constraint)
        self._ends = constraint.end_tokens
        self._tokens: list[int] = []
        self._finished = False
        self._budget: Budget | None = None
        self.reset()
        if max_tokens is not None:
            self._budget = Budget(self, max_tokens, constraint.completions)
            self._registers[m.M_BUDGETED] = 1

    def reset(self) -> None:
        """Back to the empty text."""
        if self._budget is not None:
            self._budget.forget(0)
        self._tokens.clear()
        self._begin()
        self._end(False)

    def _end(self, finished: bool) -> None:
        self._finished = finished
        self._registers[m.M_FINISHED] = finished

    def fill_mask(self, row: NDArray[np.uint32]) -> None:
        """Write the mask of the next token into `row`, uint32[ceil(vocab.size / 32)]: token i is bit i % 32 of word i // 32.

        After an end token the row is empty.

        Raises:
            LimitExceeded: the row cannot be made within the limits, or no way to finish within the budget is found.
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
        admitted = self._admitted_by_text(rows.open_tokens[number]) if number in rows.open_tokens else []
        if self._budget is not None:
            self._budget.restrict(self, number, row, admitted)
            return
        for token in admitted:
            row[token >> 5] |= np.uint32(1 << (token & 31))

    def accept(self, token: int) -> None:
        """Commit one token.

        Raises:
            TokenRejected: the token is not allowed here; the matcher is as it was.
            LimitExceeded: the stack grew past its limit, or the mask before the token, which was not asked for, cannot be made;
                the matcher is as it was.
        """
        if not self._finished:
            status = h.commit_token(self._handles, self._machine.memo, self._own, self._registers, token)
            if status == t.OK or (status != t.REJECTED and self._commit_slowly(status, token)):
                self._tokens.append(token)
                if self._budget is not None and not self._fits_budget(self._budget, token):
                    self._take_back(1)
                    raise TokenRejected(
                        f"token {token} is not allowed: the text could not be finished within "
                        f"max_tokens={self._budget.max_tokens}",
                        token,
                    )
                return
            if token in self._ends and self.is_accepting():
                self._end(True)
                self._tokens.append(token)
                return
        raise TokenRejected(self._why_rejected(token), token)

    def _fits_budget(self, budget: Budget, token: int) -> bool:
        try:
            return budget.admits(self, token)
        except LimitExceeded:
            self._take_back(1)
            raise

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
        store = self.store
        fits = rows.dtype == np.uint32 and rows.flags.c_contiguous and rows.shape[1:] == store.row_shape
        count = 0
        if fits and not self._finished and len(rows) > len(tokens):
            numbers = np.empty(len(tokens) + 1, dtype=np.int64)
            ids, memo, budget = np.fromiter(tokens, np.int64, len(tokens)), self._machine.memo, self._budget
            written = rows_there_and_back(
                self._handles, store.rows.handles, memo, self._own, self._registers, ids, numbers, rows
            )
            if written and (budget is None or budget.are_far(self, numbers[:written].tolist())):
                return
            if budget is not None:
                count = self._go_ahead(budget, ids, numbers, rows)
        try:
            for token in tokens[count:]:
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

    def _go_ahead(
        self, budget: Budget, ids: NDArray[np.int64], numbers: NDArray[np.int64], rows: NDArray[np.uint32]
    ) -> int:
        """Write the rows that are known and commit their tokens, as far as nothing is to be looked at; how many tokens."""
        store, memo = self.store.rows, self._machine.memo
        needed = budget.bytes_needed(self)
        done = rows_ahead(self._handles, store.handles, memo, self._own, self._registers, ids, numbers, rows)
        self._tokens.extend(ids[:done].tolist())
        known = numbers[:done].tolist()
        exact = next((at for at, number in enumerate(known) if number in store.open_tokens), done)
        exact = min(exact, budget.far_along(known, needed))
        budget.pass_by(done)
        self.rollback(done - exact)
        return exact

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
        self._uncommit(int(self._registers[m.M_LENGTH]) - count + self._finished)
        self._end(False)
        del self._tokens[-count:]

    def fork(self) -> Matcher:
        """A copy that goes its own way."""
        other = self._copied()
        other._tokens = self._tokens.copy()
        other._budget = None if self._budget is None else self._budget.forked()
        return other

    def is_accepting(self) -> bool:
        """Whether the committed text is a sentence of the language."""
        return self._finished or self.is_sentence()

    def is_finished(self) -> bool:
        """Whether an end token was committed."""
        return self._finished

    def forced_tokens(self) -> list[int]:
        """Tokens that the grammar dictates from here, as the tokenizer would write them; nothing is committed.

        Tokens at the end that a longer token could still take the place of are left out.
        """
        if self._finished:
            return []
        dictated, closed = self._forced_bytes()
        data = without_begun_token(dictated)
        if not data:
            return []
        closed |= len(data) < len(dictated)  # which token comes is open, but no text goes on before it
        vocabulary = self.constraint.spelled
        try:
            tokens = [
                token for piece in pieces(data)
                for token in ([piece] if isinstance(piece, int) else vocabulary.canonical(piece))
            ]  # fmt: skip
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
    def fill_rows(constraints: Sequence[Matcher], rows: NDArray[np.uint32]) -> Sequence[int]:
        """The masks that are known, as the engine asks for them, and the places of the others."""
        from constrained.batch_masks import fill_known_masks

        return fill_known_masks(constraints, rows)

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
        """One shortest text that completes the committed one to a sentence, without special tokens in it."""
        if self._finished:
            return b""
        return without_special_tokens(self.constraint.completions.text(*self.configuration()))

    @property
    def tokens(self) -> tuple[int, ...]:
        """The committed tokens."""
        return tuple(self._tokens)

    def _find_row(self) -> tuple[Generation, int]:
        registers = self._registers
        state, cell = int(registers[m.M_STATE]), int(registers[m.M_CELL])
        number = h.row_of(self._handles, self._machine.memo, self.cells, state, cell)
        rows = self.store.rows  # read after the number: so it is of this generation, or of one before
        if number >= rows.first:
            registers[m.M_HITS] += 1
        else:
            rows, number = self._with_cells(lambda: self.store.find(self._own, self.cells, self._registers))
        registers[m.M_ROW] = number
        return rows, number

    def _write_row(self, row: NDArray[np.uint32]) -> tuple[Generation, int]:
        """Write the row of this place, which the last commit did not find; its generation and number."""
        if row.dtype != np.uint32 or not row.flags.c_contiguous:  # or a kernel would be compiled for them
            rows, number = self._find_row()
            rows.write(number, row)
            return rows, number
        try:
            return self.store.find(self._own, self.cells, self._registers, row)
        except CellsFull:  # few stacks grow, so that they are looked at afterwards
            return self._with_cells(lambda: self.store.find(self._own, self.cells, self._registers, row))
        except LimitExceeded as error:
            raise self._placed(error) from None

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
                raise self._placed(error) from None

    def _placed(self, error: LimitExceeded) -> LimitExceeded:
        """The error with the place in the text."""
        error.add_note(f"in the mask after {self.text[-40:].decode('utf-8', 'backslashreplace')!r}")
        return error

    def _admitted_by_text(self, tokens: tuple[int, ...]) -> list[int]:
        """Those of the open tokens of this place that the text so far admits."""
        blob, bounds = self._blob, self._bounds
        return [
            token for token in tokens if self._run(blob[bounds[token] : bounds[token + 1]], self._position()) == t.OK
        ]

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
