from __future__ import annotations

import pytest
import torch

from engine.attention import attend_alone, attend_by_repeating, causal_mask, which
from engine.decode_attention import attend_alike

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


def test_what_the_kernel_does_not_take_goes_query_by_query() -> None:
    generator = torch.Generator().manual_seed(1)
    queries = torch.randn(1, 4, 3, 8, generator=generator)
    keys, values = (torch.randn(1, 2, 9, 8, generator=generator) for _ in range(2))
    mask = causal_mask(torch.arange(6, 9).unsqueeze(0), 9)
    expected = attend_by_repeating(queries, keys, values, mask, False)
    for softcap in (0.0, 2.0):
        found = attend_alone(queries, keys, values, mask, "sdpa", start=6, softcap=softcap)
        assert which() == ("products" if softcap else "flash")
        expected = attend_by_repeating(queries, keys, values, mask, False, softcap=softcap)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    halves = [x.bfloat16() for x in (queries, keys, values)]
    together = attend_alone(*halves, mask, "sdpa", start=6, softcap=2.0)
    for at in range(3):
        one = attend_alone(
            halves[0][:, :, at : at + 1], halves[1][:, :, : 7 + at], halves[2][:, :, : 7 + at], None, "sdpa",
            start=6 + at, softcap=2.0,
        )  # fmt: skip
        assert torch.equal(one, together[:, :, at : at + 1])
    assert attend_alone(*halves, mask, "sdpa", start=6).shape == (1, 4, 3, 8) and which() == "alike"
