from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from engine import decode_attention
from engine.attention import attend_by_repeating, causal_mask
from engine.decode_attention import Places, attend_rows


def attend_alike(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, start: int, *, first: int = 0, **options: Any
) -> torch.Tensor:
    """`attend_rows` of one row."""
    places = Places.in_rows(1, 0, first, first + keys.shape[2])
    return attend_rows(queries, keys, values, places, [start], [queries.shape[2]], **options)


HEADS = [(9, 3, 64, 64), (4, 4, 10, 6), (4, 1, 33, 16), (2, 2, 3, 5)]


@pytest.mark.parametrize("window", [0, 1, 7, 50])
@pytest.mark.parametrize(("query_heads", "kv_heads", "width", "value_width"), HEADS)
def test_every_query_gets_what_it_gets_alone_and_what_the_definition_says(
    query_heads: int, kv_heads: int, width: int, value_width: int, window: int
) -> None:
    generator = torch.Generator().manual_seed(width + window)

    def numbers(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator).bfloat16()

    keys, values = numbers(1, kv_heads, 200, width), numbers(1, kv_heads, 200, value_width)
    for start in (0, 1, 2, 3, 5, 15, 16, 62, 63, 64, 65, 126, 130, 180):
        for new in (1, 2, 5, 16):
            queries = numbers(1, new, query_heads + 2, width)[:, :, :query_heads].transpose(1, 2)

            def run(at: int, count: int, first: int) -> torch.Tensor:
                end = start + at + count  # noqa: B023 - called within the loop
                return attend_alike(
                    queries[:, :, at : at + count], keys[:, :, first:end], values[:, :, first:end], start + at,  # noqa: B023
                    first=first, window=window,
                )  # fmt: skip

            together = run(0, new, 0)
            if window:  # what a sliding cache has forgotten is not to be missed
                first = max(0, start + 1 - window - 3)
                assert torch.equal(run(0, new, first), together)
            assert torch.equal(torch.cat([run(at, 1, 0) for at in range(new)], dim=2), together)
            end = start + new
            mask = causal_mask(torch.arange(start, end).unsqueeze(0), end, window)
            expected = attend_by_repeating(queries, keys[:, :, :end], values[:, :, :end], mask, False)
            torch.testing.assert_close(together.float(), expected.float(), rtol=1e-2, atol=1e-2)


def test_scores_that_are_far_apart_neither_overflow_nor_vanish() -> None:
    keys = torch.zeros(1, 1, 40, 4, dtype=torch.bfloat16)
    keys[0, 0, :, 0] = torch.linspace(-300, 300, 40).bfloat16()
    values = torch.arange(40, dtype=torch.float32).view(1, 1, 40, 1).bfloat16()
    for sign, best in ((1.0, 39.0), (-1.0, 0.0)):
        queries = torch.tensor([sign * 100, 0, 0, 0]).bfloat16().view(1, 1, 1, 4)
        assert attend_alike(queries, keys, values, 39, scale=1.0).item() == pytest.approx(best, abs=1e-30)
    assert attend_alike(torch.zeros(1, 1, 1, 4).bfloat16(), keys, values, 39).item() == 19.5


def _rows(counts: list[int], starts: list[int], new: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    batch, slots = len(counts), max(starts) + new
    shapes = (batch, 6, new, 16), (batch, 2, slots, 16), (batch, 2, slots, 24)
    queries, keys, values = (torch.randn(*shape, generator=generator).bfloat16() for shape in shapes)
    return queries, keys, values


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("window", [0, 9])
def test_rows_of_any_lengths_get_what_each_gets_alone_however_they_are_divided(
    threads: int, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts, counts = [0, 3, 64, 130, 17], [5, 1, 2, 5, 3]
    queries, keys, values = _rows(counts, starts, 5)
    monkeypatch.setattr(decode_attention, "_SHARE", 1000)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    places = Places.in_rows(5, keys.stride(0) // keys.stride(2), 0, keys.shape[2])
    # Values have another width than keys, and as many slots.
    found = attend_rows(queries, keys, values, places, starts, counts, window=window)
    for row, (start, count) in enumerate(zip(starts, counts, strict=True)):
        own = [x[row : row + 1, :, : start + count] for x in (keys, values)]
        alone = attend_alike(queries[row : row + 1, :, :count], *own, start, window=window)
        assert torch.equal(found[row : row + 1, :, :count], alone)
        assert not found[row, :, count:].any()


def test_positions_are_read_where_they_lie() -> None:
    queries, keys, values = _rows([2, 2], [30, 11], 2)
    order = torch.randperm(80, generator=torch.Generator().manual_seed(2))
    places = Places(order[:64].numpy(), np.array([0, 32]))
    pools = []
    for tensor in (keys, values):
        pool = torch.zeros(1, 2, 80, tensor.shape[-1], dtype=torch.bfloat16)
        pool[0, :, order[:64]] = tensor.transpose(0, 1).flatten(1, 2)
        pools.append(pool)
    found = attend_rows(queries, *pools, places, [30, 11], [2, 2])
    lying = Places.in_rows(2, 64, 0, 32)
    assert torch.equal(found, attend_rows(queries, keys, values, lying, [30, 11], [2, 2]))


def test_a_row_that_is_not_a_number_spoils_no_other() -> None:
    starts, counts = [5, 6, 9], [1, 1, 1]
    queries, keys, values = _rows(counts, starts, 1)
    places = Places.in_rows(3, keys.stride(0) // keys.stride(2), 0, keys.shape[2])
    expected = attend_rows(queries, keys, values, places, starts, counts)
    for tensor in (queries, keys, values):
        tensor[0] = float("nan")
    found = attend_rows(queries, keys, values, places, starts, counts)
    assert found[0].isnan().all() and torch.equal(found[1:], expected[1:])
