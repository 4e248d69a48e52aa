"""Who runs, when memory is short, and what is not computed twice."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from engine import Sampling, generate
from engine.batching import BatchEngine
from engine.errors import EngineError
from engine.model import Model
from engine.sampling import InvalidLogits


def _engine(model: Model, **options: Any) -> BatchEngine:
    return BatchEngine(model, **{"blocks": 64, "block_size": 4, "max_sequences": 8, "chunk": 32, **options})


def _run(engine: BatchEngine) -> None:
    """To the end, with the books checked after every step; within a bound, so that a standstill is seen."""
    for _ in range(600):
        if not engine.step():
            return
        engine.scheduler.manager.check([request.table for request in engine.scheduler.running])
        assert all(not request.table.blocks for request in engine.scheduler.waiting)
    raise AssertionError("600 steps were not enough")


def test_optimistic_admission_runs_more_at_a_time_and_gives_each_what_it_gets_alone(random_model: Model) -> None:
    texts: dict[str, list[list[int]]] = {}
    most: dict[str, int] = {}
    for admission in ("promised", "optimistic"):
        engine = _engine(random_model, blocks=20, admission=admission, prefix_cache=False)
        requests = [
            engine.add(
                [5 + at, 7], sampling=Sampling(temperature=1.0, seed=at), max_new_tokens=30, eos_token_ids=[],
                stop=(lambda output, at=at: len(output) >= 14 + at),
            )
            for at in range(6)
        ]  # fmt: skip
        most[admission] = 0
        for _ in range(600):
            if not engine.step():
                break
            most[admission] = max(most[admission], len(engine.scheduler.running))
            engine.scheduler.manager.check([request.table for request in engine.scheduler.running])
        texts[admission] = [engine.result(request).token_ids for request in requests]
        assert engine.pool.manager.used == 0
        assert (engine.usage().preemptions > 0) is (admission == "optimistic")
    assert most["promised"] == 2 and most["optimistic"] >= 5
    assert texts["promised"] == texts["optimistic"]
    for at, text in enumerate(texts["optimistic"]):
        sampling = Sampling(temperature=1.0, seed=at)
        stop: Any = lambda output, at=at: len(output) >= 14 + at  # noqa: E731
        alone = generate(
            random_model, [5 + at, 7], sampling=sampling, max_new_tokens=30, eos_token_ids=[], stop=stop
        ).result()
        assert text == alone.token_ids


def test_who_gives_its_blocks_back_is_the_last_in_order(random_model: Model) -> None:
    engine = _engine(random_model, blocks=12, admission="optimistic", prefix_cache=False)
    first = engine.add([5, 6], max_new_tokens=36, eos_token_ids=[])
    late = engine.add([7, 8], max_new_tokens=36, eos_token_ids=[], priority=1)
    while not engine.usage().preemptions:
        assert engine.step()
    assert engine.scheduler.waiting == [first] and engine.scheduler.running == [late]
    assert first.computed == 0 and len(first.tokens) > 10
    _run(engine)
    assert [len(request.sequence.output) for request in (first, late)] == [36, 36]


def test_a_large_request_is_not_starved_where_admission_is_optimistic(random_model: Model) -> None:
    engine = _engine(random_model, blocks=10, max_sequences=4, admission="optimistic")
    for _ in range(3):
        engine.add([5, 6], max_new_tokens=6, eos_token_ids=[])
    large = engine.add([7] * 12, max_new_tokens=24, eos_token_ids=[])  # 9 of the 10 blocks
    for _ in range(120):
        engine.add([5, 6], max_new_tokens=6, eos_token_ids=[])
        engine.step()
        if large.is_finished:
            break
    assert large.sequence.finish_reason == "length"


def test_prompts_that_come_together_and_begin_alike_are_computed_once(random_model: Model) -> None:
    prefix = list(range(3, 63))  # 15 blocks
    engine = _engine(random_model, blocks=200)
    requests = [engine.add([*prefix, 70 + at], max_new_tokens=2, eos_token_ids=[]) for at in range(8)]
    _run(engine)
    assert [engine.result(request).metrics.cached_prompt_tokens for request in requests] == [0, *[60] * 7]
    # The first prompt takes two chunks, the ends of the seven others fit into one, and then each draws twice.
    assert engine.steps <= 5
    for at, request in enumerate(requests):
        alone = generate(random_model, [*prefix, 70 + at], max_new_tokens=2, eos_token_ids=[]).result()
        assert engine.result(request).token_ids == alone.token_ids
    without = _engine(random_model, blocks=200, prefix_cache=False)
    others = [without.add([*prefix, 70 + at], max_new_tokens=2, eos_token_ids=[]) for at in range(8)]
    _run(without)
    assert {without.result(request).metrics.cached_prompt_tokens for request in others} == {0}
    assert [each.sequence.output for each in others] == [each.sequence.output for each in requests]


def test_blocks_that_others_hold_take_no_room(random_model: Model) -> None:
    engine = _engine(random_model, blocks=12)
    prefix = list(range(3, 31))  # 7 blocks
    first = engine.add([*prefix, 40], max_new_tokens=6, eos_token_ids=[])  # 9 of the 12 blocks
    while len(first.tokens) == 29:
        engine.step()
    second = engine.add([*prefix, 41], max_new_tokens=6, eos_token_ids=[])
    engine.step()
    assert engine.scheduler.running == [first, second] and engine.pool.manager.used <= 11
    _run(engine)


def test_short_prompts_share_a_forward_pass(random_model: Model) -> None:
    engine = _engine(random_model, chunk=32)
    prompts = [[5 + at] * (2 + at) for at in range(5)]  # 2 … 6 tokens: five rows of 6
    requests = [engine.add(prompt, max_new_tokens=3, eos_token_ids=[]) for prompt in prompts]
    engine.step()
    assert engine.forwards == 1 and all(len(request.sequence.output) == 1 for request in requests)
    _run(engine)
    for prompt, request in zip(prompts, requests, strict=True):
        alone = generate(random_model, prompt, max_new_tokens=3, eos_token_ids=[]).result()
        assert engine.result(request).token_ids == alone.token_ids


def test_a_long_prompt_holds_others_up_in_as_few_steps_as_its_chunk_lets_it_and_in_equal_parts(
    random_model: Model,
) -> None:
    engine = _engine(random_model, chunk=32, blocks=100, prefix_cache=False)
    decoding = engine.add([5, 6], max_new_tokens=20, eos_token_ids=[])
    engine.step()
    long = engine.add([7] * 70, max_new_tokens=2, eos_token_ids=[])
    parts = []
    while not long.sequence.output:
        before = long.computed
        engine.step()
        parts.append(long.computed - before)
    assert parts == [24, 23, 23]
    assert len(decoding.sequence.output) == 4  # and a token in each of these steps
    alone = generate(random_model, [7] * 70, max_new_tokens=2, eos_token_ids=[]).result()
    _run(engine)
    assert engine.result(long).token_ids == alone.token_ids


def test_prompts_that_go_together_are_no_longer_than_is_said_and_one_alone_may_be(random_model: Model) -> None:
    engine = _engine(random_model, chunk=32, together=12, prefix_cache=False)
    requests = [engine.add([5 + at] * 4, max_new_tokens=2, eos_token_ids=[]) for at in range(5)]
    long = engine.add([7] * 30, max_new_tokens=2, eos_token_ids=[])
    engine.step()
    assert [request.computed for request in requests] == [4, 4, 4, 0, 0]
    engine.step()
    assert [len(request.sequence.output) for request in requests] == [2, 2, 2, 1, 1]
    engine.step()
    assert long.computed == 30
    _run(engine)


def test_a_short_prompt_does_not_wait_until_long_ones_are_through_nor_they_for_ever(random_model: Model) -> None:
    engine = _engine(random_model, chunk=8, blocks=200, prefix_cache=False)
    long = [engine.add([5 + at] * 80, max_new_tokens=2, eos_token_ids=[]) for at in range(3)]  # ten chunks each
    engine.step()
    short = engine.add([9, 8, 7], max_new_tokens=2, eos_token_ids=[])
    for _ in range(2):
        engine.step()
    assert len(short.sequence.output) >= 1
    while not all(request.is_finished for request in long):
        engine.add([9, 8, 7], max_new_tokens=1, eos_token_ids=[])  # short ones come all the time
        assert engine.step()
        assert engine.steps < 80
    alone = generate(random_model, [9, 8, 7], max_new_tokens=2, eos_token_ids=[]).result()
    _run(engine)
    assert engine.result(short).token_ids == alone.token_ids


def test_rows_with_logits_that_are_no_numbers_leave_none_behind(
    random_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = _engine(random_model, blocks=6, max_sequences=1)
    bad = engine.add([5] * 9, max_new_tokens=4, eos_token_ids=[])
    forward = random_model.forward

    def spoilt(*arguments: Any, **options: Any) -> torch.Tensor:
        logits = forward(*arguments, **options)
        for pair in engine.pool.tensors:
            for tensor in pair:
                tensor[bad.table.blocks] = torch.nan
        return torch.full_like(logits, torch.nan)

    with monkeypatch.context() as patch:
        patch.setattr(random_model, "forward", spoilt)
        engine.step()
    with pytest.raises(InvalidLogits):
        engine.result(bad)
    good = engine.add([5] * 9, max_new_tokens=6, eos_token_ids=[])
    _run(engine)
    alone = generate(random_model, [5] * 9, max_new_tokens=6, eos_token_ids=[]).result()
    assert engine.result(good).token_ids == alone.token_ids


def test_an_admission_of_another_name_is_refused(random_model: Model) -> None:
    with pytest.raises(EngineError, match="unknown admission 'hopeful': choose 'promised' or 'optimistic'"):
        _engine(random_model, admission="hopeful")
    with pytest.raises(EngineError, match="prompts of 0 tokens together: at least 1"):
        _engine(random_model, together=0)
    with pytest.raises(EngineError, match="0 blocks"):
        _engine(random_model, blocks=0)
