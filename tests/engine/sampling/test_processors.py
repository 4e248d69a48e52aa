from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from engine.sampling import processors

NEG = -math.inf


def rows(*values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float32)


def p_of(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def k_of(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.int64)


def kept(logits: Tensor) -> list[list[int]]:
    return [torch.nonzero(row > NEG).flatten().tolist() for row in logits]


def random_logits(seed: int, batch: int = 1, vocab_size: int = 50, masked: float = 0.2) -> Tensor:
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 3, (batch, vocab_size)).astype(np.float32)
    logits[rng.random((batch, vocab_size)) < masked] = NEG
    logits[:, rng.integers(vocab_size)] = 1.0
    return torch.from_numpy(logits)


seeds = st.integers(0, 2**32 - 1)


@given(seeds, st.integers(1, 60))
def test_top_k_keeps_k_tokens_and_none_that_is_less_likely_than_one_dropped(seed: int, k: int) -> None:
    logits = random_logits(seed)
    result = processors.top_k(logits, k_of(k))
    possible = int((logits > NEG).sum())
    assert len(kept(result)[0]) == min(k, possible)
    dropped = logits[(result == NEG) & (logits > NEG)]
    assert dropped.numel() == 0 or dropped.max() <= result[result > NEG].min()


def test_top_k_above_the_vocabulary_and_zero_leave_the_logits_unchanged() -> None:
    logits = random_logits(1, batch=3)
    assert torch.equal(processors.top_k(logits, k_of(0, 50, 10**9)), logits)


@given(seeds, st.floats(1e-6, 1.0, exclude_max=True))
def test_top_p_keeps_the_fewest_tokens_whose_mass_reaches_p(seed: int, p: float) -> None:
    logits = random_logits(seed)
    result = processors.top_p(logits, p_of(p))
    probs = logits[0].double().softmax(-1)
    mass = probs[result[0] > NEG].sort(descending=True).values
    assert mass.sum() >= p - 1e-6
    assert mass[:-1].sum() < p + 1e-6
    dropped = probs[result[0] == NEG]
    assert dropped.numel() == 0 or dropped.max() <= mass.min()


def test_top_p_of_one_leaves_the_logits_unchanged() -> None:
    logits = random_logits(2, batch=2, vocab_size=5000)
    assert torch.equal(processors.top_p(logits, p_of(1.0, 1.0)), logits)


@given(seeds)
def test_a_tiny_top_p_is_greedy(seed: int) -> None:
    logits = random_logits(seed)
    assert kept(processors.top_p(logits, p_of(1e-12))) == [[int(logits[0].argmax())]]


def test_a_tiny_top_p_is_greedy_between_equals_too() -> None:
    logits = rows([1.0, 5.0, 5.0, 5.0])
    assert kept(processors.top_p(logits, p_of(1e-9))) == [[1]]


def test_ties_at_the_edge_go_to_the_lowest_ids() -> None:
    logits = rows([2.0, 1.0, 3.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0, 0.0])
    assert kept(processors.top_k(logits, k_of(3, 2))) == [[0, 1, 2], [0, 1]]
    assert kept(processors.top_p(logits, p_of(0.99, 0.5))) == [[0, 1, 2, 3, 4], [0, 1, 2]]


def test_the_nucleus_of_equals_is_counted_exactly() -> None:
    logits = torch.zeros(1, 4)
    assert [len(kept(processors.top_p(logits, p_of(p)))[0]) for p in (0.25, 0.26, 0.5, 0.75, 0.76)] == [1, 2, 2, 3, 4]


@given(seeds, st.integers(0, 60), st.floats(1e-6, 1.0))
def test_one_sort_for_top_k_and_top_p_equals_one_after_the_other(seed: int, k: int, p: float) -> None:
    logits = random_logits(seed, batch=2)
    together = processors.top_k_top_p(logits, k_of(k, 3), p_of(p, 0.9))
    apart = processors.top_p(processors.top_k(logits, k_of(k, 3)), p_of(p, 0.9))
    assert torch.equal(together, apart)


