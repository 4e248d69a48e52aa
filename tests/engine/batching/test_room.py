from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engine.batching import room
from engine.batching.room import CPU_MOST, blocks_for
from engine.errors import EngineError

BLOCK = 16 * 1000 * 2


def _model(context: int = 1 << 20) -> Any:
    config = SimpleNamespace(kv_values_per_token=1000, context_length=context)
    return SimpleNamespace(config=config, dtype=torch.bfloat16, device=torch.device("cpu"))


def test_the_default_is_a_quarter_of_what_is_available_up_to_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_available_to_group", lambda: float("inf"))
    for available in (2**30, 2**33, 2**40):
        monkeypatch.setattr(room, "_available_to_all", lambda available=available: available)
        assert blocks_for(_model(), None, 64) == min(available // 4, CPU_MOST) // BLOCK


def test_a_container_s_limit_counts_where_it_is_the_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_available_to_all", lambda: 2**40)
    monkeypatch.setattr(room, "_available_to_group", lambda: 2**28)
    assert blocks_for(_model(), None, 64) == 2**26 // BLOCK


def test_no_more_than_whole_contexts_of_all_sequences_and_exactly_what_is_asked_for() -> None:
    assert blocks_for(_model(context=33), None, 4) == 4 * 3
    assert blocks_for(_model(), 10 * BLOCK + 1, 4) == 10
    with pytest.raises(EngineError, match="kv_memory"):
        blocks_for(_model(), BLOCK - 1, 4)
