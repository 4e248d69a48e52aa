"""The tokens of a block get, bit for bit, what each gets in a pass of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from engine import Sampling, generate
from engine.batching import BatchEngine
from engine.devices import PACKINGS
from engine.errors import EngineError
from engine.model import Model
from engine.packed import PackedLinear, quantize
from engine.speculation import Combined, DraftModel, EarlyExit, NGram, Speculation
from tests.engine.small_models import KINDS, small_model
from tests.engine.speculation.toys import Guesser

CACHES = ["dynamic", "static", "paged", "sliding", "offloaded", "quantized"]


def _cache(model: Model, name: str) -> Any:
    return model.new_cache(name, 1, 300, **({"unchecked": True} if name == "quantized" else {}))


@pytest.mark.parametrize("dtype", ["bfloat16", *PACKINGS])
@pytest.mark.parametrize("kind", KINDS)
def test_logits_of_a_block_are_those_of_its_tokens_one_by_one(kind: str, dtype: str) -> None:
    model = small_model(kind, dtype)
    assert model.alike == 16
    text = torch.randint(3, 112, (1, 120), generator=torch.Generator().manual_seed(4))
    for held in (1, 19, 61, 90):
        cache = model.new_cache()
        model.forward(text[:, :held], cache)
        single = torch.cat([model.forward(text[:, at : at + 1], cache) for at in range(held, held + 17)])
        for new in (2, 3, 5, 8, 16):
            cache.truncate(held)
            block = model.forward(text[:, held : held + new], cache, logits=new)[0]
            assert torch.equal(block, single[:new]), (held, new)
            assert torch.equal(model.forward(text[:, held + new : held + new + 1], cache)[0], single[new])


@pytest.mark.parametrize("kind", ["llama", "a window"])
@pytest.mark.parametrize("name", CACHES)
def test_every_cache_holds_the_same_bits_after_blocks_that_were_cut_back(name: str, kind: str) -> None:
    model = small_model(kind)
    rng = np.random.default_rng(5)
    text = torch.from_numpy(rng.integers(3, 112, (1, 220)))
    plain, tried = _cache(model, name), _cache(model, name)
    expected = [model.forward(text[:, :9], plain)]
    expected += [model.forward(text[:, at : at + 1], plain) for at in range(9, 220)]
    model.forward(text[:, :9], tried)
    held = 9
    while held < 200:
        new = min(int(rng.integers(1, 17)), tried.together)
        right = int(rng.integers(1, new + 1))
        block = torch.from_numpy(rng.integers(3, 112, (1, new)))
        block[:, :right] = text[:, held : held + right]
        logits = model.forward(block, tried, logits=new)[0]
        for at in range(right):
            assert torch.equal(logits[at], expected[held - 8 + at][0]), (held, at)
        tried.truncate(held := held + right)


SAMPLINGS = [
    Sampling(temperature=0.0),
    Sampling(seed=2, temperature=1.5, top_k=20, frequency_penalty=0.4, repetition_penalty=1.2),
]


@pytest.mark.parametrize("name", ["dynamic", "sliding"])
def test_texts_are_those_without_speculation(name: str) -> None:
    model = small_model("a window")

    def guess(tokens: list[int], most: int) -> list[int]:
        rng = np.random.default_rng(tokens)
        return [int(token) for token in rng.integers(3, 112, most)]

    proposers = {
        "itself": DraftModel(model, 112, 1.0, sampled=False),
        "look-ups, then an exit": Combined([NGram(), EarlyExit(model, 2, sampled=False)]),
        "nonsense, then itself": Combined([Guesser(guess), DraftModel(model, 112, 1.0, sampled=False)]),
    }
    for sampling in SAMPLINGS:
        options: dict[str, Any] = {
            "sampling": sampling, "max_new_tokens": 50, "eos_token_ids": [], "cache": name
        }  # fmt: skip
        plain = generate(model, [5, 6, 7, 5, 6], **options).result().token_ids
        for title, proposer in proposers.items():
            found = generate(model, [5, 6, 7, 5, 6], speculation=Speculation(proposer, 6), **options).result()
            assert found.token_ids == plain, title
            assert found.metrics.accepted > 0 or title != "itself"
            assert found.metrics.drafted > 20


def test_a_request_that_is_alone_in_a_batch_gets_the_same_text() -> None:
    model = small_model()
    proposer = Speculation(DraftModel(model, 112, 1.0, sampled=False), 7)
    engine = BatchEngine(model, blocks=40, block_size=8)
    requests = [
        engine.add([5, 6, 7], max_new_tokens=60, eos_token_ids=[], speculation=each) for each in (None, proposer)
    ]
    engine.run()
    plain = generate(model, [5, 6, 7], max_new_tokens=60, eos_token_ids=[]).result().token_ids
    lone = BatchEngine(model, blocks=40, block_size=8)
    alone = lone.add([5, 6, 7], max_new_tokens=60, eos_token_ids=[], speculation=proposer)
    lone.run()
    assert lone.result(alone).token_ids == plain
    assert lone.result(alone).metrics.accepted > 40
    assert all(len(engine.result(request).token_ids) == 60 for request in requests)


def test_a_block_is_never_what_packs_a_group_of_a_quantized_cache() -> None:
    model = small_model()
    cache = _cache(model, "quantized")
    for held in range(1, 200):
        packed = cache.packed_positions
        if cache.together > 1:
            model.forward(torch.full((1, cache.together), 7), cache)
            assert cache.packed_positions == packed
            cache.truncate(held - 1)
        model.forward(torch.tensor([[5]]), cache)
    assert cache.packed_positions == 128


def test_models_whose_sums_depend_on_the_block_do_not_say_so(random_model: Model) -> None:
    assert random_model.alike is None
    model = small_model()
    other = model.with_layers([0, 2])
    other.backend = "math"
    assert (model.alike, other.alike) == (16, None)
    assert (model.batch_invariant, other.batch_invariant) == (True, False)


@pytest.mark.parametrize("packing", PACKINGS)
def test_weights_may_lie_anywhere_in_memory(packing: Any) -> None:
    packed, scales, rounded = quantize(torch.randn(64, 96, generator=torch.Generator().manual_seed(1)), packing)
    x = torch.randn(1, 16, 96, generator=torch.Generator().manual_seed(2)).bfloat16()
    memory = torch.empty(packed.nbytes + 64, dtype=torch.uint8)
    begin = -memory.data_ptr() % 64 + 8
    shifted = memory[begin : begin + packed.nbytes].view(packed.dtype).view(packed.shape).copy_(packed)
    expected = PackedLinear(rounded, None, packing, packed, scales)(x)
    for rows in (1, 3, 4, 5, 16):
        assert torch.equal(PackedLinear(rounded, None, packing, shifted, scales)(x[:, :rows]), expected[:, :rows])


def test_an_empty_block_is_refused() -> None:
    with pytest.raises(EngineError):
        small_model().forward(torch.zeros(1, 0, dtype=torch.int64))
