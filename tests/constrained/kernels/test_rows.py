"""Rows written out against sets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from constrained.kernels.rows import write_row, write_rows

SIZE = 70
TOKENS = st.sets(st.integers(0, SIZE - 1))


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
    write_row(rows, dense, pool, 1, row)
    expected = (base or set()) ^ flipped ^ more
    assert {token for token in range(96) if row[token // 32] >> np.uint32(token % 32) & 1} == expected


@given(st.lists(st.integers(-1, 2), max_size=5), st.lists(TOKENS, min_size=3, max_size=3))
def test_rows_of_a_batch_are_written_as_one_by_one(numbers: list[int], listed: list[set[int]]) -> None:
    dense = np.full((1, 3), 0x55555555, dtype=np.uint32)
    pool = np.array([token for tokens in listed for token in sorted(tokens)], dtype=np.int32)
    rows, at = np.zeros((3, 5), dtype=np.int32), 0
    for number, tokens in enumerate(listed):
        rows[number] = (number % 2 - 1, at, at + len(tokens), 0, 0)
        at += len(tokens)
    batch = np.full((len(numbers), 3), 7, dtype=np.uint32)
    write_rows(rows, dense, pool, np.array(numbers, dtype=np.int64), batch)
    for number, row in zip(numbers, batch, strict=True):
        alone = np.zeros(3, dtype=np.uint32)
        if number >= 0:
            write_row(rows, dense, pool, number, alone)
        assert np.array_equal(row, alone)
