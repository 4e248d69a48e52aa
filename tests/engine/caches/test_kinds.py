"""What each kind of cache does besides holding what it was given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from engine import caches
from engine.caches import BlockPool, DynamicCache, PagedCache, QuantizedCache, SlidingCache
from engine.caches.offloaded import OffloadedCache
from engine.caches.plan import latent_cache_bytes, quantized_kv_bytes
from engine.caches.quantized import FP8_MOST, GROUP, Packed
from engine.errors import CacheError
from engine.loading import load_model
from engine.model import Model
from engine.quality import calibrate_scales


def _ids(length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, 97, (1, length), generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def windowed(tmp_path_factory: pytest.TempPathFactory, write_checkpoint: Callable[..., Any]) -> Model:
    folder = tmp_path_factory.mktemp("windowed")
    write_checkpoint(folder, "Gemma2Config", {"head_dim": 16, "sliding_window": 12, "num_hidden_layers": 4})
    return load_model(folder, device="cpu", dtype="float32")


@pytest.fixture(scope="module")
def latent(tmp_path_factory: pytest.TempPathFactory, write_checkpoint: Callable[..., Any]) -> Model:
    folder = tmp_path_factory.mktemp("latent")
    changes = {"num_key_value_heads": 6, "kv_lora_rank": 16, "q_lora_rank": None, "qk_nope_head_dim": 8}
    changes |= {"qk_rope_head_dim": 4, "v_head_dim": 8, "first_k_dense_replace": 3}
    write_checkpoint(folder, "DeepseekV2Config", changes)
    return load_model(folder, device="cpu", dtype="float32")


def test_a_row_begins_with_what_an_earlier_one_has_left(random_model: Model) -> None:
    pool = BlockPool(random_model.config, random_model.device, random_model.dtype, block_size=8)
    prompt = _ids(30)
    first = random_model.new_cache("paged", pool=pool)
    assert isinstance(first, PagedCache)
    expected = random_model.forward(prompt, first)
    first.remember(0, prompt[0].tolist())
    first.close()
    assert pool.manager.used == 0
    second = random_model.new_cache("paged", pool=pool)
    assert isinstance(second, PagedCache)
    assert second.reuse(0, prompt[0].tolist()) == 24
    assert second.lengths == (24,)
    torch.testing.assert_close(random_model.forward(prompt[:, 24:], second), expected, rtol=1e-4, atol=1e-4)
    with pytest.raises(CacheError, match="only an empty row"):
        second.reuse(0, [1, 2])
    pool.manager.check(second.tables)


def test_a_whole_prompt_that_is_known_leaves_its_last_token_to_compute(random_model: Model) -> None:
    cache = random_model.new_cache("paged", block_size=8)
    assert isinstance(cache, PagedCache)
    prompt = _ids(16)[0].tolist()
    random_model.forward(torch.tensor([prompt]), cache)
    cache.remember(0, prompt)
    other = random_model.new_cache("paged", pool=cache.pool)
    assert isinstance(other, PagedCache) and other.reuse(0, prompt) == 8


def test_forks_share_blocks_and_write_into_their_own(random_model: Model) -> None:
    cache = random_model.new_cache("paged", block_size=8)
    assert isinstance(cache, PagedCache)
    random_model.forward(_ids(20), cache)
    manager = cache.pool.manager
    assert manager.used == 3
    forks = cache.fork([0, 0])
    assert manager.used == 3
    ends = torch.tensor([[5], [9]])
    found = random_model.forward(ends, forks)
    assert manager.used == 5  # a copy of the last block for each
    for row in range(2):
        alone = random_model.forward(torch.cat((_ids(20), ends[row : row + 1]), dim=1))
        torch.testing.assert_close(found[row], alone[0], rtol=1e-4, atol=1e-4)
    again = random_model.forward(ends[:1], cache)
    torch.testing.assert_close(again[0], found[0], rtol=1e-4, atol=1e-4)
    del forks
    assert manager.used == 3
    manager.check(cache.tables)


def test_a_pool_of_a_fixed_size_says_when_it_is_full(random_model: Model) -> None:
    cache = random_model.new_cache("paged", batch=2, capacity=16)
    random_model.forward(_ids(16).expand(2, -1), cache)
    with pytest.raises(CacheError, match="2 blocks are needed and 0 of 2 are free"):
        random_model.forward(torch.tensor([[1], [2]]), cache)
    assert cache.lengths == (16, 16)
    cache.rollback([8, 16])
    random_model.forward(torch.tensor([[1], [2]]), cache)
    assert cache.lengths == (9, 1)


def test_a_sliding_cache_stops_growing_where_windows_end(windowed: Model) -> None:
    ids = _ids(150, 3)
    whole = windowed.forward(ids, logits="all")
    cache = windowed.new_cache("sliding", slack=4)
    assert isinstance(cache, SlidingCache)
    for at in range(0, 150, 5):
        part = windowed.forward(ids[:, at : at + 5], cache, logits="all")
        torch.testing.assert_close(part, whole[:, at : at + 5], rtol=1e-4, atol=1e-4)
    windows = [windowed.config.window(layer) for layer in range(4)]
    assert windows == [12, 0, 12, 0]
    for window, keys in zip(windows, cache._keys, strict=True):
        assert keys.shape[2] >= 150 if not window else keys.shape[2] <= 12 + 4 + 5 + 16
    cache.rollback(3)
    part = windowed.forward(ids[:, 147:148], cache)
    torch.testing.assert_close(part, whole[:, 147], rtol=1e-4, atol=1e-4)
    with pytest.raises(CacheError, match="cannot go back to 20 positions"):
        cache.truncate(20)
    assert cache.lengths == (148,)
    cache.reset()
    torch.testing.assert_close(windowed.forward(ids[:, :9], cache), whole[:, 8], rtol=1e-4, atol=1e-4)


def test_rows_of_different_lengths_slide_together(windowed: Model) -> None:
    rows = [_ids(60, 5), _ids(60, 6)]
    whole = [windowed.forward(row, logits="all")[0] for row in rows]
    cache = windowed.new_cache("sliding", batch=2, slack=2)
    prompt = torch.cat((rows[0][:, :30], rows[1][:, :30]))
    windowed.forward(prompt, cache, lengths=[30, 11])
    for step in range(25):
        new = torch.stack((rows[0][0, 30 + step], rows[1][0, 11 + step])).unsqueeze(1)
        found = windowed.forward(new, cache)
        expected = torch.stack((whole[0][30 + step], whole[1][11 + step]))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_an_offloaded_cache_keeps_two_layers_on_the_device(random_model: Model) -> None:
    cache = random_model.new_cache("offloaded")
    assert isinstance(cache, OffloadedCache)
    random_model.forward(_ids(40), cache)
    assert cache.device_nbytes * random_model.config.layers == cache.nbytes * 2


def test_latents_are_cached_compressed(latent: Model) -> None:
    cache = latent.new_cache()
    assert cache.name == "latent"
    latent.forward(_ids(10), cache)
    assert cache.nbytes == latent.config.kv_values_per_token * cache.capacity * 4 == 3 * (16 + 4) * cache.capacity * 4


@pytest.mark.parametrize("name", ["latent", "static", "paged", "offloaded", "sliding"])
def test_every_cache_of_latents_gives_the_uncached_logits(latent: Model, name: str) -> None:
    ids = _ids(24, 8)
    whole = latent.forward(ids, logits="all")
    cache = latent.new_cache(name, capacity=32)
    latent.forward(ids[:, :15], cache)
    cache.rollback(3)
    cache = cache.fork()
    for at in range(12, 24):
        torch.testing.assert_close(latent.forward(ids[:, at : at + 1], cache), whole[:, at], rtol=1e-4, atol=1e-4)


def test_what_a_kind_cannot_do_is_said(random_model: Model, latent: Model) -> None:
    with pytest.raises(CacheError, match="a latent cache needs latent attention, which llama models do not have"):
        random_model.new_cache("latent")
    with pytest.raises(CacheError, match="keys and values are one there"):
        latent.new_cache("quantized", unchecked=True)
    with pytest.raises(CacheError, match="a dynamic cache has no option 'bits': it takes none"):
        random_model.new_cache("dynamic", bits=4)
    with pytest.raises(CacheError, match="a paged cache has no option 'slack': it takes block_size, pool"):
        random_model.new_cache("paged", slack=4)
    with pytest.raises(CacheError, match="quantized cache of 3 bits: choose 8, 4 or 'fp8'"):
        random_model.new_cache("quantized", unchecked=True, bits=3)
    with pytest.raises(CacheError, match="blocks of 0 positions"):
        random_model.new_cache("paged", block_size=0)


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("dimension", [2, 3])
def test_no_packed_number_is_off_by_more_than_half_a_step(bits: Any, dimension: int) -> None:
    x = torch.randn(2, 3, GROUP, 16, generator=torch.Generator().manual_seed(bits)) * 5
    packed = Packed.of(x, dimension, bits)
    step = (x.amax(dimension, keepdim=True) - x.amin(dimension, keepdim=True)) / (2**bits - 1)
    assert ((packed.numbers() - x).abs() <= 0.501 * step + 1e-6).all()
    assert packed.codes.nbytes == x.numel() * bits // 8


def test_fp8_rounds_to_three_bits_behind_the_first_and_cuts_off_what_is_too_large() -> None:
    x = torch.randn(2, 3, GROUP, 16, generator=torch.Generator().manual_seed(2)) * 5
    packed = Packed.of_fp8(x, 0.5)
    near = packed.numbers() - x
    assert (near.abs() <= x.abs() / 16 + 0.5 * 2**-10).all() and near.abs().max() > 0.05
    assert packed.codes.nbytes == x.numel()
    assert Packed.of_fp8(torch.full((1, 1, 1, 2), 1e6), 2.0).numbers().unique().tolist() == [2 * FP8_MOST]


def test_calibrated_scales_are_those_of_the_largest_keys_and_values(random_model: Model) -> None:
    ids = _ids(40, 5)
    scales = calibrate_scales(random_model, ids[0].tolist())
    cache = random_model.new_cache("dynamic")
    random_model.forward(ids, cache)
    assert isinstance(cache, DynamicCache) and len(scales) == random_model.config.layers
    for layer, pair in enumerate(scales):
        for scale, held in zip(pair, (cache._keys[layer], cache._values[layer]), strict=True):
            assert scale * FP8_MOST == pytest.approx(float(held[:, :, :40].abs().amax()), rel=1e-5)
    with pytest.raises(CacheError, match="scales of 1 layers for a cache of 'fp8' bits in 3 layers"):
        random_model.new_cache("quantized", unchecked=True, bits="fp8", scales=((1.0, 1.0),))
    with pytest.raises(CacheError, match="without a tokenizer"):
        calibrate_scales(random_model)


def test_scales_that_fit_are_better_than_such_that_cut_off(random_model: Model) -> None:
    ids = _ids(150, 4)
    exact = random_model.forward(ids, logits="all")[0].softmax(-1)
    off = {}
    for name, scales in (("fit", calibrate_scales(random_model, ids[0].tolist())), ("cut off", ((1e-5, 1e-5),) * 3)):
        cache = random_model.new_cache("quantized", unchecked=True, bits="fp8", tail=0, scales=scales)
        rows = [random_model.forward(ids[:, at : at + 10], cache, logits="all")[0] for at in range(0, 150, 10)]
        off[name] = float((torch.cat(rows).softmax(-1) - exact).abs().sum(-1).mean())
    assert 10 * off["fit"] < off["cut off"], off


@pytest.mark.parametrize(("bits", "near"), [(8, 0.02), (4, 0.4), ("fp8", 0.2)])
def test_a_quantized_cache_stays_close_and_leaves_the_tail_as_it_was(
    random_model: Model, bits: Any, near: float
) -> None:
    ids = _ids(150, 4)
    exact = random_model.forward(ids, logits="all")[0].softmax(-1)
    cache = random_model.new_cache("quantized", unchecked=True, bits=bits, tail=32)
    assert isinstance(cache, QuantizedCache)
    rows = []
    for at in range(0, 150, 10):
        rows.append(random_model.forward(ids[:, at : at + 10], cache, logits="all")[0])
        packed = cache.packed_positions
        assert packed % GROUP == 0 and (at + 10 < 64 or 32 <= at + 10 - packed < 32 + GROUP)
    off = (torch.cat(rows).softmax(-1) - exact).abs().sum(-1)
    assert off[:60].max() < 1e-4 < off[80:].max() and off.mean() < near


@pytest.mark.parametrize(("bits", "near"), [(8, 0.05), ("fp8", 0.4)])
def test_a_quantized_cache_can_go_back_into_what_is_packed(random_model: Model, bits: Any, near: float) -> None:
    ids = _ids(120, 9)
    exact = random_model.forward(ids, logits="all")[0].softmax(-1)
    cache = random_model.new_cache("quantized", unchecked=True, bits=bits, tail=0)
    assert isinstance(cache, QuantizedCache)
    random_model.forward(ids[:, :110], cache)
    assert cache.packed_positions == 96
    cache.truncate(70)
    assert cache.packed_positions == 64 and cache.lengths == (70,)
    fork = cache.fork([0, 0])
    for each in (cache, fork):
        new = ids[:, 70:100].expand(each.batch, -1)
        found = random_model.forward(new, each)[-1].softmax(-1)
        assert (found - exact[99]).abs().sum() < near
    assert cache.packed_positions == 96


def test_a_quantized_cache_is_smaller(random_model: Model) -> None:
    sizes = {}
    for name, options in (
        ("dynamic", {}),
        ("quantized", {"unchecked": True}),
        ("four", {"unchecked": True, "bits": 4}),
    ):
        cache = random_model.new_cache("quantized" if name == "four" else name, **options)
        random_model.forward(_ids(250), cache)
        sizes[name] = cache.nbytes / cache.capacity
    assert sizes["four"] < sizes["quantized"] < 0.75 * sizes["dynamic"]


@pytest.mark.parametrize("bits", [8, 4])
def test_the_bytes_of_a_quantized_cache_are_those_of_the_plan(random_model: Model, bits: Any) -> None:
    cache = random_model.new_cache("quantized", unchecked=True, bits=bits)
    assert isinstance(cache, QuantizedCache)
    random_model.forward(_ids(250), cache)
    config = random_model.config
    spare = cache.capacity - 250
    unused = 2 * config.layers * config.kv_heads * spare * config.head_dim * 4
    planned = quantized_kv_bytes(config.layers, 1, config.kv_heads, 250, config.head_dim, bits, 4)
    assert cache.nbytes - unused == planned


def test_the_bytes_of_latents_are_those_of_the_plan(latent: Model) -> None:
    cache = latent.new_cache("static", capacity=50)
    assert cache.nbytes == latent_cache_bytes(3, 1, 16, 4, 50, 4)
    with pytest.raises(ValueError, match="below 0"):
        latent_cache_bytes(3, 1, -1, 4, 50, 4)
    with pytest.raises(ValueError, match="below 0"):
        quantized_kv_bytes(3, 1, 2, -1, 50, 4)


def test_a_lossy_cache_is_checked_before_it_is_used(random_model: Model) -> None:
    with pytest.raises(CacheError, match="the model came without a tokenizer: pass unchecked=True"):
        random_model.new_cache("quantized")


@pytest.mark.slow
def test_the_default_model_bears_eight_bits(default_model: Model) -> None:
    cache = default_model.new_cache("quantized")
    assert cache.name == "quantized"
    (quality,) = default_model._checked.values()
    assert quality.passes and quality.agreement > 0.95


def test_names_are_those_that_can_be_made(random_model: Model) -> None:
    assert caches.NAMES == ("dynamic", "static", "paged", "sliding", "offloaded", "quantized", "latent")
