"""The masks of many sequences in one call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from constrained.kernels import handles as h
from constrained.matcher import Matcher


def fill_masks(matchers: Sequence[Matcher], rows: NDArray[np.uint32]) -> None:
    """The masks of many sequences, `rows` uint32[len(matchers), words], in one call.

    Rows that exist are written by one kernel, which holds no interpreter lock; those that do not, and those that a budget
    or the text has a say in, are filled afterwards, one by one.

    Raises:
        ValueError: `rows` does not have a row for each matcher, or rows of another length.
        LimitExceeded: as `Matcher.fill_mask`; what is in `rows` is not to be used then.
    """
    if len(matchers) != len(rows):
        raise ValueError(f"{len(rows)} rows for {len(matchers)} matchers")
    if not len(matchers):
        return
    store = matchers[0].store
    if rows.shape[1:] != store.row_shape:
        raise ValueError(f"rows of shape {rows.shape}; uint32{[len(matchers), *store.row_shape]} are needed")
    for place in fill_known_masks(matchers, rows):
        matchers[place].fill_mask(rows[place])


def fill_known_masks(matchers: Sequence[Matcher], rows: NDArray[np.uint32]) -> Sequence[int]:
    """The masks that nothing is to be made for, `rows` uint32[len(matchers), words]; the places of the others."""
    store = matchers[0].store
    if not (rows.shape[1:] == store.row_shape and rows.flags.c_contiguous and rows.dtype == np.uint32):
        return range(len(matchers))
    places = np.array([matcher.address for matcher in matchers], dtype=np.int64)
    count = h.write_batch(store.rows.handles, places, store.identity, rows)
    found: list[int] = places[:count].tolist()
    return found
