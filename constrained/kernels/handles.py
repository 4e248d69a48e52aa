"""Tables by their addresses: a kernel that is called for every token takes a few arrays, not twenty.

Each array argument of a call from Python costs about 0.2 µs, more than a committed token needs in the kernel.  Tables
stand in one array of handles, int64[TABLES, 3]: address, rows, columns.  Handles made by `handles_of` keep their tables
alive, so a kernel that runs without a lock holds them as long as it needs them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import numba
import numpy as np
from numba.core import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array
from numpy.typing import NDArray

from constrained.kernels.jit import Bytes, inlined, kernel
from constrained.kernels.machine import (
    M_BUDGETED,
    M_BYTES,
    M_CELL,
    M_DEEPEST,
    M_FINISHED,
    M_LENGTH,
    M_ROW,
    M_STATE,
    M_STORE,
    M_TOP,
    REGISTERS,
    commit,
    find_row,
    run,
)
from constrained.kernels.object_keys import K_BRACE
from constrained.kernels.rows import expand_row
from constrained.kernels.tables import C_DEPTH, C_RETURN, CELL_COLUMNS, R_NUMBER, R_OPEN, REJECTED

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt8 = NDArray[np.uint8]
UInt32 = NDArray[np.uint32]
UInt64 = NDArray[np.uint64]

(
    T_STATES, T_MAPS, T_ACTIONS, T_LOOPS, T_NODES, T_BYTES, T_BELOW, T_TOKEN_IDS, T_EOS, T_POOL, T_DENSE, T_LOCALS,
    T_ROWS, T_EXITS, T_FRAMES, T_SCRATCH, T_BLOB, T_BOUNDS, T_MEMO_USED, T_SETTLED,
    T_LENGTHS, T_FIRST, T_JOINED, T_JOINED_BYTES, T_JOINED_BELOW, T_JOINED_TOKENS, T_JOINED_LENGTHS, T_JOIN_SCRATCH,
    T_ITEMS, T_COUNTS, T_OBJECTS, T_MEMBERS, T_SPELLINGS, T_GAPS, T_ORIGINS, T_RECORDS, T_INTERNED,
) = range(37)  # fmt: skip
TABLES = 37
"""The tables of a store: those of its machine, of the trie, and of its rows; the bytes of the tokens and their bounds; how
many entries the memo has; open commas that have been settled; how many characters the tokens have; the tries of joined exits, and
what a row is made up of; from T_COUNTS on those of `object_tables`.  T_FIRST names no table: handles[T_FIRST, 0] is the number
of the first of the rows."""
O_CELLS, O_HISTORY, O_TEXT = range(3)
OWN = 3
"""The tables of a matcher: cells, history, text."""
LAST_ROW = 1 << 30
"""Rows that a store may number in its life; numbers are kept in 32 bits."""


class _Owner:
    """Memory of handles that lives with the tables they name."""

    def __init__(self, count: int, tables: Iterable[NDArray[Any]]) -> None:
        self._numbers: Int64 = np.zeros((count, 3), dtype=np.int64)
        self._tables = tuple(tables)
        self.__array_interface__ = self._numbers.__array_interface__


def handles_of(count: int, tables: Mapping[int, NDArray[Any]]) -> Int64:
    """Handles, int64[count, 3], for `tables` by their slots, which live as long as the handles do; other slots are zero.

    Raises:
        ValueError: as `hold`.
    """
    handles: Int64 = np.asarray(_Owner(count, tables.values()))
    for slot, table in tables.items():
        hold(handles, slot, table)
    return handles


def hold(handles: Int64, slot: int, table: NDArray[Any]) -> None:
    """Let `handles[slot]` name `table`, a C-contiguous array of one or two dimensions; the caller keeps it alive.

    Raises:
        ValueError: the table has another layout.
    """
    if not table.flags.c_contiguous or table.ndim not in (1, 2):
        raise ValueError(f"a table of shape {table.shape} that is not contiguous")
    shape = table.shape
    # `table.ctypes` would make several objects first
    handles[slot] = (table.__array_interface__["data"][0], shape[0], shape[1] if len(shape) == 2 else 0)


@kernel
def hold_own(own: Int64, cells: Int32, history: Int32, text: UInt8, registers: Int64) -> int:
    """`hold` for the three tables of a matcher, in one call that takes a tenth of the time; the address of `registers`."""
    own[O_CELLS, 0], own[O_CELLS, 1], own[O_CELLS, 2] = cells.ctypes.data, cells.shape[0], cells.shape[1]
    own[O_HISTORY, 0], own[O_HISTORY, 1], own[O_HISTORY, 2] = history.ctypes.data, history.shape[0], history.shape[1]
    own[O_TEXT, 0], own[O_TEXT, 1] = text.ctypes.data, text.shape[0]
    return registers.ctypes.data  # type: ignore[no-any-return]


@kernel
def begin(cells: Int32, registers: Int64, start: int, done: int, deepest: int) -> None:
    """Put a matcher at the beginning of its text: in `start`, with a frame below that returns to `done`."""
    registers[M_DEEPEST] = deepest
    registers[M_STATE], registers[M_CELL], registers[M_TOP] = start, 1, 2
    registers[M_LENGTH], registers[M_BYTES] = 0, 0
    registers[M_ROW] = -1
    registers[K_BRACE] = -1
    for cell in range(2):
        for column in range(CELL_COLUMNS):
            cells[cell, column] = 0
    cells[1, C_RETURN], cells[1, C_DEPTH] = done, 1


def _table(dtype: str, dimensions: int) -> Callable[[int, int, int], NDArray[Any]]:
    """A piece of a kernel: the table at an address, of so many rows and columns."""
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]

        def plain(address: int, rows: int, columns: int) -> NDArray[Any]:
            shape = (int(rows), int(columns))[:dimensions]
            size = int(np.prod(shape)) * np.dtype(dtype).itemsize
            memory = (ctypes.c_char * size).from_address(int(address))
            return np.frombuffer(memoryview(memory), dtype=dtype).reshape(shape)

        return plain

    array = types.Array(numba.from_dtype(np.dtype(dtype)), dimensions, "C")

    @intrinsic  # type: ignore[untyped-decorator]
    def table(_context: Any, _address: Any, _rows: Any, _columns: Any) -> Any:
        def lower(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return _made_array(array, dtype, context, builder, arguments[: 1 + dimensions])

        return array(types.int64, types.int64, types.int64), lower

    return cast("Callable[[int, int, int], NDArray[Any]]", table)


def _made_array(array: Any, dtype: str, context: Any, builder: Any, parts: Sequence[Any]) -> Any:
    """The value of type `array` at an address, of a shape: `parts`."""
    made = make_array(array)(context, builder)
    size = np.dtype(dtype).itemsize
    shape = list(parts[1:])
    strides = [context.get_constant(types.intp, size)]
    if len(shape) == 2:
        strides.insert(0, builder.mul(shape[1], strides[0]))
    populate_array(
        made,
        data=builder.inttoptr(parts[0], made.data.type),
        shape=shape,
        strides=strides,
        itemsize=context.get_constant(types.intp, size),
        meminfo=None,
    )
    return made._getvalue()


def _view(dtype: str, dimensions: int) -> Callable[[Int64, int], NDArray[Any]]:
    """A piece of a kernel: the table that `handles[slot]` names.

    It is one instruction to Numba.  A function pasted into its callers takes Numba a look at all of the caller for each use,
    which was a tenth of the time that kernels take to be compiled.
    """
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        table = _table(dtype, dimensions)
        return lambda handles, slot: table(handles[slot, 0], handles[slot, 1], handles[slot, 2])

    array = types.Array(numba.from_dtype(np.dtype(dtype)), dimensions, "C")

    @intrinsic  # type: ignore[untyped-decorator]
    def view(_context: Any, handles: Any, _slot: Any) -> Any:
        def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            numbers = make_array(signature.args[0])(context, builder, arguments[0]).data
            first = builder.mul(arguments[1], context.get_constant(types.intp, 3))
            parts = [
                builder.load(builder.gep(numbers, [builder.add(first, context.get_constant(types.intp, column))]))
                for column in range(1 + dimensions)
            ]
            return _made_array(array, dtype, context, builder, parts)

        return array(handles, types.intp), lower

    return cast("Callable[[Int64, int], NDArray[Any]]", view)


int32_rows, int32_items = _view("int32", 2), _view("int32", 1)
uint8_items, int64_items = _view("uint8", 1), _view("int64", 1)
uint32_rows, uint64_rows, int64_rows = _view("uint32", 2), _view("uint64", 2), _view("int64", 2)
_int64_at = _table("int64", 1)


@kernel
def commit_token(handles: Int64, memo: Int64, own: Int64, registers: Int64, token: int) -> int:
    """`commit` of one token; one that is not in the vocabulary, or has no bytes, is REJECTED."""
    bounds = int64_items(handles, T_BOUNDS)
    if token < 0 or token >= bounds.shape[0] - 1:
        return REJECTED
    first, last = bounds[token], bounds[token + 1]
    if first == last:
        return REJECTED
    return commit(
        int32_rows(handles, T_STATES),
        uint8_items(handles, T_MAPS),
        int64_items(handles, T_ACTIONS),
        memo,
        uint64_rows(handles, T_LOOPS),
        int64_rows(handles, T_SETTLED),
        int32_rows(own, O_CELLS),
        int32_rows(own, O_HISTORY),
        uint8_items(own, O_TEXT),
        registers,
        uint8_items(handles, T_BLOB),
        first,
        last,
    )


@inlined
def _is_row(rows: Int32, first: int, number: int) -> bool:
    """Whether row `number` is one of the tables: neither of an earlier generation nor of one that has begun meanwhile."""
    at = number - first
    return 0 <= at < rows.shape[0] and rows[at, R_NUMBER] == number  # type: ignore[no-any-return]


@inlined
def _written(handles: Int64, number: int, row: UInt32) -> int:
    rows, first = int32_rows(handles, T_ROWS), handles[T_FIRST, 0]
    if not _is_row(rows, first, number):
        return -1
    expand_row(
        rows,
        uint32_rows(handles, T_DENSE),
        int32_items(handles, T_POOL),
        number - first,
        row,
    )
    return number


@kernel
def write_found(handles: Int64, registers: Int64, row: UInt32) -> int:
    """Write the row that a commit found into `row`, uint32[words]; its number, or -1 if it is not known or not there."""
    return _written(handles, registers[M_ROW], row)


@kernel
def write_numbered(handles: Int64, number: int, row: UInt32) -> int:
    """Write row `number` into `row`, uint32[words]; the number, or -1 if the row is not in these tables."""
    return _written(handles, number, row)


@kernel
def write_batch(handles: Int64, places: Int64, store: int, batch: UInt32) -> int:
    """Write the rows that commits have found, and empty ones for finished sequences, into `batch`, uint32[n, words].

    `places` holds the addresses of the registers of n matchers, and then, from the beginning on, the places in the batch
    whose mask has to be made in another way: of another store, not found yet, with a budget, or with tokens that the text
    has to tell.  How many those are is returned.
    """
    rows, dense = int32_rows(handles, T_ROWS), uint32_rows(handles, T_DENSE)
    pool = int32_items(handles, T_POOL)
    first = handles[T_FIRST, 0]
    left = 0
    for place in range(places.shape[0]):
        registers = _int64_at(places[place], REGISTERS, 0)
        number = registers[M_ROW]
        if registers[M_FINISHED] and registers[M_STORE] == store:
            for word in range(batch.shape[1]):
                batch[place, word] = 0
        elif (
            registers[M_STORE] == store
            and not registers[M_BUDGETED]
            and _is_row(rows, first, number)
            and not rows[number - first, R_OPEN]
        ):
            expand_row(rows, dense, pool, number - first, batch[place])
        else:
            places[left] = place
            left += 1
    return left


@kernel
def row_of(handles: Int64, memo: Int64, cells: Int32, state: int, cell: int) -> int:
    """`find_row`."""
    return find_row(int32_rows(handles, T_STATES), memo, cells, state, cell)


@kernel
def run_bytes(handles: Int64, memo: Int64, cells: Int32, data: Bytes, position: Int64) -> int:
    """`run`."""
    return run(
        int32_rows(handles, T_STATES),
        uint8_items(handles, T_MAPS),
        int64_items(handles, T_ACTIONS),
        memo,
        cells,
        data,
        position,
    )
