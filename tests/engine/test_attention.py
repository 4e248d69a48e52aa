from __future__ import annotations

from typing import Any

import pytest
import torch

from engine import blocks
from engine.attention import attend, attend_by_repeating, causal_mask, which
from engine.config import ModelConfig
from engine.errors import EngineError
from engine.model import Model


def _attend_by_loops(queries: Any, keys: Any, values: Any, visible: Any) -> torch.Tensor:
    """The definition for one query at a time, each query head reading key head h // group."""
    batch, heads, new, size = queries.shape
    group = heads // keys.shape[1]
    mixed = torch.zeros_like(queries)
    for row in range(batch):
        for head in range(heads):
            for at in range(new):
                seen = [slot for slot in range(keys.shape[2]) if visible(row, at, slot)]
                chosen = keys[row, head // group, seen]
                weights = (chosen @ queries[row, head, at] / size**0.5).softmax(0)
                mixed[row, head, at] = weights @ values[row, head // group, seen]
    return mixed


@pytest.mark.parametrize(("query_heads", "kv_heads"), [(6, 2), (4, 4), (4, 1), (9, 3)])
@pytest.mark.parametrize("backend", ["sdpa", "math"])
def test_query_heads_share_the_key_heads_of_their_group(query_heads: int, kv_heads: int, backend: Any) -> None:
    generator = torch.Generator().manual_seed(query_heads)
    queries = torch.randn(2, query_heads, 3, 8, generator=generator)
    keys, values = (torch.randn(2, kv_heads, 7, 8, generator=generator) for _ in range(2))
    held = [4, 1]
    positions = torch.tensor([[4, 5, 6], [1, 2, 3]])
    expected = _attend_by_loops(queries, keys, values, lambda row, at, slot: slot <= held[row] + at)
    mixed = attend(queries, keys, values, causal_mask(positions, 7), causal=False, backend=backend)
    torch.testing.assert_close(mixed, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("new", [1, 2, 17])
def test_grouped_attention_equals_the_repeating_reference(new: int) -> None:
    generator = torch.Generator().manual_seed(new)
    queries = torch.randn(3, 9, new, 64, generator=generator)
    keys, values = (torch.randn(3, 3, new, 64, generator=generator) for _ in range(2))
    for causal in (False, True):
        torch.testing.assert_close(
            attend(queries, keys, values, None, causal),
            attend_by_repeating(queries, keys, values, None, causal),
            rtol=1e-4,
            atol=1e-5,
        )


def test_a_mask_shows_each_position_itself_and_all_before() -> None:
    mask = causal_mask(torch.tensor([[3, 4], [0, 1]]), 6)
    assert mask.shape == (2, 1, 2, 6)
    assert mask[:, 0].int().tolist() == [
        [[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 0]],
        [[1, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0]],
    ]


@pytest.mark.parametrize("new", [1, 17])
def test_which_says_what_computed_the_last_attention(new: int) -> None:
    queries = torch.randn(1, 6, new, 16)
    keys = torch.randn(1, 2, 30, 16)
    attend(queries, keys, keys, None, False)
    assert which() == "flash"
    attend(queries, keys, keys, None, False, "math")
    assert which() == "reference"
    attend(queries, keys, keys, None, False, softcap=2.0)
    assert which() == "products"
    attend(queries, keys, keys[..., :7], None, False)  # no fused kernel takes values of another width on a CPU
    assert which() == "products"


def test_flash_is_pinned_or_refused() -> None:
    queries, keys = torch.randn(2, 6, 3, 16), torch.randn(2, 2, 9, 16)
    mask = causal_mask(torch.tensor([[4, 5, 6], [1, 2, 3]]), 9)
    torch.testing.assert_close(
        attend(queries, keys, keys, mask, False, "flash"), attend_by_repeating(queries, keys, keys, mask, False)
    )
    assert which() == "flash"
    with pytest.raises(EngineError, match="the kernel has no soft cap of scores"):
        attend(queries, keys, keys, mask, False, "flash", softcap=2.0)
    with pytest.raises(EngineError, match=r"'flash': the kernel does not run on cpu for torch\.float32"):
        attend(queries, keys, keys[..., :7], mask, False, "flash")


def test_an_unknown_backend_is_refused() -> None:
    x = torch.zeros(1, 1, 1, 2)
    with pytest.raises(EngineError, match="unknown attention backend 'flash9': choose sdpa, math, flash, paged"):
        attend(x, x, x, None, False, "flash9")  # type: ignore[arg-type]


@pytest.mark.parametrize("cache_name", ["dynamic", "static"])
def test_keys_and_mask_are_as_long_as_cached_plus_new_at_every_call(
    random_model: Model, cache_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[int, int, int | None, bool]] = []

    def watch(
        queries: Any, keys: Any, values: Any, mask: Any, causal: bool, backend: Any, **options: Any
    ) -> torch.Tensor:
        assert keys.shape == values.shape
        calls.append((queries.shape[2], keys.shape[2], None if mask is None else mask.shape[-1], causal))
        return attend(queries, keys, values, mask, causal, backend, **options)

    monkeypatch.setattr(blocks, "attend", watch)
    cache = random_model.new_cache(cache_name, batch=2, capacity=64)
    layers = random_model.config.layers
    for new, counts in ((5, (5, 5)), (1, (1, 1)), (4, (4, 2)), (1, (1, 1)), (3, (0, 3)), (1, (1, 1)), (1, (1, 0))):
        cached, uniform = cache.longest, cache.is_uniform
        calls.clear()
        random_model.forward(torch.ones(2, new, dtype=torch.int64), cache, lengths=counts)
        assert len(calls) == layers
        for queries, keys, mask, causal in calls:
            assert (queries, keys) == (new, cached + new)
            if mask is None:
                assert uniform and (new == 1 or (causal and cached == 0))
            else:
                assert mask == cached + new and not causal


def test_heads_that_do_not_divide_are_refused() -> None:
    config = {"model_type": "llama", "vocab_size": 9, "hidden_size": 48, "intermediate_size": 8}
    config |= {"num_hidden_layers": 1, "num_attention_heads": 6, "num_key_value_heads": 4}
    with pytest.raises(EngineError, match="6 query heads cannot share 4"):
        ModelConfig.from_huggingface(config | {"max_position_embeddings": 16})
