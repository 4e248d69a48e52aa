from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
import torch

from engine import prompt_attention
from engine.attention import attend_by_repeating, causal_mask
from engine.prompt_attention import attend_prompts, block_mask, block_of

LENGTH = 330


def _numbers(dtype: torch.dtype, batch: int = 1) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(batch, heads, LENGTH, 16, generator=generator).to(dtype) for heads in (6, 2, 2)]


def _attend(
    tensors: Sequence[torch.Tensor], starts: list[int], counts: list[int], first: int = 0, **options: Any
) -> Any:
    """The positions start … start + count - 1 of each row, over keys from `first` up to the longest row's end."""
    queries, keys, values = tensors
    end, new, window = max(map(sum, zip(starts, counts, strict=True))), max(counts), options.get("window", 0)
    asked = torch.full((len(starts), queries.shape[1], new, 16), 9.0, dtype=queries.dtype)
    for row, (start, count) in enumerate(zip(starts, counts, strict=True)):
        asked[row, :, :count] = queries[row, :, start : start + count]

    def mask_of(begin: int, end: int, lowest: int) -> torch.Tensor:
        return block_mask(begin, end, lowest, window, queries.device)

    known = [each[:, :, first:end] for each in (keys, values)]
    return attend_prompts(asked, *known, starts, counts, mask_of, first=first, **options)


def test_blocks_lie_side_by_side() -> None:
    borders = [0]
    while borders[-1] < 1000:
        begin, end = block_of(borders[-1])
        assert begin == borders[-1] and all(block_of(position) == (begin, end) for position in (begin, end - 1))
        borders.append(end)
    assert borders[:6] == [0, 32, 64, 128, 256, 384]
    assert all(after - before >= 32 for before, after in pairwise(borders))


@pytest.mark.parametrize("softcap", [0.0, 3.0])
@pytest.mark.parametrize("window", [0, 50])
def test_it_is_what_the_definition_says(window: int, softcap: float) -> None:
    queries, keys, values = _numbers(torch.float32)
    mask = causal_mask(torch.arange(LENGTH).unsqueeze(0), LENGTH, window)
    expected = attend_by_repeating(queries, keys, values, mask, False, softcap=softcap)
    found = _attend((queries, keys, values), [0], [LENGTH], window=window, softcap=softcap)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("softcap", [0.0, 3.0])
@pytest.mark.parametrize("window", [0, 50])
def test_a_prompt_may_be_cut_anywhere_and_come_beside_others(window: int, softcap: float) -> None:
    tensors = _numbers(torch.bfloat16, 3)
    alone = [[each[row : row + 1] for each in tensors] for row in range(3)]
    options: dict[str, Any] = {"window": window, "softcap": softcap}
    whole = [_attend(one, [0], [LENGTH], **options)[0] for one in alone]
    for cuts in ([0, 1, 2, 33, 64, 300, LENGTH], [0, 100, 200, LENGTH], [0, 127, 129, 256, LENGTH]):
        for begin, end in pairwise(cuts):
            first = max(0, begin - window + 1) if window else 0  # what a sliding cache has forgotten
            part = _attend(alone[0], [begin], [end - begin], first, **options)
            assert torch.equal(part[0], whole[0][:, begin:end])
    starts, counts = [0, 48, 200], [40, 100, 7]
    together = _attend(tensors, starts, counts, **options)
    for row, (start, count) in enumerate(zip(starts, counts, strict=True)):
        assert torch.equal(together[row, :, :count], whole[row][:, start : start + count])
        assert not together[row, :, count:].any()


def test_tiles_of_a_block_have_the_bits_of_the_whole_block(monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = _numbers(torch.bfloat16)
    found = [_attend(tensors, [start], [count]) for start, count in ((130, 1), (140, 60), (250, 80))]
    monkeypatch.setattr(prompt_attention, "_tiles_agree", lambda *_: False)
    whole = [_attend(tensors, [start], [count]) for start, count in ((130, 1), (140, 60), (250, 80))]
    assert all(map(torch.equal, found, whole))
