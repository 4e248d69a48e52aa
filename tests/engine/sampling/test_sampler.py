from __future__ import annotations

import math
import pickle
from collections import Counter
from collections.abc import Iterable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from engine.sampling import (
    GREEDY,
    EmptyRow,
    Fallback,
    InvalidLogits,
    Sampler,
    SamplerRow,
    Sampling,
    SamplingError,
    row_words,
)

NEG = -math.inf
VOCAB = 40


def mask_of(*allowed: Iterable[int], vocab_size: int = VOCAB) -> np.ndarray:
    rows = np.zeros((len(allowed), row_words(vocab_size)), np.uint32)
    for row, tokens in zip(rows, allowed, strict=True):
        for token in tokens:
            row[token // 32] |= np.uint32(1 << token % 32)
    return rows


def random_logits(seed: int, batch: int = 1, vocab_size: int = VOCAB) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(0, 2, (batch, vocab_size)).astype(np.float32))


def sampler(sampling: Sampling, prompt: Iterable[int] = (), eos: tuple[int, ...] = ()) -> Sampler:
    return Sampler([SamplerRow(sampling, prompt, eos)], VOCAB)


def draw_one(sampling: Sampling, logits: Tensor, mask: np.ndarray | None = None, **state: object) -> int:
    return sampler(sampling, **state).sample(logits, mask)[0].token_id  # type: ignore[arg-type]


def test_greedy_takes_the_most_likely_token_that_is_allowed() -> None:
    logits = random_logits(0)
    order = logits[0].argsort(descending=True).tolist()
    assert draw_one(GREEDY, logits) == order[0]
    assert draw_one(GREEDY, logits, mask_of(order[3:9])) == order[3]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_logits_of_any_floating_dtype_are_taken_and_left_alone(dtype: torch.dtype) -> None:
    logits = random_logits(1).to(dtype)
    before = logits.clone()
    sampling = Sampling(temperature=0, repetition_penalty=1.3, logit_bias={3: 1.0}, banned_tokens=[4])
    sampler(sampling, [1, 2]).sample(logits, mask_of(range(20)))
    assert torch.equal(logits, before)


def test_the_chain_equals_its_steps_in_their_order_written_out_by_hand() -> None:
    prompt, output = [1, 2, 3, 1], [2, 5, 5, 1, 2]
    sampling = Sampling(
        temperature=0.8,
        top_k=12,
        top_p=0.9,
        min_p=0.02,
        repetition_penalty=1.3,
        presence_penalty=0.5,
        frequency_penalty=0.25,
        no_repeat_ngram=3,
        logit_bias={7: 1.5, 8: -2.0, 9: NEG},
        banned_tokens=[10, 11],
    )
    allowed = set(range(30))
    logits = random_logits(7)

    x = logits[0].double().tolist()
    x[7] += 1.5
    x[8] -= 2.0
    x[9] = NEG
    for token in set(prompt + output):
        x[token] = x[token] / 1.3 if x[token] > 0 else x[token] * 1.3
    for token, count in Counter(output).items():
        x[token] -= 0.5 + 0.25 * count
    sequence = prompt + output
    for i in range(len(sequence) - 2):
        if sequence[i : i + 2] == sequence[-2:]:
            x[sequence[i + 2]] = NEG
    for token in (10, 11, *(set(range(VOCAB)) - allowed)):
        x[token] = NEG
    x = [value / 0.8 for value in x]

    def softmax() -> list[float]:
        weights = [math.exp(value - max(x)) for value in x]
        return [weight / sum(weights) for weight in weights]

    ranked = sorted(range(VOCAB), key=lambda t: -x[t])
    x = [value if t in ranked[:12] else NEG for t, value in enumerate(x)]
    probs, mass, nucleus = softmax(), 0.0, set()
    for token in ranked:
        if mass < 0.9:
            nucleus.add(token)
        mass += probs[token]
    x = [value if t in nucleus else NEG for t, value in enumerate(x)]
    probs = softmax()
    x = [value if probs[t] >= 0.02 * max(probs) else NEG for t, value in enumerate(x)]

    chain = sampler(sampling, prompt)
    for token in output:
        chain.commit([token])
    ours = chain.probabilities(logits, mask_of(allowed))
    torch.testing.assert_close(ours[0].double(), torch.tensor(softmax(), dtype=torch.float64), rtol=1e-4, atol=1e-7)
    # A sampler that joins later, as in a new batch, takes up the history where it is.
    assert torch.equal(Sampler(chain.rows, VOCAB).probabilities(logits, mask_of(allowed)), ours)


