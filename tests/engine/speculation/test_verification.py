from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.sampling import Sampler, SamplerRow, Sampling, race
from engine.sampling.coupling import Guess, couple, residual
from engine.sampling.uniform import GUESS_LANE, uniform
from engine.speculation.verification import verify

VOCAB, TRIALS = 6, 200_000
Check = Callable[[np.ndarray, np.ndarray], None]


def _tables(seed: int, allowed: Tensor | None = None, sharpness: float = 1.5) -> Tensor:
    """Next-token distributions after each token: float32 [vocab, vocab]."""
    logits = torch.randn(VOCAB, VOCAB, generator=torch.Generator().manual_seed(seed)) * sharpness
    if allowed is not None:
        logits = logits.masked_fill(~allowed, -torch.inf)
    return logits.softmax(-1)


ALLOWED = torch.rand(VOCAB, VOCAB, generator=torch.Generator().manual_seed(9)) < 0.5
ALLOWED.fill_diagonal_(True)


def _pairs(p: Tensor, steps: int) -> list[np.ndarray]:
    """The joint distributions of neighbours in a chain that begins behind token 0."""
    marginal, joints = p[0].double(), []
    for _ in range(steps):
        joint = marginal.unsqueeze(-1) * p.double()
        joints.append(joint.numpy())
        marginal = joint.sum(0)
    return joints


