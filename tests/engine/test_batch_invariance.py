"""On a CPU a request gets, bit for bit, the same numbers and so the same text, alone and in any batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from engine import Sampling, generate
from engine.batching import BatchEngine
from engine.caches import BlockPool
from engine.layers import Linear
from engine.loading import load_model
from engine.model import Model
from tests.engine.small_models import KINDS, small_model

DTYPES = ["bfloat16", "int8", "int4"]
TEXT = torch.randint(3, 112, (1, 420), generator=torch.Generator().manual_seed(4))
LENGTHS = (1, 5, 40, 130, 300)
SAMPLINGS = [
    None,
    Sampling(seed=5, temperature=1.0),
    Sampling(seed=6, temperature=1.0, top_p=0.9, repetition_penalty=1.1),
]


def _followed(model: Model, length: int, steps: int = 5) -> torch.Tensor:
    """Logits behind a prompt of so many tokens, and behind each of those that follow, one by one."""
    cache = model.new_cache()
    rows = [model.forward(TEXT[:, :length], cache, prompt=True)]
    rows += [model.forward(TEXT[:, 400 + at : 401 + at], cache) for at in range(steps)]
    return torch.cat(rows)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["dynamic", "paged"])
def test_rows_of_a_batch_get_the_logits_that_each_gets_alone(name: str, kind: str, dtype: str) -> None:
    model = small_model(kind, dtype)
    assert model.batch_invariant
    alone = [_followed(model, length) for length in LENGTHS]
    prompts = torch.zeros(len(LENGTHS), 300, dtype=torch.int64)
    for row, length in zip(prompts, LENGTHS, strict=True):
        row[:length] = TEXT[0, :length]
    cache = model.new_cache(name, len(LENGTHS))
    rows = [model.forward(prompts, cache, lengths=LENGTHS, prompt=True)]
    counts = (1, 4, 2, 3, 1)  # a step of unequal numbers, then single ones
    block = model.forward(TEXT[:, 400:404].expand(5, 4), cache, lengths=counts, logits="all", prompt=False)
    for at, count in enumerate(counts):
        assert torch.equal(block[at, :count], alone[at][1 : count + 1])
    cache.truncate(LENGTHS)
    rows += [model.forward(TEXT[:, at : at + 1].expand(5, 1), cache) for at in range(400, 405)]
    for at, expected in enumerate(alone):
        assert torch.equal(torch.stack(rows, 1)[at], expected), LENGTHS[at]
    many = model.new_cache(name, 20)
    model.forward(TEXT[:, :5].expand(20, 5), many, prompt=True)
    wide = model.forward(TEXT[:, 400:401].expand(20, 1), many)
    assert all(torch.equal(row, alone[1][1]) for row in wide)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_prompt_may_be_computed_in_chunks_of_any_length(kind: str, dtype: str) -> None:
    model = small_model(kind, dtype)
    whole = model.forward(TEXT[:, :300], model.new_cache(), logits="all", prompt=True)[0]
    for name, sizes in (("dynamic", [256, 44]), ("paged", [1, 2, 3, 94, 100, 99, 1]), ("sliding", [7] * 42 + [6])):
        cache, at = model.new_cache(name), 0
        for size in sizes:
            part = model.forward(TEXT[:, at : at + size], cache, logits="all", prompt=True)[0]
            assert torch.equal(part, whole[at : at + size]), (name, at)
            at += size


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_prefix_that_is_found_holds_the_bits_that_it_would_get(dtype: str) -> None:
    model = small_model("llama", dtype)
    pool = BlockPool(model.config, model.device, model.dtype, 8)
    prompt = TEXT[0, :60].tolist()
    first, second = (model.new_cache("paged", pool=pool) for _ in range(2))
    expected = model.forward(TEXT[:, :60], first, prompt=True)
    first.remember(0, prompt)  # type: ignore[attr-defined]
    found = second.reuse(0, prompt)  # type: ignore[attr-defined]
    assert found == 56
    assert torch.equal(model.forward(TEXT[:, found:60], second, prompt=True), expected)


def _prompts() -> list[list[int]]:
    ends = [(0, 1), (0, 7), (3, 40), (10, 43), (0, 20), (0, 20), (0, 130), (7, 90), (50, 53), (0, 33)]
    return [TEXT[0, begin:end].tolist() for begin, end in ends]


def _alone(model: Model, ids: list[int], sampling: Sampling | None) -> list[int]:
    return generate(model, ids, sampling=sampling, max_new_tokens=30, eos_token_ids=[]).result().token_ids


def _in_a_batch(engine: BatchEngine, prompts: list[list[int]], sampling: Sampling | None) -> list[list[int]]:
    requests = [engine.add(ids, sampling=sampling, max_new_tokens=30, eos_token_ids=[]) for ids in prompts]
    engine.run()
    return [engine.result(request).token_ids for request in requests]


@pytest.mark.parametrize("dtype", DTYPES)
def test_texts_are_the_same_alone_and_in_any_batch(dtype: str) -> None:
    model = small_model("a window", dtype)
    for sampling in SAMPLINGS:
        alone = [_alone(model, ids, sampling) for ids in _prompts()]
        assert len({tuple(tokens) for tokens in alone}) > 5
        engine = BatchEngine(model, blocks=200, block_size=8, chunk=48)
        assert _in_a_batch(engine, _prompts(), sampling) == alone
        # Once more: now prompts are found, of other lengths and in another company.
        assert _in_a_batch(engine, _prompts()[::-2], sampling) == alone[::-2]
        small = BatchEngine(model, blocks=40, block_size=8, max_sequences=3, chunk=1000, prefix_cache=False)
        assert _in_a_batch(small, _prompts(), sampling) == alone


@pytest.mark.parametrize("prefix_cache", [True, False])
@pytest.mark.parametrize("dtype", ["bfloat16", "int4"])
def test_what_had_to_give_its_blocks_back_goes_on_as_it_would_have(dtype: str, prefix_cache: bool) -> None:
    model = small_model("llama", dtype)
    for sampling in SAMPLINGS[:2]:
        prompts = [ids for ids in _prompts() if len(ids) < 50]
        engine = BatchEngine(
            model, blocks=14, block_size=8, chunk=32, admission="optimistic", prefix_cache=prefix_cache
        )
        found = _in_a_batch(engine, prompts, sampling)
        assert engine.usage().preemptions > 2
        assert found == [_alone(model, ids, sampling) for ids in prompts]


@pytest.mark.parametrize("dtype", ["bfloat16", "int4"])
def test_an_answer_is_computed_anew_where_it_has_become_a_part_of_a_prompt(dtype: str) -> None:
    model = small_model("llama", dtype)
    engine = BatchEngine(model, blocks=60, block_size=8)
    question = TEXT[0, :24].tolist()
    (answer,) = _in_a_batch(engine, [question], None)
    follow_up = [*question, *answer, 5, 6, 7]
    request = engine.add(follow_up, max_new_tokens=30, eos_token_ids=[])
    engine.run()
    assert engine.result(request).metrics.cached_prompt_tokens == 24
    assert engine.result(request).token_ids == _alone(model, follow_up, None)
    again = engine.add(follow_up, max_new_tokens=30, eos_token_ids=[])
    engine.run()
    assert engine.result(again).metrics.cached_prompt_tokens == 56
    assert engine.result(again).token_ids == engine.result(request).token_ids


def test_packed_weights_may_be_left_where_many_rows_decode() -> None:
    model = small_model("llama", "int4")
    other = model.with_layers(range(model.config.layers))
    other.keeps_packed = False
    assert not other.batch_invariant and other.alike == model.alike
    assert model.read_bytes(4) == model.read_bytes(5) == other.read_bytes(4) < other.read_bytes(5)
    few, many = torch.full((4, 1), 7), torch.full((5, 1), 7)
    kept, left = model.forward(many, model.new_cache(batch=5)), other.forward(many, other.new_cache(batch=5))
    assert torch.equal(kept[:4], other.forward(few, other.new_cache(batch=4))) and not torch.equal(kept, left)
    assert (
        not BatchEngine(other, blocks=4).scheduler.tells_prompts
        and BatchEngine(model, blocks=4).scheduler.tells_prompts
    )
    torch.testing.assert_close(kept, left, rtol=0.1, atol=0.1)


@pytest.mark.parametrize(("rows", "columns"), [(112, 64), (64, 96), (300, 33)])
def test_products_give_a_row_the_same_bits_with_any_other_rows(rows: int, columns: int) -> None:
    noise = torch.Generator().manual_seed(8)
    linear = Linear(torch.randn(rows, columns, generator=noise).bfloat16())
    if not linear.rows_agree:
        pytest.skip("not on this processor")
    x, residual = (torch.randn(200, width, generator=noise).bfloat16() for width in (columns, rows))
    product, total = linear(x), linear.add_to(residual, x)
    for count in (1, 2, 3, 5, 8, 16, 31, 100):
        for at in range(0, 200 - count, 3 * count):
            part = slice(at, at + count)
            assert torch.equal(linear(x[part]), product[part])
            assert torch.equal(linear.add_to(residual[part], x[part]), total[part])


def test_the_default_model_answers_alike_alone_and_in_a_batch(default_gguf: Path) -> None:
    model = load_model(default_gguf, device="cpu")
    if not model.batch_invariant:
        pytest.skip("not on this processor")
    assert model.text is not None
    questions = ["Name a fruit.", "Why is the sky blue?", "hello", "Count to five.", "Who was Ada Lovelace?", "Thanks!"]
    prompts = [model.text.encode_chat([{"role": "user", "content": each}]) for each in questions]
    options: dict[str, Any] = {"sampling": Sampling(seed=3, temperature=1.0), "max_new_tokens": 12}
    engine = BatchEngine(model, blocks=100)
    requests = [engine.add(ids, **options) for ids in prompts]
    engine.run()
    for ids, request in zip(prompts, requests, strict=True):
        assert engine.result(request).token_ids == generate(model, ids, **options).result().token_ids
