"""Callers in many threads share one engine."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from engine import Sampling, generate
from engine.batching import BatchEngine, EngineLoop, RequestHandle
from engine.errors import ContextError, EngineClosed, EngineError, QueueFull
from engine.generation import Token
from engine.model import Model

WAIT = 60.0
"""Seconds after which a test that would hang fails."""


class _Gate:
    """Lets the model's forward passes through one by one, or all."""

    def __init__(self, model: Model, patch: pytest.MonkeyPatch) -> None:
        self.open, self.entered = threading.Semaphore(0), threading.Semaphore(0)
        self.fails: Exception | None = None
        forward = model.forward

        def held(*arguments: Any, **options: Any) -> torch.Tensor:
            self.entered.release()
            assert self.open.acquire(timeout=WAIT)
            if self.fails is not None:
                error, self.fails = self.fails, None
                raise error
            return forward(*arguments, **options)

        patch.setattr(model, "forward", held)

    def let_through(self, steps: int = 10_000) -> None:
        self.open.release(steps)


@pytest.fixture
def gate(random_model: Model, monkeypatch: pytest.MonkeyPatch) -> Iterator[_Gate]:
    gate = _Gate(random_model, monkeypatch)
    yield gate
    gate.let_through()


@pytest.fixture
def loop(random_model: Model) -> Iterator[EngineLoop]:
    loop = EngineLoop(BatchEngine(random_model, blocks=64, block_size=4, max_sequences=4, chunk=8), max_waiting=8)
    yield loop
    assert loop.stop(cancel=True, timeout=WAIT)
    assert loop.engine.pool.manager.used == 0