def _speculate(p: Tensor, q: Tensor, block: int, length: int, seed: int, uneven: bool, trials: int = TRIALS) -> Tensor:
    """`length` tokens of many sequences at once, [trials, length], by blocks of guesses from `q` until all are there."""
    generator = torch.Generator().manual_seed(seed)
    text = torch.zeros(trials, length + block + 1, dtype=torch.int64)
    ends = torch.zeros(trials, dtype=torch.int64)  # position of the last token; position 0 is the prompt's

    def uniforms(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    running = torch.arange(trials)
    while len(running):
        count = len(running)
        lasts = [text[running, ends[running]]]
        for _ in range(block):
            lasts.append(race.draw(q[lasts[-1]], uniforms(count)))
        drafts = torch.stack(lasts[1:], 1)
        before = torch.stack(lasts, 1)
        lengths = (uniforms(count) * (block + 1)).long() if uneven else torch.full((count,), block)
        verdict = verify(p[before], q[before[:, :-1]], drafts, lengths, uniforms(2, count, block + 1))
        begin = ends[running] + 1
        for j in range(block):  # what is beyond the accepted ones is written over by the next block
            text[running, begin + j] = drafts[:, j]
        text[running, begin + verdict.accepted] = verdict.next_tokens
        ends[running] = begin + verdict.accepted
        running = running[ends[running] < length]
    return text[:, 1 : length + 1]


@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("block", range(1, 9))
def test_tokens_of_blocks_are_distributed_as_tokens_drawn_one_by_one(
    block: int, constrained: bool, assert_distributed: Check
) -> None:
    allowed = ALLOWED if constrained else None
    p, q = _tables(1, allowed), _tables(2, allowed)
    length, trials = block + 1, TRIALS if constrained else TRIALS // 5
    text = _speculate(p, q, block, length, seed=block, uneven=block % 2 == 0, trials=trials).numpy()
    assert_distributed(np.bincount(text[:, 0], minlength=VOCAB), p[0].numpy())
    for at, expected in enumerate(_pairs(p, length - 1)):
        counts = np.bincount(text[:, at] * VOCAB + text[:, at + 1], minlength=VOCAB * VOCAB)
        assert_distributed(counts, expected)


def test_a_greedy_target_gives_its_best_tokens_whatever_is_proposed() -> None:
    best = _tables(1).argmax(-1)
    p = torch.nn.functional.one_hot(best, VOCAB).float()
    text = _speculate(p, _tables(2), 4, 8, seed=3, uneven=True, trials=2000)
    expected, last = [], 0
    for _ in range(8):
        last = int(best[last])
        expected.append(last)
    assert (text == torch.tensor(expected)).all()


def test_a_target_that_proposes_for_itself_accepts_everything() -> None:
    p = _tables(1)
    guesses = torch.tensor([[1, 2, 3]])
    rows = torch.stack([p[0], p[1], p[2], p[3]]).unsqueeze(0)
    verdict = verify(rows, rows[:, :3], guesses, torch.tensor([3]), torch.full((2, 1, 4), 0.999, dtype=torch.float64))
    assert verdict.accepted.tolist() == [3]


def test_an_empty_block_is_a_draw() -> None:
    trials = 500
    p = _tables(1)[:1].expand(trials, 1, VOCAB)
    uniforms = torch.rand(2, trials, 1, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    nothing = torch.zeros(trials, 0, dtype=torch.int64)
    verdict = verify(p, torch.zeros(trials, 0, VOCAB), nothing, torch.zeros(trials, dtype=torch.int64), uniforms)
    assert (verdict.next_tokens == race.draw(p[:, 0], uniforms[1, :, 0])).all()
    assert not verdict.accepted.any()


@pytest.mark.parametrize(
    ("p", "q", "kept"), [(0.3, 0.6, 0.5), (0.6, 0.3, 1.0), (0.0, 0.4, 0.0), (0.4, 0.4, 1.0), (0.2, 1.0, 0.2)]
)
def test_a_guess_is_kept_with_the_ratio_of_its_probabilities_at_most_1(p: float, q: float, kept: float) -> None:
    def of(mass: float) -> Tensor:
        return torch.tensor([mass, 1 - mass, 0.0]).expand(1001, 3)

    accept = torch.arange(1001, dtype=torch.float64) / 1001
    tokens = couple(of(p), of(q), torch.zeros(1001, dtype=torch.int64), accept, accept.flip(0))
    assert abs(float((tokens == 0).double().mean()) - kept) < 0.002
    assert set(tokens.tolist()) <= {0, 1}


def test_what_is_refused_comes_from_the_positive_residual() -> None:
    p, q = torch.tensor([0.5, 0.3, 0.2, 0.0]), torch.tensor([0.1, 0.6, 0.1, 0.2])
    assert residual(p, q).tolist() == pytest.approx([0.8, 0.0, 0.2, 0.0])
    assert residual(p, p).tolist() == p.tolist()
    one_hot = torch.tensor([0.0, 1.0, 0.0, 0.0])
    assert residual(p, one_hot).tolist() == pytest.approx([5 / 7, 0.0, 2 / 7, 0.0])


PROCESSED = {
    "plain": {},
    "penalties": {"repetition_penalty": 1.4, "presence_penalty": 0.5, "frequency_penalty": 0.7},
    "bigrams": {"no_repeat_ngram": 2},
    "truncated": {"temperature": 0.8, "top_k": 5, "top_p": 0.9, "min_p": 0.05, "typical_p": 0.95},
    "everything": {
        "temperature": 1.3, "top_k": 5, "top_p": 0.95, "min_p": 0.02, "typical_p": 0.97, "repetition_penalty": 1.3,
        "presence_penalty": 0.3, "frequency_penalty": 0.2, "no_repeat_ngram": 2, "logit_bias": {1: 0.7, 4: -0.5},
        "banned_tokens": [5],
    },
}  # fmt: skip


@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("kind", PROCESSED)
def test_with_every_processor_the_sampler_draws_what_it_draws_without_guesses(
    kind: str, constrained: bool, assert_distributed: Check
) -> None:
    length, trials = 3, 12_000
    target, draft = (torch.randn(VOCAB, VOCAB, generator=torch.Generator().manual_seed(seed)) for seed in (3, 4))
    options: dict[str, Any] = PROCESSED[kind]
    words = np.zeros((VOCAB, 1), np.uint32)
    for token, allowed in enumerate(ALLOWED.tolist()):
        words[token] = sum(1 << other for other, may in enumerate(allowed) if may)

    def masks(last: Tensor) -> np.ndarray | None:
        return words[last.numpy()] if constrained else None

    def exact() -> np.ndarray:
        """The joint distribution of the tokens, prefix by prefix."""
        joint = np.ones(())
        for at in range(length):
            longer = np.zeros((VOCAB,) * (at + 1))
            for prefix in np.ndindex(*(VOCAB,) * at):
                if joint[prefix] == 0:
                    continue
                row = SamplerRow(Sampling(**options, seed=1), [0])
                sampler = Sampler([row], VOCAB)
                for token in prefix:
                    sampler.commit([int(token)])
                last = torch.tensor([prefix[-1] if prefix else 0])
                longer[prefix] = joint[prefix] * sampler.probabilities(target[last], masks(last))[0].double().numpy()
            joint = longer
        return joint

    rows = [SamplerRow(Sampling(**options, seed=seed), [0]) for seed in range(trials)]
    sampler = Sampler(rows, VOCAB)
    last = torch.zeros(trials, dtype=torch.int64)
    text = []
    for at in range(length):
        q = sampler.probabilities(draft[last], masks(last))
        uniforms = torch.tensor([uniform(row.seed, at, GUESS_LANE) for row in rows], dtype=torch.float64)
        guesses = [Guess(token, q[i]) if i % 5 else None for i, token in enumerate(race.draw(q, uniforms).tolist())]
        draws = sampler.sample(target[last], masks(last), guesses=guesses)
        sampler.commit([draw.token_id for draw in draws])
        last = torch.tensor([draw.token_id for draw in draws])
        text.append(last.numpy())
    cells = np.ravel_multi_index(text, (VOCAB,) * length)
    assert_distributed(np.bincount(cells, minlength=VOCAB**length), exact())


@pytest.mark.parametrize("kind", PROCESSED)
def test_tokens_taken_back_leave_no_trace_in_the_processors(kind: str) -> None:
    logits = torch.randn(1, VOCAB, generator=torch.Generator().manual_seed(1))
    sampler = Sampler([SamplerRow(Sampling(**PROCESSED[kind], seed=1), [0, 1, 2])], VOCAB)
    sampler.commit([2])
    before = sampler.probabilities(logits)
    for token in (2, 3, 2, 0):
        sampler.commit([token])
    sampler.rollback([4])
    assert torch.equal(sampler.probabilities(logits), before)
    sampler.commit([2])
    fresh = Sampler([SamplerRow(Sampling(**PROCESSED[kind], seed=1), [0, 1, 2])], VOCAB)
    fresh.commit([2])
    fresh.commit([2])
    assert torch.equal(sampler.probabilities(logits), fresh.probabilities(logits))
