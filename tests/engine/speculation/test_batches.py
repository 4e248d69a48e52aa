from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine import Sampling, generate
from engine.batching import BatchEngine
from engine.model import Model
from engine.speculation import (
    Combined,
    DraftModel,
    EarlyExit,
    Forced,
    HeadProposer,
    NGram,
    Speculation,
    Suffix,
)
from tests.engine.speculation.toys import Guesser, Stepwise, fitted_head

PROMPTS = [[5, 6, 7, 5, 6], list(range(3, 40)), [9], [11, 12, 13, 11, 12], list(range(60, 90)), [5, 8]]
SAMPLINGS = [
    Sampling(temperature=0.0),
    Sampling(temperature=0.9, seed=4, top_p=0.8),
    Sampling(temperature=1.2, seed=7, repetition_penalty=1.3, presence_penalty=0.4),
    Sampling(temperature=0.0, no_repeat_ngram=2, frequency_penalty=0.3),
    Sampling(temperature=0.7, seed=1, top_k=5, logprobs=2),
    Sampling(temperature=1.0, seed=3, min_p=0.1),
]


class Parity(Stepwise):
    """Tokens of the other parity than the last one, from 3 to a bound; the end (2) from the fourth on."""

    def __init__(self, bound: int) -> None:
        super().__init__(97, 2)
        self.bound = bound

    def next_tokens(self) -> set[int]:
        if self.is_finished():
            return set()
        first = 3 if not self.text or self.text[-1] % 2 == 0 else 4
        return set(range(first, self.bound, 2)) | ({2} if len(self.text) > 3 else set())

    def forced_tokens(self) -> list[int]:
        return []


def _guess(tokens: list[int], most: int) -> list[int]:
    rng = np.random.default_rng(tokens)
    return [int(token) for token in rng.integers(3, 60, most)]


def proposers(model: Model) -> dict[str, Any]:
    return {
        "nonsense": Guesser(_guess),
        "look-ups": Combined([Forced(), NGram(), Suffix()]),
        "itself": DraftModel(model, 97, 1.0, sampled=False),
        "some layers": DraftModel(model.with_layers([0, 2]), 97, 0.7, sampled=False),
        "early exit": EarlyExit(model, 2, sampled=False),
        "a head": HeadProposer(model, fitted_head(model, PROMPTS[0]), sampled=False),
    }


NAMES = ["nonsense", "look-ups", "itself", "some layers", "early exit", "a head"]


@pytest.mark.parametrize("lookahead", [3, 8, "adaptive"])
@pytest.mark.parametrize("name", NAMES)
def test_every_request_gets_what_it_gets_alone_without_speculation(
    random_model: Model, name: str, lookahead: Any
) -> None:
    engine = BatchEngine(random_model, blocks=40, block_size=4, max_sequences=4, chunk=8)
    speculation = Speculation(proposers(random_model)[name], lookahead)
    requests, expected = [], []
    for at, (prompt, sampling) in enumerate(zip(PROMPTS, SAMPLINGS, strict=True)):
        options: dict[str, Any] = {"sampling": sampling, "max_new_tokens": 6 + 2 * at}
        constraint = (lambda at=at: Parity(40 + at)) if at % 2 else (lambda: None)
        expected.append(generate(random_model, prompt, constraint=constraint(), **options).result())
        requests.append(engine.add(prompt, constraint=constraint(), speculation=speculation, group="g", **options))
    while engine.step():
        running = engine.scheduler.running
        engine.pool.manager.check([request.table for request in running])
        assert engine.scheduler.unpromised >= 0
        for request in running:
            assert len(request.table.blocks) == -(-request.computed // 4)
            assert request.pending >= 1
    drafted = 0
    for request, alone in zip(requests, expected, strict=True):
        found = engine.result(request)
        assert (found.token_ids, found.finish_reason) == (alone.token_ids, alone.finish_reason)
        assert len(found.logprobs) == len(alone.logprobs)
        assert len(found.metrics.itl_s) == max(0, len(found.token_ids) - 1)
        assert found.metrics.accepted <= found.metrics.drafted
        drafted += found.metrics.drafted
    assert engine.pool.manager.used == 0
    assert drafted > 0 or lookahead == "adaptive" or name == "look-ups"


def test_rows_accept_different_lengths_in_one_pass(random_model: Model) -> None:
    texts = [
        generate(random_model, [5 + at], max_new_tokens=12, eos_token_ids=[]).result().token_ids for at in range(3)
    ]

    def guess(tokens: list[int], most: int) -> list[int]:
        text = texts[tokens[0] - 5]
        right = text[len(tokens) - 1 :][
            : tokens[0] - 5
        ]  # none of the first row's, one of the second's, two of the third's
        return [*right, *[(token + 1) % 97 for token in text[len(tokens) - 1 + len(right) :]]][:most]

    engine = BatchEngine(random_model, blocks=64, block_size=4)
    speculation = Speculation(Guesser(guess), 4)
    requests = [engine.add([5 + at], max_new_tokens=12, eos_token_ids=[], speculation=speculation) for at in range(3)]
    for _ in range(3):
        engine.step()
    assert engine.forwards == 3
    # The prompts without a draft, then two blocks.
    assert [len(request.sequence.output) for request in requests] == [3, 5, 7]
    engine.run()
    assert [engine.result(request).token_ids for request in requests] == texts


def test_a_proposer_that_fails_ends_its_request_and_no_other(random_model: Model) -> None:
    def broken(tokens: list[int], most: int) -> list[int]:
        raise ValueError("no idea")

    engine = BatchEngine(random_model, blocks=64, block_size=4)
    bad = engine.add([5], max_new_tokens=5, speculation=Speculation(Guesser(broken), 4))
    good = engine.add([6], max_new_tokens=5, eos_token_ids=[])
    engine.run()
    with pytest.raises(ValueError, match="no idea"):
        engine.result(bad)
    assert len(engine.result(good).token_ids) == 5
    assert engine.pool.manager.used == 0


def test_heads_guess_in_batches_what_they_guess_alone(random_model: Model) -> None:
    """With chunks of prompts, prompts that others have computed, and rows that give their blocks back."""
    head = HeadProposer(random_model, fitted_head(random_model, [5, 6, 7, 8, 9, 5]))
    prompts = [[5, 6, 7, 8, 9, 5], list(range(3, 40)), [9, 5, 6], [5, 6, 7, 8, 9, 5]]
    alone = [
        generate(random_model, prompt, max_new_tokens=40, eos_token_ids=[], speculation=Speculation(head, 3)).result()
        for prompt in prompts
    ]
    engine = BatchEngine(random_model, blocks=30, block_size=4, max_sequences=3, chunk=8, admission="optimistic")
    requests = [
        engine.add(prompt, max_new_tokens=40, eos_token_ids=[], speculation=Speculation(head, 3)) for prompt in prompts
    ]
    plain = engine.add([5, 6], max_new_tokens=40, eos_token_ids=[])
    engine.run()
    assert engine.scheduler.preemptions > 0
    for request, expected in zip(requests, alone, strict=True):
        found = engine.result(request)
        assert found.token_ids == expected.token_ids
        assert found.metrics.accepted > 5
        assert request.state is not None and request.state.shape == (48,)
    assert plain.state is None and engine.result(plain).metrics.drafted == 0
