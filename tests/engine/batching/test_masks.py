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
    @staticmethod
    def fill_rows(constraints: Any, rows: Any) -> None:
        BATCHES.append(len(constraints))
        for constraint, row in zip(constraints, rows, strict=True):
            constraint.fill_mask(row)


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
        # At the limit the mask says how the text ends, so the last is filled at once, as the first is.
        beside = [False, *[threaded] * 4, False]
        assert [name.startswith("masks") for name in constraint.threads] == beside
    assert ([6] * 4 if kind is Together else []) == BATCHES


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