@pytest.mark.parametrize("seed", range(10))
def test_penalties_and_ngrams_agree_with_transformers(seed: int) -> None:
    process = pytest.importorskip("transformers.generation.logits_process")
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, 6, 30).tolist()
    logits, ids = random_logits(seed), torch.tensor([tokens])
    ours = sampler(Sampling(repetition_penalty=1.4, no_repeat_ngram=2), tokens).chain.scores(logits)
    theirs = process.RepetitionPenaltyLogitsProcessor(1.4)(ids, logits.clone())
    theirs = process.NoRepeatNGramLogitsProcessor(2)(ids, theirs)
    assert (theirs == NEG).any()
    torch.testing.assert_close(ours, theirs)


def test_presence_and_frequency_count_the_output_and_not_the_prompt() -> None:
    chain = sampler(Sampling(presence_penalty=1.0, frequency_penalty=0.5), [3, 3]).chain
    assert torch.equal(chain.scores(torch.zeros(1, VOCAB)), torch.zeros(1, VOCAB))
    chain.commit([3])
    chain.commit([3])
    assert chain.scores(torch.zeros(1, VOCAB))[0, 3] == -2.0


class TestSampleableRows:
    """Hard rules give way in their order; the constraint by policy only; each time on record."""

    def test_ngram_bans_give_way_first(self) -> None:
        draw = sampler(Sampling(no_repeat_ngram=1, banned_tokens=[6]), [5]).sample(random_logits(0), mask_of([5, 6]))[0]
        assert draw.token_id == 5
        assert draw.fallbacks == (Fallback(0, "no_repeat_ngram", "give_way"),)
        assert draw.follows_constraint

    def test_banned_tokens_give_way_next(self) -> None:
        sampling = Sampling(no_repeat_ngram=1, banned_tokens=[6], logit_bias={7: NEG})
        draw = sampler(sampling, [6]).sample(random_logits(0), mask_of([6, 7]))[0]
        assert draw.token_id == 6
        assert [fallback.rule for fallback in draw.fallbacks] == ["no_repeat_ngram", "banned_tokens"]

    def test_logit_bias_gives_way_last_and_its_finite_part_stays(self) -> None:
        sampling = Sampling(temperature=0, no_repeat_ngram=2, banned_tokens=[7], logit_bias={7: NEG, 8: NEG, 9: 50.0})
        logits = torch.zeros(1, VOCAB)
        logits[0, 8] = 1.0
        draw = sampler(sampling).sample(logits, mask_of([7, 8]))[0]
        assert draw.token_id == 8
        assert [fallback.rule for fallback in draw.fallbacks] == ["banned_tokens", "logit_bias"]
        assert all(fallback.policy == "give_way" for fallback in draw.fallbacks)

    def test_rules_that_forbid_nothing_of_what_could_be_drawn_stay_in_force(self) -> None:
        sampling = Sampling(no_repeat_ngram=1, banned_tokens=[6], logit_bias={7: NEG})
        draw = sampler(sampling, [1, 2]).sample(random_logits(0), mask_of([6]))[0]
        assert [fallback.rule for fallback in draw.fallbacks] == ["banned_tokens"]

    def test_rules_that_leave_something_stay_in_force(self) -> None:
        draw = sampler(Sampling(no_repeat_ngram=1, banned_tokens=[6]), [5]).sample(
            random_logits(0), mask_of([5, 6, 7])
        )[0]
        assert (draw.token_id, draw.fallbacks) == (7, ())

    def test_bans_of_the_whole_vocabulary_give_way_without_a_constraint(self) -> None:
        draw = sampler(Sampling(banned_tokens=range(VOCAB), no_repeat_ngram=1)).sample(random_logits(0))[0]
        assert draw.fallbacks == (Fallback(0, "banned_tokens", "give_way"),)

    def test_an_empty_constraint_is_an_error_that_names_step_row_and_rules(self) -> None:
        chain = sampler(Sampling(banned_tokens=[1], no_repeat_ngram=1), [4])
        chain.commit([2])
        with pytest.raises(EmptyRow, match="step 1") as error:
            chain.sample(random_logits(0), mask_of([]))
        assert (error.value.step, error.value.row) == (1, 0)
        assert error.value.rules == ("no_repeat_ngram", "banned_tokens", "constraint")
        assert "on_empty" in str(error.value)
        assert pickle.loads(pickle.dumps(error.value)).rules == error.value.rules

    def test_the_constraint_does_not_give_way_where_the_model_cannot_say_what_it_allows(self) -> None:
        logits = random_logits(0)
        logits[0, [3, 4]] = NEG
        with pytest.raises(EmptyRow, match="constraint"):
            sampler(Sampling(banned_tokens=[5])).sample(logits, mask_of([3, 4]))

    def test_the_policy_eos_ends_the_text(self) -> None:
        draw = sampler(Sampling(on_empty="eos"), eos=(9, 8)).sample(random_logits(0), mask_of([]))[0]
        assert draw.token_id == 9
        assert draw.fallbacks == (Fallback(0, "constraint", "eos"),)
        assert not draw.follows_constraint

    def test_the_policy_eos_without_an_end_token_is_an_error(self) -> None:
        with pytest.raises(EmptyRow, match="end token"):
            sampler(Sampling(on_empty="eos")).sample(random_logits(0), mask_of([]))

    def test_the_policy_relax_drops_the_constraint_and_keeps_the_other_rules(self) -> None:
        logits = random_logits(0)
        order = logits[0].argsort(descending=True).tolist()
        sampling = Sampling(temperature=0, on_empty="relax", banned_tokens=order[:2])
        draw = sampler(sampling).sample(logits, mask_of([]))[0]
        assert draw.token_id == order[2]
        assert draw.fallbacks == (Fallback(0, "constraint", "relax"),)
        assert not draw.follows_constraint

    def test_relaxed_rows_may_need_the_other_rules_to_give_way_as_well(self) -> None:
        sampling = Sampling(on_empty="relax", banned_tokens=range(VOCAB))
        draw = sampler(sampling).sample(random_logits(0), mask_of([]))[0]
        assert [(fallback.rule, fallback.policy) for fallback in draw.fallbacks] == [
            ("constraint", "relax"),
            ("banned_tokens", "give_way"),
        ]

    @pytest.mark.parametrize("policy", ["error", "relax"])
    def test_logits_that_are_all_minus_infinity_are_an_error(self, policy: str) -> None:
        for mask in (None, mask_of([1])):
            with pytest.raises(EmptyRow, match="every token -inf") as error:
                sampler(Sampling(on_empty=policy)).sample(torch.full((1, VOCAB), NEG), mask)  # type: ignore[arg-type]
            assert error.value.rules[-1] == "logits"

    def test_logits_that_are_all_minus_infinity_end_the_text_under_eos(self) -> None:
        draw = sampler(Sampling(on_empty="eos"), eos=(2,)).sample(torch.full((1, VOCAB), NEG))[0]
        assert (draw.token_id, draw.fallbacks) == (2, (Fallback(0, "logits", "eos"),))

    @pytest.mark.parametrize("temperature", [0.0, 1.0])
    @pytest.mark.parametrize("place", [0, 17, VOCAB - 1])
    def test_nan_is_an_error_that_names_step_and_row_wherever_it_stands(self, temperature: float, place: int) -> None:
        row = SamplerRow(Sampling(temperature=temperature, banned_tokens=[17], seed=0))
        chain = Sampler([SamplerRow(GREEDY), row], VOCAB)
        chain.commit([1, 1])
        chain.commit([1, 1])
        logits = random_logits(0, 2)
        logits[1, place] = math.nan
        with pytest.raises(InvalidLogits, match="row 1 contain NaN at step 2") as error:
            chain.sample(logits, mask_of([5, 6], [5, 6]))
        assert (error.value.step, error.value.row) == (2, 1)
        with pytest.raises(InvalidLogits):
            chain.probabilities(logits)

    @pytest.mark.parametrize("temperature", [0.0, 1.0])
    def test_plus_infinity_takes_all_the_mass(self, temperature: float) -> None:
        logits = random_logits(0)
        logits[0, [4, 20]] = math.inf
        sampling = Sampling(temperature=temperature, top_p=0.9, seed=1)
        assert sampler(sampling).sample(logits)[0].token_id in (4, 20)
        assert sampler(sampling).sample(logits, mask_of([20, 21]))[0].token_id == 20
        forbidden = sampler(sampling).sample(logits, mask_of([21]))[0]
        assert (forbidden.token_id, forbidden.fallbacks) == (21, ())
        if temperature:
            half = sampler(Sampling()).probabilities(logits)[0]
            assert (half[4], half[20], half.sum()) == (0.5, 0.5, 1.0)

    @given(st.data())
    def test_every_row_ends_as_a_distribution_or_as_a_named_error(self, data: st.DataObject) -> None:
        number = st.sampled_from([NEG, -3.4e38, -1e30, -5.0, -0.0, 0.0, 1e-42, 5.0, 1e30, 3.4e38, math.inf])
        tokens = st.lists(st.integers(0, 7), max_size=8)
        logits = torch.tensor([data.draw(st.lists(number, min_size=8, max_size=8))])
        sampling = Sampling(
            temperature=data.draw(st.sampled_from([0.0, 1e-300, 1e-6, 1.0, 1e30])),
            top_k=data.draw(st.sampled_from([0, 1, 5, 100])),
            top_p=data.draw(st.sampled_from([1e-300, 0.5, 1.0])),
            min_p=data.draw(st.sampled_from([0.0, 1e-300, 0.5, 1.0])),
            typical_p=data.draw(st.sampled_from([1e-300, 0.5, 1.0])),
            repetition_penalty=data.draw(st.sampled_from([0.01, 1.0, 100.0])),
            frequency_penalty=data.draw(st.sampled_from([-2.0, 0.0, 2.0])),
            no_repeat_ngram=data.draw(st.integers(0, 3)),
            logit_bias=data.draw(st.dictionaries(st.integers(0, 7), st.sampled_from([NEG, -1e6, 1e6]))),
            banned_tokens=data.draw(tokens),
            on_empty=data.draw(st.sampled_from(["error", "eos", "relax"])),
            seed=data.draw(st.integers(0, 99)),
        )
        mask = data.draw(st.none() | st.builds(lambda allowed: mask_of(allowed, vocab_size=8), tokens))
        prompt, output = data.draw(tokens), data.draw(tokens)
        row = SamplerRow(sampling, prompt, (2,))
        for token in output:
            row.history.append(token)
        chain = Sampler([row], 8)
        allowed = set(range(8)) if mask is None else {t for t in range(8) if int(mask[0, 0]) >> t & 1}
        sayable = {t for t in allowed if logits[0, t] > NEG}
        try:
            probs = chain.probabilities(logits, mask)[0]
            draw = chain.sample(logits, mask)[0]
        except EmptyRow as error:
            assert not sayable
            assert sampling.on_empty != "eos"
            assert error.step == len(output)
            return
        assert bool((probs.isfinite() & (probs >= 0)).all())
        assert math.isclose(float(probs.sum()), 1.0, rel_tol=1e-5)
        assert probs[draw.token_id] > 0
        assert draw.follows_constraint == bool(sayable)
        if sayable:
            assert draw.token_id in sayable


