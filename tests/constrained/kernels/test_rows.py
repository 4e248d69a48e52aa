"""Rows written out against sets."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from constrained.kernels import handles as h
from constrained.kernels.machine import M_ROW
from constrained.kernels.rows import GONE

SIZE = 70
FIRST = 7
"""The number of the first row in the tables."""
TOKENS = st.sets(st.integers(0, SIZE - 1))


def held(rows: NDArray[np.int32], dense: NDArray[np.uint32], pool: NDArray[np.int32]) -> NDArray[np.int64]:
    handles = h.handles_of(h.TABLES, {h.T_ROWS: rows, h.T_DENSE: dense, h.T_POOL: pool})
    handles[h.T_FIRST, 0] = FIRST
    return handles


@given(st.none() | TOKENS, TOKENS, TOKENS)
def test_a_row_is_its_base_with_the_listed_tokens_flipped(
    base: set[int] | None, flipped: set[int], more: set[int]
) -> None:
    dense = np.zeros((3, 3), dtype=np.uint32)
    for token in base or ():
        dense[1, token // 32] |= np.uint32(1 << token % 32)
    ids, rest = sorted(flipped), sorted(more)
    pool = np.array([99, *ids, 99, *rest, 99], dtype=np.int32)
    first = len(ids) + 2
    entry = [-1 if base is None else 1, 1, 1 + len(ids), first, first + len(rest)]
    rows = np.array([[-1, 0, 0, 0, 0], entry], dtype=np.int32)
    row = np.full(3, 0xFFFFFFFF, dtype=np.uint32)
    assert h.write_numbered(held(rows, dense, pool), FIRST + 1, row) == FIRST + 1
    expected = (base or set()) ^ flipped ^ more
    assert {token for token in range(96) if row[token // 32] >> np.uint32(token % 32) & 1} == expected


@given(st.lists(st.integers(-1, FIRST + 2), max_size=5), st.lists(TOKENS, min_size=3, max_size=3))
def test_rows_of_a_batch_are_written_as_one_by_one(numbers: list[int], listed: list[set[int]]) -> None:
    dense = np.full((1, 3), 0x55555555, dtype=np.uint32)
    pool = np.array([token for tokens in listed for token in sorted(tokens)], dtype=np.int32)
    rows, at = np.zeros((3, 5), dtype=np.int32), 0
    for number, tokens in enumerate(listed):
        rows[number] = (number % 2 - 1, at, at + len(tokens), 0, 0)
        at += len(tokens)
    handles = held(rows, dense, pool)
    batch = np.full((len(numbers), 3), 7, dtype=np.uint32)
    asked = np.array(numbers, dtype=np.int64)
    assert h.write_batch(handles, asked, batch) == sum(0 <= number < FIRST for number in numbers)
    for number, after, row in zip(numbers, asked.tolist(), batch, strict=True):
        alone = np.full(3, 7, dtype=np.uint32)
        assert h.write_numbered(handles, number, alone) == (number if number >= FIRST else -1)
        assert after == (GONE if 0 <= number < FIRST else number)
        assert np.array_equal(row, np.zeros(3) if number == -1 else alone)


def test_a_found_row_is_written_if_it_is_there() -> None:
    rows = np.array([[-1, 0, 2, 0, 0]], dtype=np.int32)
    handles = held(rows, np.zeros((1, 3), dtype=np.uint32), np.array([1, 40], dtype=np.int32))
    registers = np.zeros(16, dtype=np.int64)
    row = np.full(3, 5, dtype=np.uint32)
    for number in (-1, 0, FIRST - 1):
        registers[M_ROW] = number
        assert h.write_found(handles, registers, row) == -1
        assert row.tolist() == [5, 5, 5]
    registers[M_ROW] = FIRST
    assert h.write_found(handles, registers, row) == FIRST
    assert row.tolist() == [2, 256, 0]


def test_handles_keep_their_tables() -> None:
    table = np.arange(12, dtype=np.int32).reshape(4, 3)
    gone = weakref.ref(table)
    handles = h.handles_of(2, {1: table})
    del table
    assert gone() is not None
    assert handles[0].tolist() == [0, 0, 0]
    assert handles[1, 1:].tolist() == [4, 3]
    view = handles[1:]
    del handles
    gc.collect()
    assert gone() is not None
    del view
    assert gone() is None


def test_a_table_that_is_not_contiguous_is_refused() -> None:
    with pytest.raises(ValueError, match="not contiguous"):
        h.handles_of(1, {0: np.zeros((4, 4))[:, :2]})
