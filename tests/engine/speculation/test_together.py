"""Rows of one pass settle together how far they look ahead."""

from __future__ import annotations

from typing import Any

import pytest

from engine.batching import BatchEngine
from engine.model import Model
from engine.speculation import Speculation
from engine.speculation.lookahead import Costs
from engine.speculation.together import most_for_all
from tests.engine.speculation.toys import Guesser


class Growing(Costs):
    """A pass of n tokens takes 1 + growth · (n - 1), whatever was measured."""

    def __init__(self, growth: float) -> None:
        super().__init__()
        self.growth = growth

    def of(self, rows: int) -> float:
        return 1.0 + self.growth * (rows - 1)

    def record(self, rows: int, seconds: float) -> None:
        """Clocks decide nothing here."""


def _certain(guesses: int) -> list[float]:
    return [1.0 + held for held in range(guesses + 1)]


def test_one_row_alone_looks_as_far_ahead_as_gives_the_most_tokens_for_the_time() -> None:
    worth = [1.0, 1.8, 2.44, 2.95, 3.36]
    for growth in (0.05, 0.2, 0.5, 1.0):
        rates = [tokens / Growing(growth).of(at + 1) for at, tokens in enumerate(worth)]
        assert most_for_all([worth], 1, Growing(growth)) == rates.index(max(rates))


def test_one_row_that_knows_its_text_does_not_make_fifteen_others_wait() -> None:
    costs = Growing(0.08)
    assert most_for_all([_certain(15)], 16, costs) == 0
    assert most_for_all([_certain(15)] * 16, 16, costs) == 15
    assert most_for_all([_certain(15)], 16, Growing(0.0)) == 15  # it costs nobody anything


@pytest.mark.parametrize("rows", [2, 5, 16])
def test_what_rows_without_guesses_lose_is_no_more_than_what_the_others_gain_in_their_product(rows: int) -> None:
    for growth in (0.01, 0.03, 0.1):
        for guessing in range(1, rows + 1):
            costs, worths = Growing(growth), [_certain(6)] * guessing
            guesses = most_for_all(worths, rows, costs)
            slower = costs.of(rows * (guesses + 1)) / costs.of(rows)
            assert slower**rows <= (1 + guesses) ** guessing * 1.000001


def test_a_pass_that_is_wide_in_any_case_is_made_use_of() -> None:
    assert most_for_all([_certain(9)], 16, Growing(0.08), 4) == 4


def _engine(model: Model, know: int, speculation: Any) -> tuple[BatchEngine, list[Any]]:
    engine = BatchEngine(model, blocks=64, block_size=4, max_sequences=8)
    requests = [
        engine.add([5 + at], max_new_tokens=20, eos_token_ids=[], speculation=speculation(at < know)) for at in range(8)
    ]
    return engine, requests


def _texts(model: Model) -> list[list[int]]:
    engine, requests = _engine(model, 0, lambda _: None)
    engine.run()
    return [engine.result(request).token_ids for request in requests]


@pytest.mark.parametrize(("know", "passes_are_wide"), [(1, False), (8, True)])
def test_rows_of_a_batch_are_as_long_as_suits_all_and_get_what_they_get_alone(
    random_model: Model, know: int, passes_are_wide: bool
) -> None:
    texts = _texts(random_model)

    def guess(tokens: list[int], most: int) -> list[int]:
        return texts[tokens[0] - 5][len(tokens) - 1 :][:most]

    costs = Growing(0.08)
    knowing = Speculation(Guesser(guess), "adaptive", costs)
    engine, requests = _engine(random_model, know, lambda knows: knowing if knows else None)
    engine.run()
    assert [engine.result(request).token_ids for request in requests] == texts
    for request in requests[:know]:
        metrics = engine.result(request).metrics
        assert (metrics.drafted > 5) is passes_are_wide
        assert passes_are_wide or metrics.switched_off > 5
    assert (engine.forwards < 18) is passes_are_wide
