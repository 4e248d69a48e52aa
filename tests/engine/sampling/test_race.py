"""Draws as races are distributed as they say, and rounding seldom changes one."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from engine.sampling.race import BLOCK, draw
from engine.sampling.uniform import GOLDEN_GAMMA, MASK, mix, uniform

SIZES = [1, 7, BLOCK, BLOCK + 1, 3 * BLOCK - 5]


def some(vocab: int, seed: int = 0, sharpness: float = 1.0) -> Tensor:
    """A distribution that leaves out a third of the tokens, and of a large vocabulary a whole block."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(1, vocab, generator=generator) * sharpness
    logits[0, 1::3] = -torch.inf
    logits[0, BLOCK : 2 * BLOCK - 9] = -torch.inf
    return logits.softmax(-1)


def numbers(count: int, seed: int = 1) -> Tensor:
    return torch.tensor([uniform(seed, step) for step in range(count)], dtype=torch.float64)


def chi_square_quantile(freedom: int) -> float:
    """The 0.999 quantile, by Wilson and Hilferty."""
    spread = 2 / (9 * freedom)
    return float(freedom * (1 - spread + 3.09 * spread**0.5) ** 3)


def slow(probs: list[float], number: float) -> int:
    """The same, a token at a time."""

    def time(key: int, place: int) -> float:
        state = mix((key + place * GOLDEN_GAMMA) & MASK)
        return -math.log(((state >> 12) + 0.5) / 2**52)

    key = int(number * 2**48)
    start = 0
    if len(probs) > BLOCK:
        masses = [math.fsum(probs[at : at + BLOCK]) for at in range(0, len(probs), BLOCK)]
        start = BLOCK * max(range(len(masses)), key=lambda block: masses[block] / time(key, BLOCK + block))
    inside = probs[start : start + BLOCK]
    return start + max(range(len(inside)), key=lambda place: inside[place] / time(key, place))


@pytest.mark.parametrize("vocab", SIZES)
def test_draws_are_distributed_as_they_say(vocab: int) -> None:
    probs, count = some(vocab), 60_000
    drawn = [draw(probs.expand(len(part), -1), part) for part in numbers(count).split(4000)]
    seen = torch.bincount(torch.cat(drawn), minlength=vocab)
    there = probs[0] > 0
    assert not seen[~there].any()
    if vocab > 1:
        expected = probs[0][there].double() * count
        assert float(((seen[there] - expected) ** 2 / expected).sum()) < chi_square_quantile(int(there.sum()) - 1)


@given(st.sampled_from(SIZES), st.integers(0, 9), st.floats(0.0, 1.0 - 2.0**-48))
def test_draws_are_those_of_a_slow_twin(vocab: int, seed: int, number: float) -> None:
    probs = some(vocab, seed)
    assert int(draw(probs, torch.tensor([number], dtype=torch.float64))) == slow(probs[0].tolist(), number)


@given(st.integers(0, 99), st.floats(0.0, 1.0 - 2.0**-48), st.sampled_from([1.0, 1e-30, 1e20]))
def test_a_draw_never_yields_a_token_of_probability_zero(seed: int, number: float, mass: float) -> None:
    probs = some(700, seed, sharpness=30.0) * mass
    assert probs[0, int(draw(probs, torch.tensor([number], dtype=torch.float64)))] > 0


def test_rows_of_a_batch_are_drawn_as_alone() -> None:
    probs, count = torch.cat([some(700, seed) for seed in range(20)]), numbers(20)
    alone = [int(draw(row.unsqueeze(0), number.unsqueeze(0))) for row, number in zip(probs, count, strict=True)]
    assert draw(probs, count).tolist() == alone


def test_rounding_changes_a_draw_about_as_seldom_as_the_distributions_differ() -> None:
    vocab, count = 40_000, 3000
    generator = torch.Generator().manual_seed(4)
    logits = torch.randn(1, vocab, generator=generator) * 2
    for size, most in ((1e-6, 1), (1e-2, 90)):
        other = logits + size * torch.randn(1, vocab, generator=generator)
        p, q = logits.softmax(-1), other.softmax(-1)
        changed = 0
        for part in numbers(count).split(100):
            changed += int((draw(p.expand(100, -1), part) != draw(q.expand(100, -1), part)).sum())
        assert changed <= most
        assert changed <= count * 4 * float((p - q).abs().sum()) + 1