def test_callers_in_many_threads_get_what_they_get_alone(random_model: Model, loop: EngineLoop) -> None:
    found: dict[int, list[int]] = {}

    def call(at: int) -> None:
        sampling = Sampling(temperature=1.0, seed=at)
        handle = loop.submit([5 + at, 9], sampling=sampling, max_new_tokens=5 + at % 3, eos_token_ids=[], wait=True)
        streamed = [token.token_id for token in handle]
        output = handle.result(WAIT)
        assert streamed == output.token_ids
        assert output.metrics.ttft_s >= output.metrics.queue_s >= 0
        found[at] = streamed

    threads = [threading.Thread(target=call, args=(at,)) for at in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    for at in range(20):
        sampling = Sampling(temperature=1.0, seed=at)
        alone = generate(
            random_model, [5 + at, 9], sampling=sampling, max_new_tokens=5 + at % 3, eos_token_ids=[]
        ).result()
        assert found[at] == alone.token_ids


def test_a_request_that_is_cancelled_frees_its_blocks_and_ends(loop: EngineLoop, gate: _Gate) -> None:
    handle = loop.submit([5, 6], max_new_tokens=200, eos_token_ids=[])
    other = loop.submit([7, 8], max_new_tokens=3, eos_token_ids=[])
    assert gate.entered.acquire(timeout=WAIT)
    handle.cancel()
    gate.let_through(1)  # the step that is running is the last that it takes part in
    output = handle.result(WAIT)
    assert (output.finish_reason, len(output.token_ids)) == ("cancelled", 1)
    assert handle.request.table.blocks == []
    gate.let_through()
    assert len(other.result(WAIT).token_ids) == 3
    assert loop.stop(timeout=WAIT)
    assert loop.engine.pool.manager.used == 0


def test_an_event_cancels_too(loop: EngineLoop, gate: _Gate) -> None:
    cancel = threading.Event()
    handle = loop.submit([5, 6], max_new_tokens=200, eos_token_ids=[], cancel=cancel)
    gate.let_through(2)
    assert isinstance(next(handle), Token) and isinstance(next(handle), Token)
    cancel.set()
    gate.let_through()
    output = handle.result(WAIT)
    assert output.finish_reason == "cancelled" and 2 <= len(output.token_ids) <= 3


def test_a_full_queue_refuses_or_lets_wait(loop: EngineLoop, gate: _Gate) -> None:
    handles = [loop.submit([5], max_new_tokens=2, eos_token_ids=[])]
    assert gate.entered.acquire(timeout=WAIT)  # the first runs; who comes now waits until its step is over
    handles += [loop.submit([5], max_new_tokens=2, eos_token_ids=[]) for _ in range(8)]
    with pytest.raises(QueueFull, match="8 requests wait for room already"):
        loop.submit([5], max_new_tokens=2)
    late: list[RequestHandle] = []
    thread = threading.Thread(
        target=lambda: late.append(loop.submit([5], max_new_tokens=2, eos_token_ids=[], wait=True))
    )
    thread.start()
    gate.let_through()
    thread.join(WAIT)
    assert {len(handle.result(WAIT).token_ids) for handle in (*handles, *late)} == {2}
    assert len(late) == 1


def test_stopping_waits_for_those_that_are_there_and_takes_no_more(loop: EngineLoop, gate: _Gate) -> None:
    handle = loop.submit([5], max_new_tokens=4, eos_token_ids=[])
    assert not loop.stop(timeout=0.0)
    with pytest.raises(EngineClosed, match="takes no more requests"):
        loop.submit([5], max_new_tokens=2)
    gate.let_through()
    assert loop.stop(timeout=WAIT)
    assert handle.result(0.0).finish_reason == "length"


def test_stopping_at_once_cancels(loop: EngineLoop, gate: _Gate) -> None:
    handles = [loop.submit([5], max_new_tokens=4, eos_token_ids=[]) for _ in range(6)]
    assert gate.entered.acquire(timeout=WAIT)
    assert not loop.stop(cancel=True, timeout=0.0)
    gate.let_through()
    assert loop.stop(timeout=WAIT)
    assert {handle.result(0.0).finish_reason for handle in handles} == {"cancelled"}


def test_leaving_the_loop_waits_for_what_was_submitted(random_model: Model) -> None:
    with EngineLoop(BatchEngine(random_model, blocks=64)) as loop:
        handle = loop.submit([5], max_new_tokens=4, eos_token_ids=[])
    assert handle.is_done and len(handle.result().token_ids) == 4


def test_the_thread_ends_when_there_is_nothing_to_do_and_comes_back(loop: EngineLoop) -> None:
    for _ in range(3):
        assert len(loop.submit([5], max_new_tokens=2, eos_token_ids=[]).result(WAIT).token_ids) == 2
        with loop._changed:
            assert loop._changed.wait_for(lambda: loop._thread is None, WAIT)


def test_a_step_that_fails_ends_those_that_ran_and_no_others(loop: EngineLoop, gate: _Gate) -> None:
    gate.fails = RuntimeError("out of memory")
    first = loop.submit([5], max_new_tokens=2, eos_token_ids=[])
    assert gate.entered.acquire(timeout=WAIT)
    second = loop.submit([5], max_new_tokens=2, eos_token_ids=[])
    gate.let_through()
    for call in (lambda: first.result(WAIT), lambda: next(first)):
        with pytest.raises(
            EngineError, match="step that this request took part in failed: RuntimeError: out of memory"
        ):
            call()
    assert len(second.result(WAIT).token_ids) == 2


def test_a_constraint_that_fails_ends_its_own_request(loop: EngineLoop) -> None:
    class Breaks:
        filled = 0

        def fill_mask(self, row: Any) -> None:
            self.filled += 1
            if self.filled == 3:
                raise ValueError("too deep")
            row[:] = 0xFFFFFFFF

        def accept(self, token: int) -> None: ...

        def is_accepting(self) -> bool:
            return False

        def is_finished(self) -> bool:
            return False

    bad = loop.submit([5], constraint=Breaks(), max_new_tokens=9, eos_token_ids=[])
    good = loop.submit([5], max_new_tokens=9, eos_token_ids=[])
    with pytest.raises(ValueError, match="too deep"):
        bad.result(WAIT)
    assert len(good.result(WAIT).token_ids) == 9


def test_a_listener_hears_every_token_and_the_end_whenever_it_comes(loop: EngineLoop) -> None:
    handle = loop.submit([5], max_new_tokens=6, eos_token_ids=[])
    early: list[Token | None] = []
    handle.listen(early.append)
    output = handle.result(WAIT)
    late: list[Token | None] = []
    handle.listen(late.append)
    assert early == late == [*(Token(token) for token in output.token_ids), None]


def test_a_listener_that_raises_is_dropped_and_its_request_cancelled(loop: EngineLoop, gate: _Gate) -> None:
    handle = loop.submit([5], max_new_tokens=200, eos_token_ids=[])

    def listener(token: Token | None) -> None:
        raise ConnectionError("the client has gone")

    handle.listen(listener)
    gate.let_through()
    assert handle.result(WAIT).finish_reason == "cancelled"


def test_a_request_that_waits_for_its_mask_can_be_cancelled(random_model: Model) -> None:
    may_go_on = threading.Event()

    class Slow:
        accepted = 0

        def fill_mask(self, row: Any) -> None:
            if self.accepted == 2:
                assert may_go_on.wait(60)
            row[:] = 2**32 - 1

        def accept(self, token: int) -> None:
            self.accepted += 1

        def is_accepting(self) -> bool:
            return False

        def is_finished(self) -> bool:
            return False

    with EngineLoop(BatchEngine(random_model, blocks=64, block_size=4)) as loop:
        handle = loop.submit([5], constraint=Slow(), max_new_tokens=9, eos_token_ids=[])
        tokens = [next(handle), next(handle)]
        handle.cancel()
        assert handle.wait(30)
        assert handle.result().finish_reason == "cancelled"
        assert handle.result().token_ids == [token.token_id for token in tokens]
        assert loop.usage().used_blocks == 0
        may_go_on.set()


def test_waiting_has_an_end(loop: EngineLoop, gate: _Gate) -> None:
    handle = loop.submit([5], max_new_tokens=2, eos_token_ids=[])
    with pytest.raises(TimeoutError, match=r"not finished after 0\.01 s"):
        handle.result(0.01)
    gate.let_through()
    assert len(handle.result(WAIT).token_ids) == 2


def test_what_is_refused_is_refused_at_once(loop: EngineLoop) -> None:
    with pytest.raises(ContextError):
        loop.submit([5] * 300)
    with pytest.raises(EngineError, match="max_waiting=0"):
        EngineLoop(loop.engine, max_waiting=0)


def test_the_engine_says_what_is_in_use(loop: EngineLoop, gate: _Gate) -> None:
    handle = loop.submit(list(range(3, 9)), max_new_tokens=10, eos_token_ids=[])
    gate.let_through(1)
    next(handle)
    assert gate.entered.acquire(timeout=WAIT) and gate.entered.acquire(timeout=WAIT)
    usage = loop.usage()
    assert (usage.running, usage.waiting, usage.max_sequences, usage.blocks, usage.block_size) == (1, 0, 4, 64, 4)
    assert (usage.used_blocks, usage.promised_blocks, usage.slots) == (2, 2, 6)
    assert usage.filled == 6 / 8
    gate.let_through()
    handle.result(WAIT)
    assert loop.stop(timeout=WAIT)
    assert (loop.usage().used_blocks, loop.usage().filled, loop.usage().kept_blocks) == (0, 0.0, 3)


LEAVES = """
from engine.batching import BatchEngine, EngineLoop
from engine.config import ModelConfig
from engine.loading.random_weights import random_model

config = ModelConfig.from_huggingface({
    "model_type": "llama", "vocab_size": 97, "hidden_size": 480, "intermediate_size": 2048, "num_hidden_layers": 3,
    "num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 128, "tie_word_embeddings": True,
})
loop = EngineLoop(BatchEngine(random_model(config, device="cpu", dtype="float32"), blocks=64))
next(iter(loop.submit([1, 2, 3], max_new_tokens=100, eos_token_ids=[])))
print("leaving")
"""


def test_a_program_may_end_in_the_middle_of_a_request() -> None:
    done = subprocess.run([sys.executable, "-c", LEAVES], capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.returncode) == ("leaving\n", 0), done.stderr
