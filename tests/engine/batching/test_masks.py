"""Masks are filled while the model runs, and come out as if they were not."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import torch

from engine import generate
from engine.batching import BatchEngine
from engine.model import Model
from engine.speculation.lookups import NGram
from engine.speculation.speculation import Speculation

BATCHES: list[int] = []


class Bounded:
    """Allows tokens from 3 up to a bound; breaks where it is told to."""

    def __init__(self, bound: int, breaks_at: int = -1) -> None:
        self.bound, self.breaks_at, self.accepted = bound, breaks_at, 0
        self.threads: list[str] = []

    def fill_mask(self, row: Any) -> None:
        self.threads.append(threading.current_thread().name)
        if self.accepted == self.breaks_at:
            raise ValueError("broken")
        row[:] = 0
        for token in range(3, self.bound):
            row[token // 32] |= np.uint32(1 << token % 32)

    def accept(self, token: int) -> None:
        assert 3 <= token < self.bound
        self.accepted += 1

    def is_accepting(self) -> bool:
        return False

    def is_finished(self) -> bool:
        return False


class Together(Bounded):
    """Knows the masks of odd bounds."""

    @staticmethod
    def fill_rows(constraints: Any, rows: Any) -> list[int]:
        BATCHES.append(len(constraints))
        for constraint, row in zip(constraints, rows, strict=True):
            if constraint.bound % 2:
                constraint.fill_mask(row)
        return [at for at, constraint in enumerate(constraints) if not constraint.bound % 2]


class Slow(Bounded):
    """Has no mask behind its second token until it may."""

    def __init__(self, bound: int, breaks_at: int = -1) -> None:
        super().__init__(bound, breaks_at)
        self.may_go_on = threading.Event()

    def fill_mask(self, row: Any) -> None:
        if self.accepted == 2:
            assert self.may_go_on.wait(60)
        super().fill_mask(row)


@pytest.mark.parametrize("threaded", [True, False])
@pytest.mark.parametrize("kind", [Bounded, Together])
def test_each_row_is_held_to_its_own_mask(random_model: Model, kind: Any, threaded: bool) -> None:
    BATCHES.clear()
    engine = BatchEngine(random_model, blocks=64, mask_thread=threaded)
    constraints = [kind(10 + at) for at in range(6)]
    requests = [
        engine.add([5], constraint=constraint, max_new_tokens=5, eos_token_ids=[]) for constraint in constraints
    ]
    requests.append(engine.add([5], max_new_tokens=5, eos_token_ids=[]))
    engine.run()
    for at, request in enumerate(requests):
        constraint = kind(10 + at) if at < 6 else None
        alone = generate(random_model, [5], constraint=constraint, max_new_tokens=5, eos_token_ids=[]).result()
        assert engine.result(request).token_ids == alone.token_ids
    for constraint in constraints:
        # At the limit the mask says how the text ends: the last is wanted before the next pass, and found where it is known.
        is_known = kind is Together and constraint.bound % 2 == 1
        beside = [False, *[threaded] * 4, threaded and not is_known]
        assert [name.startswith("masks") for name in constraint.threads] == beside
    assert ([6] * 5 if kind is Together and threaded else []) == BATCHES


@pytest.mark.parametrize("kind", [Bounded, Together])
def test_a_mask_that_cannot_be_filled_ends_its_own_request(random_model: Model, kind: Any) -> None:
    engine = BatchEngine(random_model, blocks=64)
    requests = [
        engine.add([5], constraint=kind(40, breaks_at=2 if at == 1 else -1), max_new_tokens=5, eos_token_ids=[])
        for at in range(3)
    ]
    engine.run()
    with pytest.raises(ValueError, match="broken"):
        engine.result(requests[1])
    assert len(requests[1].sequence.output) == 2
    assert [len(engine.result(requests[at]).token_ids) for at in (0, 2)] == [5, 5]
    assert engine.pool.manager.used == 0


@pytest.mark.parametrize("speculates", [False, True])
def test_others_go_on_while_a_mask_is_made_that_takes_long(random_model: Model, speculates: bool) -> None:
    engine = BatchEngine(random_model, blocks=64)
    slow = Slow(40)
    alone = generate(random_model, [5], constraint=Bounded(40), max_new_tokens=6, eos_token_ids=[]).result()
    speculation = Speculation(NGram()) if speculates else None
    waiting = engine.add([5], constraint=slow, max_new_tokens=6, eos_token_ids=[], speculation=speculation)
    others = [engine.add([7 + at], constraint=Bounded(30), max_new_tokens=9, eos_token_ids=[]) for at in range(2)]
    late = engine.add([9], max_new_tokens=2, eos_token_ids=[])
    while not all(request.is_finished for request in (*others, late)):
        assert engine.step()
    assert len(waiting.sequence.output) == 2 and not waiting.is_finished
    assert engine.step()  # nobody else is there: it is waited for, for a while
    slow.may_go_on.set()
    engine.run()
    assert engine.result(waiting).token_ids == alone.token_ids
    for at, request in enumerate(others):
        own = generate(random_model, [7 + at], constraint=Bounded(30), max_new_tokens=9, eos_token_ids=[]).result()
        assert engine.result(request).token_ids == own.token_ids
    assert engine.pool.manager.used == 0


def test_a_request_whose_mask_is_late_can_be_cancelled_and_may_fail(random_model: Model) -> None:
    engine = BatchEngine(random_model, blocks=64)
    constraints = [Slow(40), Slow(40, breaks_at=2)]
    leaves, fails = [engine.add([5], constraint=one, max_new_tokens=6, eos_token_ids=[]) for one in constraints]
    while len(fails.sequence.output) < 2 or fails.making is None:
        assert engine.step()
    engine.cancel(leaves)
    assert engine.result(leaves).finish_reason == "cancelled"
    for constraint in constraints:
        constraint.may_go_on.set()
    engine.run()
    with pytest.raises(ValueError, match="broken"):
        engine.result(fails)
    assert engine.result(leaves).finish_reason == "cancelled"
    assert engine.pool.manager.used == 0


def test_masks_that_take_long_do_not_wait_for_each_other(random_model: Model) -> None:
    engine = BatchEngine(random_model, blocks=64)
    stuck, free = Slow(40), Slow(30)
    free.may_go_on.set()
    first = engine.add([5], constraint=stuck, max_new_tokens=6, eos_token_ids=[])
    second = engine.add([6], constraint=free, max_new_tokens=6, eos_token_ids=[])
    while not second.is_finished:
        assert engine.step()
    assert not first.is_finished
    stuck.may_go_on.set()
    engine.run()
    assert len(engine.result(first).token_ids) == 6


def test_a_forward_pass_that_fails_waits_for_the_masks(random_model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = BatchEngine(random_model, blocks=64)
    constraint = Bounded(40)
    engine.add([5], constraint=constraint, max_new_tokens=5, eos_token_ids=[])
    engine.step()

    def fails(*arguments: Any, **options: Any) -> torch.Tensor:
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(random_model, "forward", fails)
        with pytest.raises(RuntimeError, match="out of memory"):
            engine.step()
    assert len(constraint.threads) == 2
