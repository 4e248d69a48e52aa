"""Reserved tables."""

from __future__ import annotations

import os

import numpy as np
import pytest

from constrained.memory import reserved


@pytest.mark.parametrize("shape", [(0,), (5,), (1 << 20, 6)])
def test_reserved_tables_are_zeros_that_can_be_written(shape: tuple[int, ...]) -> None:
    table = reserved(shape, np.int32)
    assert table.shape == shape and table.dtype == np.int32 and table.flags.c_contiguous
    assert not table[:3].any() and not table[-3:].any()
    table[-1:] = 7
    assert (table[-1:] == 7).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_forked_process_has_tables_of_its_own() -> None:
    table = reserved((1_000,), np.int64)
    table[0] = 1
    child = os.fork()
    if not child:
        table[0] = 2
        os._exit(int(table[0]) - 2)
    assert os.waitpid(child, 0)[1] == 0
    assert table[0] == 1
