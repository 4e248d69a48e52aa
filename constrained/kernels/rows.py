"""Rows written out: a dense base with the listed tokens flipped."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from constrained.kernels.jit import inlined
from constrained.kernels.tables import R_DENSE, R_IDS, R_IDS_END, R_MORE, R_MORE_END

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt32 = NDArray[np.uint32]

GONE = -2
"""The number of a row that tables of before held."""


@inlined
def expand_row(rows: Int32, dense: UInt32, pool: Int32, number: int, row: UInt32) -> None:
    """Write row `number` into `row`, uint32[ceil(vocabulary size / 32)]: token i is bit i % 32 of word i // 32."""
    base = rows[number, R_DENSE]
    if base >= 0:
        for word in range(dense.shape[1]):
            row[word] = dense[base, word]
    else:
        for word in range(dense.shape[1]):
            row[word] = 0
    for at in range(rows[number, R_IDS], rows[number, R_IDS_END]):
        token = pool[at]
        row[token >> 5] ^= np.uint32(1) << np.uint32(token & 31)
    for at in range(rows[number, R_MORE], rows[number, R_MORE_END]):
        token = pool[at]
        row[token >> 5] ^= np.uint32(1) << np.uint32(token & 31)


@inlined
def expand_rows(rows: Int32, dense: UInt32, pool: Int32, first: int, numbers: Int64, batch: UInt32) -> int:
    """Write row `numbers[i]` into `batch[i]`, uint32[len(numbers), words]; where it is -1 the row becomes empty.

    The tables begin with row `first`.  Numbers before it become GONE and their places of the batch stay as they are; how
    many there are is returned.
    """
    gone = 0
    for place in range(numbers.shape[0]):
        if numbers[place] < 0:
            for word in range(batch.shape[1]):
                batch[place, word] = 0
        elif numbers[place] < first:
            numbers[place] = GONE
            gone += 1
        else:
            expand_row(rows, dense, pool, numbers[place] - first, batch[place])
    return gone