def test_a_seed_gives_the_same_tokens_alone_and_in_any_batch() -> None:
    samplings = [
        Sampling(seed=1),
        GREEDY,
        Sampling(seed=3, temperature=1.7, top_k=7, typical_p=0.9),
        Sampling(seed=4, top_p=0.8, repetition_penalty=1.3, frequency_penalty=0.4, no_repeat_ngram=2),
        Sampling(seed=5, min_p=0.1, logit_bias={3: 4.0, 5: NEG}, banned_tokens=[1, 2], logprobs=3),
        Sampling(seed=1, top_k=3, top_p=0.5),
    ]
    steps = [random_logits(step, len(samplings)) for step in range(25)]
    masks = [mask_of(*[range(i + step % 3, VOCAB, 2) for i in range(len(samplings))]) for step in range(25)]
    constrained = [True, False, True, True, False, True]

    def run(members: list[int]) -> dict[int, list[object]]:
        batch = Sampler([SamplerRow(samplings[i], [i, i + 1]) for i in members], VOCAB)
        drawn: dict[int, list[object]] = {i: [] for i in members}
        for logits, mask in zip(steps, masks, strict=True):
            draws = batch.sample(logits[members], mask[members], [constrained[i] for i in members])
            batch.commit([draw.token_id for draw in draws])
            for i, draw in zip(members, draws, strict=True):
                drawn[i].append(draw)
        return drawn

    together = run([0, 1, 2, 3, 4, 5])
    assert run([5, 3, 1]) == {i: together[i] for i in (5, 3, 1)}
    for i in range(6):
        assert run([i]) == {i: together[i]}
    assert len({tuple(draw.token_id for draw in draws) for draws in together.values()}) == 6  # type: ignore[attr-defined]


