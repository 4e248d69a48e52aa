"""Threads that want rows of one machine take turns in the middle of what each makes."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from constrained import Limits, Vocabulary, compile
from constrained.masks import row_store
from constrained.turn_lock import TurnLock
from grammars import JsonSchema

PATTERNS = ["^(.*a.{6}b|.*c.{7}d)$", "^(.{0,9}[xy].{3}z)+$", "^([ab]{2}.*[0-9]{4}|.*q.{5}r)$", "^(.*e.{4}f.*g)$"]


def _schema(pattern: str) -> JsonSchema:
    properties: dict[str, Any] = {"a": {"type": "string", "pattern": pattern}, "b": {"type": "integer", "maximum": 77}}
    return JsonSchema({"properties": properties, "required": ["a", "b"], "additionalProperties": False})


def _walk(vocabulary: Vocabulary, limits: Limits, number: int) -> list[NDArray[np.uint32]]:
    """The masks on a random way through the texts of a schema."""
    matcher = compile(_schema(PATTERNS[number]), vocabulary, limits).matcher()
    choose, masks = random.Random(number), []
    for _ in range(40):
        row = np.zeros(vocabulary.row_words, dtype=np.uint32)
        matcher.fill_mask(row)
        masks.append(row)
        allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
        matcher.accept(int(choose.choice(allowed)))
        if matcher.is_finished():
            break
    return masks


def test_rows_made_in_turns_are_those_made_alone(
    default_vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = [_walk(default_vocabulary, Limits(stack_depth=100), number) for number in range(4)]
    turns = 0
    give_way = TurnLock.give_way

    def counted(lock: TurnLock) -> None:
        nonlocal turns
        turns += 1
        give_way(lock)

    monkeypatch.setattr(TurnLock, "give_way", counted)
    monkeypatch.setattr(TurnLock, "is_wanted", property(lambda lock: lock._depth == 1))  # always
    monkeypatch.setattr(row_store, "_TURN", 0.0)
    limits = Limits(stack_depth=101)  # another store
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(lambda number: _walk(default_vocabulary, limits, number), range(4)))
    assert turns > 5
    for first, second in zip(alone, together, strict=True):
        assert len(first) == len(second)
        for one, other in zip(first, second, strict=True):
            assert (one == other).all()
