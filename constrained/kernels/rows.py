"""Rows written out: a dense base with the listed tokens flipped."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from constrained.kernels.jit import inlined
from constrained.kernels.tables import R_DENSE, R_IDS, R_IDS_END, R_MORE, R_MORE_END

Int32 = NDArray[np.int32]
UInt32 = NDArray[np.uint32]


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