def test_a_row_without_a_seed_draws_one_and_says_which() -> None:
    first, second = SamplerRow(Sampling()), SamplerRow(Sampling())
    assert first.seed != second.seed
    again = SamplerRow(Sampling(seed=first.seed))
    logits = random_logits(3)
    assert Sampler([first], VOCAB).sample(logits) == Sampler([again], VOCAB).sample(logits)


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(),
        Sampling(temperature=1.6, top_k=9),
        Sampling(top_p=0.85, repetition_penalty=1.2, no_repeat_ngram=1),
        Sampling(min_p=0.05, logit_bias={3: 2.0}),
        Sampling(typical_p=0.8, banned_tokens=[1]),
    ],
)
def test_the_tokens_drawn_have_the_distribution_that_is_reported(sampling: Sampling) -> None:
    count = 20_000
    logits = random_logits(11)
    mask = mask_of(range(0, VOCAB, 3))
    parameters = {name: getattr(sampling, name) for name in sampling.__slots__ if name != "seed"}
    rows = [SamplerRow(Sampling(seed=seed, **parameters), [3, 6]) for seed in range(count)]
    expected = Sampler(rows[:1], VOCAB).probabilities(logits, mask)[0].double() * count
    drawn: Counter[int] = Counter()
    for start in range(0, count, 2000):
        batch = Sampler(rows[start : start + 2000], VOCAB)
        draws = batch.sample(logits.expand(2000, -1), np.repeat(mask, 2000, 0))
        drawn.update(draw.token_id for draw in draws)
    assert all(expected[token] > 0 for token in drawn)
    likely = [token for token in range(VOCAB) if expected[token] >= 5]
    chi_square = sum(float((drawn[token] - expected[token]) ** 2 / expected[token]) for token in likely)
    freedom = max(len(likely) - 1, 1)
    assert chi_square < freedom + 4.5 * (2 * freedom) ** 0.5


