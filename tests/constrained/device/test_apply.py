from __future__ import annotations

import importlib.util
import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from constrained.device import apply_rows
from engine.sampling import apply_mask
from tests.constrained.device.cases import DTYPES, bits, expected, make_case

ON_CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@pytest.mark.parametrize("dtype", DTYPES)
@given(
    batch=st.integers(0, 4),
    vocab=st.integers(1, 150),
    rows=st.integers(1, 3),
    words=st.integers(1, 6),
    seed=st.integers(0, 2**32 - 1),
)
def test_forbidden_tokens_become_minus_infinity_and_nothing_else_changes(
    dtype: torch.dtype, batch: int, vocab: int, rows: int, words: int, seed: int
) -> None:
    case = make_case(dtype, batch, vocab, rows, words, seed)
    wanted = bits(expected(case))
    assert apply_rows(*case) is case.logits
    assert torch.equal(bits(case.logits), wanted)


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_comes_out_is_what_the_engine_makes_of_the_rows_themselves(dtype: torch.dtype) -> None:
    case = make_case(dtype, 5, 217, 4, 7, 11)
    numbers = case.numbers.tolist()
    rows = np.stack([case.table.numpy().view(np.uint32)[max(number, 0)] for number in numbers])
    on_host = apply_mask(case.logits, rows, [number >= 0 for number in numbers])
    in_place = apply_rows(*case)
    assert torch.equal(in_place.isnan(), on_host.isnan())  # a minimum may change the bits of a NaN
    assert torch.equal(bits(in_place.nan_to_num_(0.0)), bits(on_host.nan_to_num_(0.0)))


def test_a_table_of_unsigned_words_and_logits_with_gaps_are_taken() -> None:
    case = make_case(torch.float32, 3, 70, 2, 3, 1)
    wanted = bits(expected(case))
    wide = torch.zeros(3, 140)
    wide[:, ::2] = case.logits
    apply_rows(wide[:, ::2], case.table.view(torch.uint32), case.numbers)
    assert torch.equal(bits(wide[:, ::2]), wanted)
    assert not wide[:, 1::2].any()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"logits": torch.zeros(2, 40, dtype=torch.float64)}, "torch.float64"),
        ({"logits": torch.zeros(3, 40)}, "[3, 40]"),
        ({"table": torch.zeros((0, 2), dtype=torch.int32)}, "at least one row"),
        ({"table": torch.zeros((2, 2), dtype=torch.int64)}, "torch.int64"),
        ({"table": torch.zeros((2, 2), dtype=torch.int32).T}, "contiguous"),
        ({"numbers": torch.zeros(2, dtype=torch.int64)}, "torch.int64"),
        ({"table": torch.zeros((2, 2), dtype=torch.int32, device="meta")}, "meta"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(changed: dict[str, torch.Tensor], message: str) -> None:
    case = make_case(torch.float32, 2, 40, 2, 2, 0)._replace(**changed)
    with pytest.raises(ValueError, match=re.escape(message)):
        apply_rows(*case)


@ON_CUDA
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("words", [1, 64, 100])
def test_the_device_gives_the_bits_of_the_host(dtype: torch.dtype, words: int) -> None:
    if importlib.util.find_spec("triton") is None:
        pytest.skip("no Triton")
    case = make_case(dtype, 7, 3001, 5, words, words, "cuda")
    wanted = bits(expected(case))
    assert torch.equal(bits(apply_rows(*case)), wanted)
