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
from constrained.kernels import tables as t
from constrained.kernels.machine import M_BUDGETED, M_FINISHED, M_ROW, M_STORE, REGISTERS

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
    entry = [-1 if base is None else 1, 1, 1 + len(ids), first, first + len(rest), 0, FIRST + 1]
    rows = np.array([[-1, 0, 0, 0, 0, 0, FIRST], entry], dtype=np.int32)
    row = np.full(3, 0xFFFFFFFF, dtype=np.uint32)
    assert h.write_numbered(held(rows, dense, pool), FIRST + 1, row) == FIRST + 1
    expected = (base or set()) ^ flipped ^ more
    assert {token for token in range(96) if row[token // 32] >> np.uint32(token % 32) & 1} == expected


PLACES = st.tuples(
    st.integers(-1, FIRST + 5), st.booleans(), st.sampled_from([0, 0, 0, 1]), st.sampled_from([4, 4, 4, 5])
)
"""Row number, whether an end token was committed, whether there is a budget, the number of the store."""


@given(st.lists(PLACES, max_size=5), st.lists(TOKENS, min_size=4, max_size=4))
def test_rows_of_a_batch_are_written_as_one_by_one(
    places: list[tuple[int, bool, int, int]], listed: list[set[int]]
) -> None:
    dense = np.full((1, 3), 0x55555555, dtype=np.uint32)
    pool = np.array([token for tokens in listed for token in sorted(tokens)], dtype=np.int32)
    rows, at = np.zeros((5, t.ROW_COLUMNS), dtype=np.int32), 0  # the fifth is not written yet
    for number, tokens in enumerate(listed):
        rows[number] = (
            number % 2 - 1,
            at,
            at + len(tokens),
            0,
            0,
            number == 3,
            FIRST + number,
        )  # the last one has open tokens
        at += len(tokens)
    handles = held(rows, dense, pool)
    batch = np.full((len(places), 3), 7, dtype=np.uint32)
    matchers = np.zeros((len(places), REGISTERS), dtype=np.int64)
    matchers[:, [M_ROW, M_FINISHED, M_BUDGETED, M_STORE]] = np.array(places, dtype=np.int64).reshape(-1, 4)
    asked = np.array([one.ctypes.data for one in matchers], dtype=np.int64)
    left = asked[: h.write_batch(handles, asked, 4, batch)].tolist()
    for place, ((number, finished, budgeted, store), row) in enumerate(zip(places, batch, strict=True)):
        alone = np.full(3, 7, dtype=np.uint32)
        assert h.write_numbered(handles, number, alone) == (number if FIRST <= number <= FIRST + 3 else -1)
        if store == 4 and finished:
            assert not row.any()
            assert place not in left
        elif store != 4 or budgeted or number < FIRST or number >= FIRST + 3:
            assert (row == 7).all()
            assert place in left
        else:
            assert np.array_equal(row, alone)
            assert place not in left
    assert sorted(set(left)) == left


def test_a_found_row_is_written_if_it_is_there() -> None:
    rows = np.array([[-1, 0, 2, 0, 0, 0, FIRST], [0, 0, 0, 0, 0, 0, 0]], dtype=np.int32)
    handles = held(rows, np.zeros((1, 3), dtype=np.uint32), np.array([1, 40], dtype=np.int32))
    registers = np.zeros(REGISTERS, dtype=np.int64)
    row = np.full(3, 5, dtype=np.uint32)
    for number in (-1, 0, FIRST - 1, FIRST + 1, FIRST + 2, FIRST + 900):  # the last three are of a later generation
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
