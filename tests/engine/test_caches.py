from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import engine
from engine import caches
from engine.caches import Cache
from engine.config import ModelConfig, RopeConfig
from engine.errors import CacheError, TrainingError
from engine.model import Model

CONFIG = ModelConfig(
    architecture="llama",
    vocab_size=11,
    hidden_size=8,
    layers=2,
    query_heads=2,
    kv_heads=2,
    head_dim=4,
    intermediate_size=8,
    context_length=400,
    norm_eps=1e-5,
    rope=RopeConfig(),
    tied_embeddings=True,
)


PLAIN = tuple(name for name in caches.NAMES if name != "latent")


def _write(cache: Cache, new: int, counts: list[int], fill: float) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """One step in which position t of row r of layer l gets keys fill + r + t/100 + l/10 and values the negative."""
    cache.begin(new)
    views = []
    for layer in range(CONFIG.layers):
        keys = torch.empty(cache.batch, CONFIG.kv_heads, new, CONFIG.head_dim)
        for row in range(cache.batch):
            for at in range(new):
                keys[row, :, at] = fill + row + at / 100 + layer / 10
        views.append(cache.update(layer, keys, -keys))
    cache.advance(counts)
    return views


class _Twin:
    """What a cache should hold: per row the list of numbers written and kept."""

    def __init__(self, batch: int) -> None:
        self.rows: list[list[float]] = [[] for _ in range(batch)]

    def write(self, counts: list[int], fill: float) -> None:
        for row, count in enumerate(counts):
            self.rows[row] += [fill + row + at / 100 for at in range(count)]

    def check(self, cache: Cache) -> None:
        assert cache.lengths == tuple(len(row) for row in self.rows)
        if cache.longest == 0:
            return
        views = _write(cache.fork(), 1, [0] * cache.batch, 0.0)
        for layer, (keys, values) in enumerate(views):
            assert keys.shape == values.shape == (cache.batch, CONFIG.kv_heads, cache.longest + 1, CONFIG.head_dim)
            for row, held in enumerate(self.rows):
                expected = torch.tensor(held).view(1, -1, 1).expand(CONFIG.kv_heads, -1, CONFIG.head_dim) + layer / 10
                torch.testing.assert_close(keys[row, :, : len(held)], expected, rtol=0, atol=1e-5)
                torch.testing.assert_close(values[row, :, : len(held)], -expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", PLAIN)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_a_cache_holds_what_was_committed_whatever_the_order_of_operations(name: str, data: st.DataObject) -> None:
    batch = data.draw(st.integers(1, 3), label="batch")
    cache, twin = caches.create(name, CONFIG, batch), _Twin(batch)
    for step in range(data.draw(st.integers(1, 8), label="steps")):
        operation = data.draw(st.sampled_from(["write", "write", "write", "rollback", "fork", "reset"]))
        if operation == "write":
            new = data.draw(st.integers(1, 9))
            counts = data.draw(st.lists(st.integers(0, new), min_size=batch, max_size=batch))
            _write(cache, new, counts, float(10 * step))
            twin.write(counts, float(10 * step))
        elif operation == "rollback":
            back = [data.draw(st.integers(0, len(row))) for row in twin.rows]
            cache.rollback(back)
            twin.rows = [row[: len(row) - count] for row, count in zip(twin.rows, back, strict=True)]
        elif operation == "fork":
            rows = data.draw(st.lists(st.integers(0, batch - 1), min_size=1, max_size=3))
            before, old = cache, [list(row) for row in twin.rows]
            cache, batch = cache.fork(rows), len(rows)
            twin.rows = [list(twin.rows[row]) for row in rows]
            _write(before, 2, [2] * before.batch, 999.0)
            assert before.lengths == tuple(len(row) + 2 for row in old)
        else:
            cache.reset()
            twin.rows = [[] for _ in range(batch)]
        twin.check(cache)


def test_bytes_are_those_of_the_formula() -> None:
    cache = caches.create("static", CONFIG, batch=3, dtype=torch.bfloat16, capacity=50)
    assert cache.nbytes == engine.kv_cache_bytes(2, 3, 2, 50, 4, 2) == 2 * 2 * 3 * 2 * 50 * 4 * 2
    assert engine.kv_cache_bytes(layers=32, batch=1, kv_heads=8, seq_len=8192, head_dim=128, dtype_bytes=2) == 1 << 30
    growing = caches.create("dynamic", CONFIG, batch=3, dtype=torch.bfloat16)
    assert growing.nbytes == 0
    growing.reserve(10)
    assert growing.nbytes == engine.kv_cache_bytes(2, 3, 2, growing.capacity, 4, 2)


def test_blocks_are_rounded_up() -> None:
    assert [engine.required_blocks(prompt, new, 16) for prompt, new in ((1, 0), (16, 0), (16, 1), (15, 18))] == [
        1,
        1,
        2,
        3,
    ]
    with pytest.raises(ValueError, match="block of 0 tokens"):
        engine.required_blocks(1, 1, 0)
    with pytest.raises(ValueError, match="below 0"):
        engine.kv_cache_bytes(1, 1, -1, 1, 1, 1)


def test_a_dynamic_cache_grows_and_keeps_its_contents() -> None:
    cache, twin = caches.create("dynamic", CONFIG), _Twin(1)
    for step in range(6):
        _write(cache, 60, [60], float(step))
        twin.write([60], float(step))
    twin.check(cache)
    assert 360 <= cache.capacity <= CONFIG.context_length


def test_a_full_static_cache_says_so_and_stays_as_it_was() -> None:
    cache, twin = caches.create("static", CONFIG, capacity=10), _Twin(1)
    _write(cache, 8, [8], 1.0)
    twin.write([8], 1.0)
    with pytest.raises(CacheError, match="static cache of 10 positions cannot hold 11"):
        cache.begin(3)
    assert cache.lengths == (8,)
    cache.begin(2)
    cache.advance(2)
    assert cache.lengths == (10,)


def test_a_static_cache_never_moves() -> None:
    cache = caches.create("static", CONFIG, capacity=40)
    places = set()
    for _ in range(3):
        views = _write(cache, 10, [10], 0.0)
        places.add(tuple(view.data_ptr() for pair in views for view in pair))
    assert len(places) == 1


def test_an_unknown_name_says_which_there_are() -> None:
    with pytest.raises(CacheError, match="no cache named 'holographic': choose 'dynamic', 'static'"):
        caches.create("holographic", CONFIG)


@pytest.mark.parametrize("name", PLAIN)
def test_what_was_not_held_cannot_be_taken_back(name: str) -> None:
    cache = caches.create(name, CONFIG, batch=2, capacity=20)
    _write(cache, 4, [4, 1], 0.0)
    attempts: list[Callable[[], None]] = [
        lambda: cache.rollback(2),
        lambda: cache.truncate(5),
        lambda: cache.rollback([1]),
        lambda: cache.truncate([0]),
    ]
    for wrong in attempts:
        with pytest.raises(CacheError):
            wrong()
    with pytest.raises(CacheError, match="rows"):
        cache.fork([2])
    with pytest.raises(CacheError, match="cannot commit"):
        cache.begin(1)
        cache.advance([2, 0])
    assert cache.lengths == (4, 1)


@pytest.mark.parametrize("name", PLAIN)
def test_a_step_must_be_opened_for_the_keys_it_gets(name: str) -> None:
    cache = caches.create(name, CONFIG, capacity=20)
    with pytest.raises(CacheError, match="call begin first"):
        cache.update(0, torch.zeros(1, 2, 1, 4), torch.zeros(1, 2, 1, 4))


@pytest.mark.parametrize("name", PLAIN)
def test_no_cache_keeps_autograd_history(name: str) -> None:
    cache = caches.create(name, CONFIG, capacity=20)
    cache.begin(1)
    tracked = torch.zeros(1, 2, 1, 4, requires_grad=True)
    with pytest.raises(TrainingError, match="autograd"):
        cache.update(0, tracked * 2, torch.zeros(1, 2, 1, 4))
    with pytest.raises(TrainingError, match="autograd"):
        cache.update(0, torch.zeros(1, 2, 1, 4), tracked)
    keys, values = cache.update(0, tracked.detach(), tracked.detach())
    assert not keys.requires_grad and not values.requires_grad


def test_the_model_refuses_training_mode(random_model: Model) -> None:
    with pytest.raises(TrainingError, match="only decodes"):
        random_model.train()
    with torch.enable_grad():
        assert not random_model.forward(torch.ones(1, 3, dtype=torch.int64)).requires_grad


def test_a_cache_of_another_batch_is_refused(random_model: Model) -> None:
    ids: Any = torch.ones(2, 3, dtype=torch.int64)
    with pytest.raises(CacheError, match="2 rows of input ids for a cache of 1 rows"):
        random_model.forward(ids, random_model.new_cache())
