from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine import Sampling, generate
from engine.batching import BatchEngine, Request
from engine.errors import ContextError, EngineError
from engine.model import Model
from engine.sampling import EmptyRow

PROMPTS = [[5, 6, 7], list(range(3, 40)), [9], [11, 12, 13, 14, 15], list(range(60, 90)), [2 + 3, 8]]
SAMPLINGS = [
    Sampling(temperature=0.0),
    Sampling(temperature=0.9, seed=4, top_p=0.8),
    Sampling(temperature=1.2, seed=7, repetition_penalty=1.3, presence_penalty=0.4),
    Sampling(temperature=0.0, no_repeat_ngram=2),
    Sampling(temperature=0.7, seed=1, top_k=5, logprobs=2),
    Sampling(temperature=1.0, seed=3, min_p=0.1),
]


class _Below:
    """Allows tokens below a bound, the end (2) after three of them."""

    def __init__(self, bound: int) -> None:
        self.bound, self.count, self.ended = bound, 0, False

    def fill_mask(self, row: Any) -> None:
        row[:] = 0
        for token in range(3, self.bound):
            row[token // 32] |= np.uint32(1 << token % 32)
        if self.count >= 3:
            row[0] |= np.uint32(1 << 2)

    def accept(self, token: int) -> None:
        assert token < self.bound
        self.count += 1
        self.ended = token == 2

    def is_accepting(self) -> bool:
        return self.count >= 3

    def is_finished(self) -> bool:
        return self.ended


def _engine(model: Model, **options: Any) -> BatchEngine:
    return BatchEngine(model, **{"blocks": 64, "block_size": 4, "max_sequences": 4, "chunk": 8, **options})


def _check(engine: BatchEngine) -> None:
    scheduler = engine.scheduler
    scheduler.manager.check([request.table for request in scheduler.running])
    assert scheduler.unpromised >= 0 and len(scheduler.running) <= scheduler.max_sequences
    assert all(not request.table.blocks for request in scheduler.waiting)


@pytest.mark.parametrize("chunk", [3, 64])
@pytest.mark.parametrize("max_sequences", [2, 8])
def test_every_request_gets_what_it_gets_alone(random_model: Model, chunk: int, max_sequences: int) -> None:
    engine = _engine(random_model, chunk=chunk, max_sequences=max_sequences)
    requests = []
    for at, (prompt, sampling) in enumerate(zip(PROMPTS, SAMPLINGS, strict=True)):
        constraint = _Below(40 + at) if at % 2 else None
        requests.append(engine.add(prompt, sampling=sampling, constraint=constraint, max_new_tokens=6 + at))
    while engine.step():
        _check(engine)
    for at, (prompt, sampling, request) in enumerate(zip(PROMPTS, SAMPLINGS, requests, strict=True)):
        constraint = _Below(40 + at) if at % 2 else None
        alone = generate(random_model, prompt, sampling=sampling, constraint=constraint, max_new_tokens=6 + at).result()
        found = engine.result(request)
        assert (found.token_ids, found.finish_reason) == (alone.token_ids, alone.finish_reason)
        assert len(found.logprobs) == len(alone.logprobs)
        assert found.metrics.output_tokens == len(found.token_ids) and found.metrics.prompt_tokens == len(prompt)
        assert len(found.metrics.itl_s) == max(0, len(found.token_ids) - 1)
    assert engine.pool.manager.used == 0


def test_rows_that_decode_share_their_forward_passes(random_model: Model) -> None:
    engine = _engine(random_model, max_sequences=4)
    for at in range(4):
        engine.add([5 + at], max_new_tokens=8, eos_token_ids=[])
    engine.run()
    assert engine.forwards == engine.steps == 8


def test_a_request_joins_while_others_decode_and_no_token_of_theirs_waits_for_its_prompt(random_model: Model) -> None:
    engine = _engine(random_model, chunk=4)
    first = engine.add([5, 6], max_new_tokens=20, eos_token_ids=[])
    engine.step()
    late = engine.add(list(range(3, 23)), max_new_tokens=2, eos_token_ids=[])
    before = len(first.tokens)
    for _ in range(5):
        engine.step()
    assert len(first.tokens) == before + 5 and len(late.tokens) == 21


def test_first_tokens_are_handed_out_before_the_others_go_on(random_model: Model) -> None:
    engine = _engine(random_model)
    early = engine.add(PROMPTS[0], max_new_tokens=8, eos_token_ids=[])
    engine.step()
    late = engine.add(PROMPTS[3], max_new_tokens=1, eos_token_ids=[])
    seen: list[tuple[list[Request], int, int, bool]] = []
    engine.step(
        lambda first: seen.append(
            (list(first), len(late.sequence.output), len(early.sequence.output), late.is_finished)
        )
    )
    assert seen == [([late], 1, 1, True)]
    assert len(early.sequence.output) == 2
    engine.step(lambda first: seen.append((list(first), 0, 0, False)))
    assert len(seen) == 1  # nobody begins in a step without a prompt
    engine.run()
    alone = generate(random_model, PROMPTS[0], max_new_tokens=8, eos_token_ids=[]).result()
    assert engine.result(early).token_ids == alone.token_ids
    assert engine.pool.manager.used == 0


def test_a_prompt_that_begins_like_an_earlier_one_is_not_computed_again(random_model: Model) -> None:
    engine = _engine(random_model, chunk=64)
    prefix = list(range(3, 35))
    first = engine.add([*prefix, 40], max_new_tokens=3)
    engine.run()
    second = engine.add([*prefix, 41], max_new_tokens=3)
    engine.run()
    assert engine.result(first).metrics.cached_prompt_tokens == 0
    assert engine.result(second).metrics.cached_prompt_tokens == 32
    alone = generate(random_model, [*prefix, 41], max_new_tokens=3).result()
    assert engine.result(second).token_ids == alone.token_ids


def test_a_request_waits_until_its_whole_promise_fits(random_model: Model) -> None:
    engine = _engine(random_model, blocks=10)
    first = engine.add([5] * 8, max_new_tokens=12, eos_token_ids=[])  # 5 blocks
    second = engine.add([6] * 8, max_new_tokens=16, eos_token_ids=[])  # 6 blocks
    engine.step()
    assert engine.scheduler.running == [first] and engine.scheduler.waiting == [second]
    while engine.step():
        _check(engine)
    assert [engine.result(each).finish_reason for each in (first, second)] == ["length", "length"]
    with pytest.raises(EngineError, match="needs 11 blocks of 4 positions and there are 10"):
        engine.add([5] * 8, max_new_tokens=36)


def test_a_large_request_is_not_starved_by_small_ones(random_model: Model) -> None:
    engine = _engine(random_model, blocks=8, max_sequences=4)
    for _ in range(3):
        engine.add([5, 6], max_new_tokens=4, eos_token_ids=[])
    large = engine.add([7] * 8, max_new_tokens=20, eos_token_ids=[])  # 7 of the 8 blocks
    for _ in range(60):
        engine.add([5, 6], max_new_tokens=4, eos_token_ids=[])
        engine.step()
        if large.is_finished:
            break
    assert large.sequence.finish_reason == "length"


def test_age_outweighs_priority_in_the_end(random_model: Model) -> None:
    engine = _engine(random_model, max_sequences=1)
    low = engine.add([5], max_new_tokens=2, eos_token_ids=[])
    for _ in range(150):
        engine.add([6], max_new_tokens=2, eos_token_ids=[], priority=2)
        engine.step()
        if low.is_finished:
            break
    assert low.is_finished


def test_the_higher_priority_goes_first(random_model: Model) -> None:
    engine = _engine(random_model, max_sequences=1)
    low = engine.add([5], max_new_tokens=3, eos_token_ids=[])
    high = engine.add([6], max_new_tokens=3, eos_token_ids=[], priority=1)
    engine.step()
    assert engine.scheduler.running == [high] and engine.scheduler.waiting == [low]


def test_cancelling_frees_blocks_at_once(random_model: Model) -> None:
    engine = _engine(random_model, chunk=4)
    running = engine.add(list(range(3, 20)), max_new_tokens=10)
    engine.step()
    assert engine.pool.manager.used > 0
    waiting = [engine.add([5], max_new_tokens=2) for _ in range(6)]
    engine.cancel(running)
    assert engine.pool.manager.used == 0 and engine.result(running).finish_reason == "cancelled"
    engine.cancel(waiting[-1])
    engine.run()
    assert engine.result(waiting[-1]).token_ids == []
    assert all(request.is_finished for request in waiting)


def test_a_row_that_nothing_can_be_drawn_for_ends_alone(random_model: Model) -> None:
    class Nothing(_Below):
        def fill_mask(self, row: Any) -> None:
            row[:] = 0

    engine = _engine(random_model)
    good = engine.add([5, 6], max_new_tokens=4, eos_token_ids=[])
    bad = engine.add([5, 6], max_new_tokens=4, constraint=Nothing(9))
    engine.run()
    alone = generate(random_model, [5, 6], max_new_tokens=4, eos_token_ids=[]).result()
    assert engine.result(good).token_ids == alone.token_ids
    with pytest.raises(EmptyRow):
        engine.result(bad)
    assert engine.pool.manager.used == 0


def test_requests_that_make_no_sense_are_refused(random_model: Model) -> None:
    engine = _engine(random_model)
    with pytest.raises(EngineError, match="the prompt is empty"):
        engine.add([])
    with pytest.raises(ContextError, match="do not fit into the model's context of 256"):
        engine.add([5] * 200, max_new_tokens=57)
    with pytest.raises(EngineError, match="0 sequences in chunks of 8"):
        _engine(random_model, max_sequences=0)
    request: Request = engine.add([5], max_new_tokens=2)
    with pytest.raises(EngineError, match="not finished"):
        engine.result(request)