def test_logprobs_are_those_of_the_distribution_that_was_drawn_from() -> None:
    logits = random_logits(2)
    chain = sampler(Sampling(temperature=0.7, top_k=4, seed=3, logprobs=6))
    probs = chain.probabilities(logits, mask_of(range(20)))[0]
    reported = chain.sample(logits, mask_of(range(20)))[0].logprob
    assert reported is not None
    assert math.isclose(math.exp(reported.logprob), probs[reported.token_id], rel_tol=1e-5)
    assert [token for token, _ in reported.top] == probs.argsort(descending=True)[:4].tolist()
    assert math.isclose(sum(math.exp(value) for _, value in reported.top), 1.0, rel_tol=1e-5)


def test_greedy_logprobs_are_at_temperature_one_without_truncation() -> None:
    logits = random_logits(2)
    draw = sampler(Sampling(temperature=0, top_k=1, logprobs=2)).sample(logits)[0]
    expected = logits[0].log_softmax(-1)
    assert draw.logprob is not None
    assert math.isclose(draw.logprob.logprob, float(expected.max()), rel_tol=1e-5)
    assert [token for token, _ in draw.logprob.top] == expected.argsort(descending=True)[:2].tolist()


def test_logprobs_are_left_out_unless_asked_for() -> None:
    assert sampler(GREEDY).sample(random_logits(2))[0].logprob is None
    alone = sampler(Sampling(temperature=0, logprobs=0)).sample(random_logits(2))[0].logprob
    assert alone is not None
    assert alone.top == ()


@pytest.mark.parametrize("field", ["logit_bias", "banned_tokens", "eos_token_ids"])
def test_ids_outside_the_vocabulary_are_refused_with_their_field(field: str) -> None:
    sampling = {
        "logit_bias": Sampling(logit_bias={VOCAB: 1.0}),
        "banned_tokens": Sampling(banned_tokens=[VOCAB]),
        "eos_token_ids": GREEDY,
    }[field]
    with pytest.raises(SamplingError, match=rf"{field} names token {VOCAB}.*0 to {VOCAB - 1}"):
        sampler(sampling, eos=(VOCAB,) if field == "eos_token_ids" else ())


def test_logits_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\[1, 41\].*\[1, 40\]"):
        sampler(GREEDY).sample(torch.zeros(1, 41))


def test_a_row_that_is_left_out_of_a_commit_stays_as_it_is() -> None:
    batch = Sampler([SamplerRow(Sampling(frequency_penalty=1.0)), SamplerRow(Sampling(frequency_penalty=1.0))], VOCAB)
    batch.commit([3, None])
    assert [row.step for row in batch.rows] == [1, 0]
    assert batch.chain.scores(torch.zeros(2, VOCAB))[:, 3].tolist() == [-1.0, 0.0]


def test_one_row_draws_the_distribution_along_its_steps() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0, NEG]]).log_softmax(-1)
    alone = Sampler([SamplerRow(Sampling(seed=5))], 4)
    drawn: Counter[int] = Counter()
    for _ in range(3000):
        token = alone.sample(logits)[0].token_id
        alone.commit([token])
        drawn[token] += 1
    expected = logits[0].exp() * 3000
    assert sum(float((drawn[t] - expected[t]) ** 2 / expected[t]) for t in range(3)) < 13.8  # 0.999 quantile
    assert drawn[3] == 0
