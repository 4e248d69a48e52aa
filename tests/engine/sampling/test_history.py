from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.sampling.history import History
from engine.sampling.uniform import uniform

tokens = st.lists(st.integers(0, 3), max_size=30)


def repeats_by_definition(sequence: list[int], n: int) -> set[int]:
    seen = {tuple(sequence[i : i + n]) for i in range(len(sequence) - n + 1)}
    return {token for token in range(4) if n and (*sequence[len(sequence) - n + 1 :], token) in seen}


@given(prompt=tokens, output=tokens, n=st.integers(0, 5))
def test_the_tokens_that_would_repeat_an_ngram_are_those_of_the_definition(
    prompt: list[int], output: list[int], n: int
) -> None:
    history = History(prompt, n)
    for token in output:
        history.append(token)
    expected = repeats_by_definition(prompt + output, n) if len(prompt + output) >= n - 1 else set()
    assert history.repeats() == expected
    assert history.output == output


@given(prompt=tokens, output=tokens, n=st.integers(0, 4), data=st.data())
def test_a_rollback_leaves_what_was_there_before(
    prompt: list[int], output: list[int], n: int, data: st.DataObject
) -> None:
    history = History(prompt, n)
    for token in output:
        history.append(token)
    count = data.draw(st.integers(0, len(output)))
    history.rollback(count)
    fresh = History(prompt, n)
    for token in output[: len(output) - count]:
        fresh.append(token)
    assert history.tokens == fresh.tokens
    assert history.repeats() == fresh.repeats()


def test_the_prompt_cannot_be_rolled_back() -> None:
    history = History([1, 2], 2)
    history.append(3)
    with pytest.raises(ValueError, match="2 of 1"):
        history.rollback(2)


def test_uniforms_depend_on_seed_step_and_lane_and_on_nothing_else() -> None:
    numbers = {uniform(seed, step, lane) for seed in range(8) for step in range(8) for lane in range(8)}
    assert len(numbers) == 512
    assert uniform(3, 5) == uniform(3, 5, 0)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**20))
def test_uniforms_lie_in_the_half_open_unit_interval(seed: int, step: int) -> None:
    assert 0.0 <= uniform(seed, step) <= 1.0 - 2.0**-48


@pytest.mark.parametrize("along", ["step", "seed"])
def test_uniforms_are_even_along_steps_and_along_seeds(along: str) -> None:
    numbers = [uniform(7, i) if along == "step" else uniform(i, 7) for i in range(20_000)]
    bins = [0] * 20
    for number in numbers:
        bins[int(number * 20)] += 1
    chi_square = sum((count - 1000) ** 2 / 1000 for count in bins)
    assert chi_square < 43.8  # 0.999 quantile with 19 degrees of freedom
    lag = sum((a - 0.5) * (b - 0.5) for a, b in pairwise(numbers)) / len(numbers)
    assert abs(lag) < 4 / 12 / len(numbers) ** 0.5
