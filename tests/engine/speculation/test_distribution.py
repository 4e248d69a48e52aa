"""Texts with guesses are distributed as without: every proposer, blocks of 1 to 8 guesses, every processor, a constraint."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache as memoised
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from engine import Sampling, generate
from engine.sampling import Sampler, SamplerRow
from engine.speculation import (
    Combined,
    DraftModel,
    EarlyExit,
    Forced,
    HeadProposer,
    NGram,
    Proposer,
    Speculation,
    Suffix,
    Universal,
)
from tests.engine.speculation.toys import Automaton, Guesser, ToyModel

VOCAB, PROMPT, LENGTH, TRIALS = 4, [1, 2, 1], 5, 18
"""So many trials for each length of blocks; what is looked at are the first tokens of longer texts, so
that blocks are as long as they may be."""

EVERYTHING: dict[str, Any] = {
    "temperature": 1.3, "top_k": 3, "top_p": 0.97, "min_p": 0.01, "typical_p": 0.99, "repetition_penalty": 1.2,
    "presence_penalty": 0.3, "frequency_penalty": 0.2, "no_repeat_ngram": 4, "logit_bias": {1: 0.4, 3: -0.3},
    "banned_tokens": [0],
}  # fmt: skip


class StatefulToy(ToyModel):
    """A toy whose hidden state is its logits, and whose first layer is another toy."""

    def __init__(self, seed: int = 1) -> None:
        super().__init__(seed, sharpness=0.8, vocab=VOCAB)
        self.config = SimpleNamespace(vocab_size=VOCAB, context_length=10_000, eos_token_ids=(), layers=2)
        self.first_layer = torch.randn(VOCAB, VOCAB, VOCAB, generator=torch.Generator().manual_seed(9))
        self.step_bytes, self.text = 3, None

    def layer_bytes(self, layers: int) -> int:
        return layers

    def forward(self, input_ids: Tensor, cache: Any, *, logits: Any = "last", layers: int | None = None) -> Tensor:
        if layers is None:
            return super().forward(input_ids, cache, logits=logits)
        whole, self.table = self.table, self.first_layer
        try:
            return super().forward(input_ids, cache, logits=logits)
        finally:
            self.table = whole

    def states(self, input_ids: Tensor, cache: Any) -> Tensor:
        return self.forward(input_ids, cache, logits=input_ids.shape[1])

    def head(self, hidden: Tensor) -> Tensor:
        return hidden

    def embed(self, input_ids: Tensor) -> Tensor:
        return F.one_hot(input_ids, VOCAB).float()


def _toy_head(state: Tensor, embedding: Tensor) -> Tensor:
    """Guesses from the token alone, a little from where it came from."""
    table = torch.randn(VOCAB, VOCAB, generator=torch.Generator().manual_seed(7))
    return embedding @ table + 0.1 * state


def _nonsense(tokens: list[int], most: int) -> list[int]:
    rng = np.random.default_rng(tokens)
    return [int(token) for token in rng.integers(1, VOCAB, most if rng.random() < 0.3 else 0)]


class Digits:
    """A tokenizer whose tokens are digits."""

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return [int(digit) for digit in text.strip()]

    def decode(self, token_ids: Any, skip_special_tokens: bool = True) -> str:
        return "".join(map(str, token_ids))


def proposers(sampled: bool) -> dict[str, Callable[[StatefulToy], Proposer]]:
    def draft(seed: int) -> DraftModel:
        return DraftModel(ToyModel(seed, sharpness=0.8, vocab=VOCAB), VOCAB, sampled=sampled)

    return {
        "draft": lambda model: draft(2),
        "early exit": lambda model: EarlyExit(model, 1, sampled=sampled),
        "a head": lambda model: HeadProposer(model, _toy_head, sampled=sampled),
        "forced, look-ups and a draft": lambda model: Combined([Forced(), NGram(), Suffix(), draft(3)]),
        "nonsense and a head": lambda model: Combined(
            [Guesser(_nonsense), HeadProposer(model, _toy_head, sampled=sampled)]
        ),
    }


def allowed(text: tuple[int, ...]) -> set[int]:
    """A constraint that looks at the last two tokens; after 2 2 it dictates 1."""
    if text[-2:] == (2, 2):
        return {1}
    return {1, 2} if text and text[-1] == 3 else {1, 2, 3}


def _first(model: StatefulToy, proposer: Proposer | None, seed: int, block: int, constrained: bool) -> tuple[int, ...]:
    """The first tokens of a text that goes on."""
    stream = generate(
        model, PROMPT, sampling=Sampling(**EVERYTHING, seed=seed), max_new_tokens=LENGTH + block + 4, eos_token_ids=[],
        constraint=Automaton(allowed) if constrained else None,
        speculation=None if proposer is None else Speculation(proposer, block),
    )  # fmt: skip
    with stream:
        return tuple(next(stream).token_id for _ in range(LENGTH))


@memoised
def exact(constrained: bool) -> np.ndarray:
    """The joint distribution of the first tokens, prefix by prefix."""
    model, joint = StatefulToy(), np.ones(())
    for at in range(LENGTH):
        longer = np.zeros((VOCAB,) * (at + 1))
        for prefix in np.ndindex(*(VOCAB,) * at):
            if joint[prefix] == 0:
                continue
            sampler = Sampler([SamplerRow(Sampling(**EVERYTHING, seed=1), PROMPT)], VOCAB)
            for token in prefix:
                sampler.commit([int(token)])
            mask = np.array([[sum(1 << token for token in allowed(prefix))]], np.uint32) if constrained else None
            logits = model.after([*PROMPT, *prefix]).unsqueeze(0)
            longer[prefix] = joint[prefix] * sampler.probabilities(logits, mask)[0].double().numpy()
        joint = longer
    return joint


@pytest.mark.parametrize("name", proposers(True))
def test_drawn_guesses_leave_the_distribution_as_it_is(name: str, assert_distributed: Any) -> None:
    model, seed = StatefulToy(), 0
    proposer = proposers(True)[name](model)
    counts = np.zeros((VOCAB,) * LENGTH)
    for block in range(1, 9):
        for _ in range(TRIALS):  # every other one under the constraint
            counts[_first(model, proposer, seed, block, seed % 2 == 1)] += 1
            seed += 1
    joint = (exact(False) + exact(True)) / 2
    for at in range(LENGTH - 1):  # neighbours
        others = tuple(other for other in range(LENGTH) if other not in (at, at + 1))
        assert_distributed(counts.sum(axis=others), joint.sum(axis=others))
    common = joint * seed >= 5  # texts that are seldom share a cell, as Pearson's test wants it
    assert_distributed(
        np.array([*counts[common], counts[~common].sum()]), np.array([*joint[common], joint[~common].sum()])
    )


def test_the_check_tells_a_rule_that_takes_every_guess(
    monkeypatch: pytest.MonkeyPatch, assert_distributed: Any
) -> None:
    """Drawn guesses that are all accepted have the draft's distribution, and that is found out."""
    from engine.sampling import sampler

    monkeypatch.setattr(sampler, "couple", lambda p, q, guesses, accept, draw: guesses)
    with pytest.raises(AssertionError):
        test_drawn_guesses_leave_the_distribution_as_it_is("draft", assert_distributed)


@pytest.mark.parametrize("block", range(1, 9))
def test_guesses_that_were_not_drawn_give_the_same_text_for_a_seed(block: int) -> None:
    model, text = StatefulToy(), Digits()
    makers = proposers(False) | {
        "universal": lambda model: Universal(ToyModel(2, sharpness=0.8, vocab=VOCAB), text, text),
    }
    for seed in (block, block + 8):
        for constrained in (False, True):
            plain = _first(model, None, seed, block, constrained)
            for name, make in makers.items():
                assert _first(model, make(model), seed, block, constrained) == plain, (name, seed, constrained)
