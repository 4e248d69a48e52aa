"""Decoding with fixed shapes: the same logits, one program for each bucket."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from engine import generate
from engine.caches import StaticCache
from engine.config import ExpertsConfig
from engine.errors import CacheError, ContextError
from engine.fixed_step import bucket_of
from engine.model import Model


@pytest.fixture
def small_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.fixed_step.FIRST_BUCKET", 16)


def _ids(batch: int, length: int) -> torch.Tensor:
    return torch.randint(3, 97, (batch, length), generator=torch.Generator().manual_seed(length))


def _cache(model: Model, runner: str, batch: int = 1, capacity: int = 100) -> StaticCache:
    cache = model.new_cache("static", batch, capacity, runner=runner)
    assert isinstance(cache, StaticCache)
    return cache


def test_buckets_double_up_to_the_capacity() -> None:
    found = [bucket_of(n, 2000) for n in (1, 256, 257, 512, 1024, 1025, 2000)]
    assert found == [256, 256, 512, 512, 1024, 2000, 2000]


@pytest.mark.parametrize("runner", ["eager", "compile"])
def test_fixed_steps_give_the_logits_of_ordinary_ones(
    random_model: Model, small_buckets: None, runner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if runner == "compile":
        # What is tested is that the step is one graph that depends on no length; the graph is run as it is.
        monkeypatch.setattr("engine.fixed_step.compile_graph", lambda graph, inputs: graph.forward)
        torch._dynamo.reset()
    plain, fixed = _cache(random_model, "plain", 3), _cache(random_model, runner, 3)
    prompt, counts = _ids(3, 12), [12, 4, 7]
    for cache in (plain, fixed):
        random_model.forward(prompt, cache, lengths=counts)
    for at in range(40):
        token = _ids(3, 41)[:, at : at + 1]
        expected = random_model.forward(token, plain)
        torch.testing.assert_close(random_model.forward(token, fixed), expected, rtol=1e-4, atol=1e-4)
        if at == 20:
            for cache in (plain, fixed):
                cache.rollback([5, 0, 9])
    assert fixed.lengths == plain.lengths and plain.decoder is None
    assert fixed.decoder is not None and fixed.decoder.steps == 40
    if runner == "compile":
        assert fixed.decoder.programs == {16: 1, 32: 1, 64: 1}


@pytest.mark.parametrize("kind", [("Gemma2Config", {"head_dim": 16, "sliding_window": 12}), ("Qwen3Config", {})])
def test_windows_and_norms_are_kept(
    tmp_path: Any, write_checkpoint: Any, small_buckets: None, kind: tuple[str, dict[str, Any]]
) -> None:
    from engine.loading import load_model

    write_checkpoint(tmp_path, *kind)
    model = load_model(tmp_path, device="cpu", dtype="float32")
    plain, fixed = _cache(model, "plain"), _cache(model, "eager")
    for cache in (plain, fixed):
        model.forward(_ids(1, 20), cache)
    for at in range(20):
        token = _ids(1, 21)[:, at : at + 1]
        torch.testing.assert_close(model.forward(token, fixed), model.forward(token, plain), rtol=1e-4, atol=1e-4)


def test_a_generation_over_fixed_steps_is_the_same_text(random_model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = generate(random_model, [5, 6, 7], max_new_tokens=30, eos_token_ids=[]).result().token_ids
    new_cache = random_model.new_cache
    monkeypatch.setattr(
        random_model, "new_cache", lambda name, batch, capacity: new_cache(name, batch, capacity, runner="eager")
    )
    found = generate(random_model, [5, 6, 7], max_new_tokens=30, eos_token_ids=[], cache="static").result()
    assert found.token_ids == expected


def test_forks_have_steps_of_their_own(random_model: Model) -> None:
    cache = _cache(random_model, "eager")
    random_model.forward(_ids(1, 9), cache)
    random_model.forward(torch.tensor([[5]]), cache)
    fork = cache.fork([0, 0])
    assert fork.runner == "eager" and fork.decoder is None
    found = random_model.forward(torch.tensor([[7], [8]]), fork)
    alone = random_model.forward(torch.cat((_ids(1, 9), torch.tensor([[5, 8]])), dim=1))
    torch.testing.assert_close(found[1:], alone, rtol=1e-4, atol=1e-4)
    assert cache.lengths == (10,) and fork.lengths == (11, 11)


def test_what_cannot_run_is_refused(random_model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CacheError, match="unknown runner 'fast': choose 'plain', 'eager', 'compile', 'graph', 'auto'"):
        _cache(random_model, "fast")
    cache = _cache(random_model, "graph")
    random_model.forward(_ids(1, 4), cache)
    with pytest.raises(CacheError, match="captures CUDA graphs, and the cache is on cpu"):
        random_model.forward(torch.tensor([[5]]), cache)
    with monkeypatch.context() as patch:
        patch.setattr(Model, "has_blocked_weights", True)
        cache = _cache(random_model, "compile")
        random_model.forward(_ids(1, 4), cache)
        with pytest.raises(CacheError, match="weights in oneDNN's layout cannot be compiled"):
            random_model.forward(torch.tensor([[5]]), cache)
    with monkeypatch.context() as patch:
        experts = ExpertsConfig(count=4, chosen=2, inner=8, shared=0, first_layer=9)
        patch.setattr(random_model, "config", replace(random_model.config, experts=experts))
        cache = _cache(random_model, "compile")
        random_model.forward(_ids(1, 4), cache)
        with pytest.raises(CacheError, match="a mixture of experts is neither compiled nor captured; pass 'plain'"):
            random_model.forward(torch.tensor([[5]]), cache)
    full = _cache(random_model, "eager", capacity=4)
    random_model.forward(_ids(1, 4), full)
    with pytest.raises(CacheError, match="static cache of 4 positions cannot hold 5"):
        random_model.forward(torch.tensor([[5]]), full)
    longest = _cache(random_model, "eager", capacity=300)
    random_model.forward(_ids(1, 256), longest)
    with pytest.raises(ContextError):
        random_model.forward(torch.tensor([[5]]), longest)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_graphs_give_the_logits_of_ordinary_steps(small_buckets: None) -> None:
    from engine.loading.random_weights import random_model as make

    model = make("smollm2-135m", device="cuda", dtype="float32")
    plain, graphs = _cache(model, "plain"), _cache(model, "graph")
    for cache in (plain, graphs):
        model.forward(_ids(1, 12).cuda(), cache)
    for at in range(40):
        token = _ids(1, 41)[:, at : at + 1].cuda()
        torch.testing.assert_close(model.forward(token, graphs), model.forward(token, plain), rtol=1e-3, atol=1e-3)
    assert graphs.decoder is not None and graphs.decoder.programs == {16: 1, 32: 1, 64: 1}
