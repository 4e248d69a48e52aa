from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.sampling import allowed_tokens, apply_mask, row_words
from engine.sampling import mask as mask_module
from engine.sampling.mask import best_allowed

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def bits_of(rows: np.ndarray, vocab_size: int) -> torch.Tensor:
    """The slow twin: one bit at a time."""
    return torch.tensor(
        [
            [token // 32 < len(row) and bool(int(row[token // 32]) >> (token % 32) & 1) for token in range(vocab_size)]
            for row in rows
        ]
    )


@pytest.mark.parametrize("dtype", DTYPES)
@given(
    vocab_size=st.integers(1, 200),
    words=st.integers(1, 8),
    batch=st.integers(1, 3),
    seed=st.integers(0, 2**32 - 1),
)
def test_allowed_logits_stay_bit_for_bit_and_the_others_become_minus_infinity(
    dtype: torch.dtype, vocab_size: int, words: int, batch: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 2**32, (batch, words), dtype=np.uint32)
    constrained = rng.integers(0, 2, batch).astype(bool).tolist()
    logits = torch.from_numpy(rng.normal(0, 30, (batch, vocab_size))).to(dtype)
    logits[:, 0] = torch.inf
    before = logits.clone()
    allowed = bits_of(rows, vocab_size) | ~torch.tensor(constrained).unsqueeze(-1)
    expected = torch.where(allowed, logits, -torch.inf)

    assert torch.equal(apply_mask(logits, rows, constrained), expected)
    assert torch.equal(logits, before)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_path_for_devices_agrees_with_the_path_for_the_host(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 2**32, (3, 7), dtype=np.uint32)
    logits = torch.from_numpy(rng.normal(0, 3, (3, 217))).to(dtype)
    logits[1, 3] = torch.nan
    on_host = apply_mask(logits, rows, [True, True, False])
    monkeypatch.setattr(mask_module, "_ceiling_on_host", lambda rows, _: mask_module._ceiling_on_device(rows, logits))
    on_device = apply_mask(logits, torch.from_numpy(rows.view(np.int32)), [True, True, False])
    assert torch.equal(on_host.nan_to_num(123.0), on_device.nan_to_num(123.0))


def test_rows_may_come_as_int32_tensors() -> None:
    rows = np.array([[0x8000_0001]], np.uint32)
    logits = torch.arange(32.0).reshape(1, -1)
    from_tensor = apply_mask(logits, torch.from_numpy(rows.view(np.int32)))
    assert torch.equal(from_tensor, apply_mask(logits, rows))
    assert torch.nonzero(from_tensor[0] > -torch.inf).flatten().tolist() == [0, 31]


def test_logits_past_the_end_of_the_row_are_forbidden() -> None:
    masked = apply_mask(torch.zeros(2, 70), np.full((2, 2), 0xFFFF_FFFF, np.uint32), [True, False])
    assert torch.equal(masked[0], torch.cat((torch.zeros(64), torch.full((6,), -torch.inf))))
    assert torch.equal(masked[1], torch.zeros(70))


def test_nan_stays_visible_under_the_mask() -> None:
    logits = torch.tensor([[1.0, torch.nan, 2.0]])
    assert apply_mask(logits, np.array([[0b101]], np.uint32)).isnan().tolist() == [[False, True, False]]


def test_a_row_that_is_a_view_of_a_larger_table_is_read_as_it_stands() -> None:
    table = np.arange(12, dtype=np.uint32).reshape(3, 4)
    logits = torch.zeros(3, 64)
    view = table[:, ::2]
    assert torch.equal(apply_mask(logits, view), apply_mask(logits, np.ascontiguousarray(view)))


def test_shapes_and_dtypes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\[batch, vocab\]"):
        apply_mask(torch.zeros(2, 32), np.zeros((1, 1), np.uint32))
    with pytest.raises(ValueError, match=r"\[batch, vocab\]"):
        apply_mask(torch.zeros(32), np.zeros((1, 1), np.uint32))
    with pytest.raises(ValueError, match="float64"):
        apply_mask(torch.zeros(1, 32, dtype=torch.float64), np.zeros((1, 1), np.uint32))


@given(st.sets(st.integers(0, 319)))
def test_the_ids_of_a_row_come_back_in_order(tokens: set[int]) -> None:
    row = np.zeros(10, np.uint32)
    for token in tokens:
        row[token // 32] |= np.uint32(1 << token % 32)
    assert allowed_tokens(row).tolist() == sorted(tokens)


def test_a_row_has_a_word_for_each_32_logits() -> None:
    assert [row_words(size) for size in (1, 32, 33, 49152)] == [1, 1, 2, 1536]


@given(
    vocab_size=st.integers(1, 200),
    words=st.integers(1, 8),
    batch=st.integers(1, 4),
    density=st.sampled_from([0.0, 0.02, 0.5, 1.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_best_allowed_token_is_that_of_the_masked_row(
    vocab_size: int, words: int, batch: int, density: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    rows = np.packbits(rng.random((batch, words * 32)) < density, axis=1, bitorder="little").view(np.uint32)
    constrained = rng.integers(0, 4, batch).astype(bool).tolist()
    logits = torch.from_numpy(rng.integers(-2, 3, (batch, vocab_size)).astype(np.float32))  # full of ties
    logits[rng.integers(0, 2, (batch, vocab_size)).astype(bool)] = -torch.inf
    if rng.integers(0, 2):
        logits[0, rng.integers(0, min(vocab_size, words * 32))] = rng.choice([np.nan, np.inf])
    before = logits.clone()
    masked = apply_mask(logits, rows, constrained)
    tokens, best = best_allowed(logits, rows, constrained)
    for at in range(batch):
        assert torch.equal(best[at].nan_to_num(123.0), masked[at].amax().nan_to_num(123.0))
        if torch.isfinite(best[at]):
            assert int(tokens[at]) == int(masked[at].argmax())
    assert torch.equal(logits.nan_to_num(123.0), before.nan_to_num(123.0))