@pytest.mark.parametrize("scale", [0.01, 1.0, 8.0])
def test_the_nucleus_is_the_same_whether_its_head_is_enough_or_not(
    scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    logits = random_logits(5, batch=2, vocab_size=4000) * scale
    by_head = processors.top_k_top_p(logits, k_of(0, 3000), p_of(0.9, 0.5))
    monkeypatch.setattr(processors, "HEAD", 4000)
    assert torch.equal(processors.top_k_top_p(logits, k_of(0, 3000), p_of(0.9, 0.5)), by_head)


@given(seeds, st.data())
def test_ids_stay_aligned_whatever_the_sorting(seed: int, data: st.DataObject) -> None:
    logits = random_logits(seed, vocab_size=20)
    order = torch.tensor(data.draw(st.permutations(range(20))))
    for step in (
        lambda x: processors.top_k(x, k_of(5)),
        lambda x: processors.top_p(x, p_of(0.8)),
        lambda x: processors.min_p(x, p_of(0.1)),
        lambda x: processors.typical_p(x, p_of(0.7)),
    ):
        result = step(logits[:, order])
        # Sums in another order may differ in the last bit, so a borderline token may change; its value may not.
        assert torch.equal(result[result > NEG], logits[:, order][result > NEG])
        if len(set(logits[0].tolist())) == 20:
            assert kept(result[:, order.argsort()]) == kept(step(logits))


@given(seeds, st.floats(0.0, 1.0), st.floats(0.1, 5.0))
def test_min_p_is_relative_to_the_best_at_the_temperature_that_came_before(
    seed: int, p: float, temperature: float
) -> None:
    logits = processors.scale(random_logits(seed), torch.tensor([temperature]))
    result = processors.min_p(logits, p_of(p))
    probs = logits[0].double().softmax(-1)
    ratio = probs / probs.max()
    assert bool((result[0][ratio > p * 1.0001] > NEG).all())
    assert bool((result[0][ratio < p * 0.9999] == NEG).all())


def test_min_p_of_one_keeps_the_best_alone_and_of_zero_everything() -> None:
    logits = rows([1.0, 2.0, NEG])
    assert kept(processors.min_p(logits, p_of(1.0))) == [[1]]
    assert torch.equal(processors.min_p(logits, p_of(0.0)), logits)


def test_typical_p_of_one_leaves_the_logits_unchanged() -> None:
    logits = random_logits(3)
    assert torch.equal(processors.typical_p(logits, p_of(1.0)), logits)


def test_typical_p_prefers_the_token_with_the_entropy_of_the_distribution() -> None:
    probs = [0.5, 0.2, 0.1, 0.1, 0.05, 0.05]
    entropy = -sum(p * math.log(p) for p in probs)
    nearest = min(range(6), key=lambda i: abs(-math.log(probs[i]) - entropy))
    assert kept(processors.typical_p(torch.tensor([probs]).log(), p_of(0.01))) == [[nearest]]


@pytest.mark.parametrize("temperature", [1e-38, 1e-6, 0.3, 1.0, 1e30])
def test_no_temperature_makes_a_row_that_cannot_be_drawn_from(temperature: float) -> None:
    logits = rows([3e38, 1.0, -3e38, NEG], [-3e38, -3e38, NEG, NEG])
    probs = processors.scale(logits, torch.tensor([temperature] * 2)).softmax(-1)
    assert bool(probs.isfinite().all())
    torch.testing.assert_close(probs.sum(-1), torch.ones(2))
    assert probs[1].tolist() == [0.5, 0.5, 0.0, 0.0]


def test_penalties_follow_their_formulas() -> None:
    logits = rows([2.0, -2.0, 3.0, 0.0, -1.0])
    counts, seen = [0, 2, 1, 3, 0], [True, True, True, True, False]
    repetition, presence, frequency = 1.5, 0.4, 0.1
    factor = torch.tensor([[repetition if flag else 1.0 for flag in seen]])
    offset = torch.tensor([[presence + frequency * count if count else 0.0 for count in counts]])
    expected = [2.0 / 1.5, -2.0 * 1.5 - 0.6, 3.0 / 1.5 - 0.5, 0.0 - 0.7, -1.0]
    torch.testing.assert_close(processors.penalise(logits, factor, offset), rows(expected))


def test_neutral_penalties_leave_the_logits_unchanged() -> None:
    logits = torch.cat((random_logits(4), rows([3.4e38, -3.4e38, math.inf, NEG, 1e-45, -1e-45, 0.0] * 7 + [0.0])))
    assert torch.equal(processors.penalise(logits, torch.ones(2, 50), torch.zeros(2, 50)), logits)


def test_a_penalty_never_forbids_what_the_model_allows() -> None:
    logits = rows([-3.4e38, NEG])
    result = processors.penalise(logits, torch.full((1, 2), 100.0), torch.full((1, 2), 2.0))
    assert math.isfinite(result[0, 0])
    assert result[0, 1] == NEG


def test_bias_and_bans_touch_the_pairs_that_are_named() -> None:
    logits = rows([0.0, 1.0, 2.0], [3.0, 4.0, 5.0])
    before = logits.clone()
    at, tokens = k_of(0, 1), k_of(2, 0)
    assert processors.add_bias(logits, at, tokens, torch.tensor([0.5, -1.0])).tolist() == [[0, 1, 2.5], [2, 4, 5]]
    assert processors.ban(logits, at, tokens).tolist() == [[0, 1, NEG], [NEG, 4, 5]]
    assert torch.equal(logits, before)


def test_the_argmax_of_equals_is_the_lowest_id() -> None:
    assert processors.argmax(rows([1.0, 7.0, 7.0], [NEG, NEG, NEG])).tolist() == [1, 0]


class TestAgainstTransformers:
    """Transformers' processors as an independent implementation, where neither side has ties at the edge."""

    @pytest.mark.parametrize("seed", range(20))
    def test_truncations_keep_the_same_tokens(self, seed: int) -> None:
        process = pytest.importorskip("transformers.generation.logits_process")
        logits = random_logits(seed, batch=2, vocab_size=300, masked=0.1)
        ids = torch.zeros((2, 1), dtype=torch.int64)
        assert torch.equal(processors.top_k(logits, k_of(7, 7)), process.TopKLogitsWarper(7)(ids, logits))
        assert torch.equal(processors.top_p(logits, p_of(0.83, 0.83)), process.TopPLogitsWarper(0.83)(ids, logits))
        assert torch.equal(processors.min_p(logits, p_of(0.07, 0.07)), process.MinPLogitsWarper(0.07)(ids, logits))
        typical = process.TypicalLogitsWarper(0.6)(ids, logits)
        assert torch.equal(processors.typical_p(logits, p_of(0.6, 0.6)), typical)

    @pytest.mark.parametrize("seed", range(5))
    def test_temperature_gives_the_same_distribution(self, seed: int) -> None:
        process = pytest.importorskip("transformers.generation.logits_process")
        logits = random_logits(seed)
        theirs = process.TemperatureLogitsWarper(0.7)(torch.zeros((1, 1)), logits)
        ours = processors.scale(logits, torch.tensor([0.7]))
        torch.testing.assert_close(ours.softmax(-1), theirs.softmax(-1))
