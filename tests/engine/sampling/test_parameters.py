from __future__ import annotations

import math
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from engine.sampling import GREEDY, Sampling, SamplingError


@pytest.mark.parametrize(
    ("field", "value", "accepted"),
    [
        ("temperature", -0.1, "0 or more, finite"),
        ("temperature", math.inf, "0 or more, finite"),
        ("temperature", math.nan, "0 or more, finite"),
        ("temperature", "hot", "0 or more, finite"),
        ("temperature", True, "0 or more, finite"),
        ("top_k", -1, "an integer >= 0"),
        ("top_k", 1.5, "an integer >= 0"),
        ("top_p", 0.0, "0 < top_p <= 1"),
        ("top_p", 1.01, "0 < top_p <= 1"),
        ("top_p", None, "0 < top_p <= 1"),
        ("min_p", -0.01, "0 <= min_p <= 1"),
        ("min_p", 2, "0 <= min_p <= 1"),
        ("typical_p", 0, "0 < typical_p <= 1"),
        ("repetition_penalty", 0.0, "0.01 to 100"),
        ("presence_penalty", 2.1, "-2 to 2"),
        ("frequency_penalty", -3, "-2 to 2"),
        ("no_repeat_ngram", -2, "an integer >= 0"),
        ("banned_tokens", 7, "integers >= 0"),
        ("banned_tokens", "7", "integers >= 0"),
        ("banned_tokens", [-1], "an integer >= 0"),
        ("logit_bias", {-1: 0.5}, "an integer >= 0"),
        ("logit_bias", {3: math.inf}, "-inf to forbid"),
        ("logit_bias", {3: math.nan}, "-inf to forbid"),
        ("logit_bias", 3, "-inf to forbid"),
        ("seed", -1, "an integer from 0 to 18446744073709551615"),
        ("seed", 2**64, "an integer from 0 to 18446744073709551615"),
        ("logprobs", -1, "an integer >= 0"),
        ("on_empty", "ignore", "'error', 'eos', 'relax'"),
    ],
)
def test_a_value_out_of_range_is_refused_with_field_value_and_range(field: str, value: object, accepted: str) -> None:
    with pytest.raises(SamplingError) as error:
        Sampling(**{field: value})
    message = str(error.value)
    assert message.startswith(field)
    shown = value[-1] if isinstance(value, list) else next(iter(value)) if isinstance(value, dict) else value
    assert repr(shown) in message or str(shown) in message
    assert accepted in message


def test_the_ends_of_the_ranges_are_accepted() -> None:
    Sampling(
        temperature=0, top_k=0, top_p=1, min_p=0, typical_p=1, repetition_penalty=0.01, presence_penalty=-2, seed=0
    )
    Sampling(temperature=1e-300, top_p=1e-300, min_p=1, presence_penalty=2, seed=2**64 - 1, logprobs=0)


def test_a_sampling_is_a_value() -> None:
    first = Sampling(logit_bias={5: 1.5, 2: -math.inf}, banned_tokens=[9, 3, 9])
    second = Sampling(logit_bias=[(2, -math.inf), (5, 1.5)], banned_tokens=(3, 9))
    assert first == second
    assert hash(first) == hash(second)
    assert pickle.loads(pickle.dumps(first)) == first
    assert first.bias_pairs == ((2, -math.inf), (5, 1.5))
    assert first.banned_ids == (3, 9)
    with pytest.raises(FrozenInstanceError):
        first.temperature = 2.0  # type: ignore[misc]


def test_numpy_numbers_become_plain_ones() -> None:
    sampling = Sampling(temperature=np.float32(0.5), top_k=np.int64(4), banned_tokens=np.array([3, 1]))
    assert type(sampling.temperature) is float
    assert type(sampling.top_k) is int
    assert sampling.banned_ids == (1, 3)


def test_greedy_is_temperature_zero() -> None:
    assert Sampling(temperature=0) == GREEDY
    assert GREEDY.is_greedy
    assert not Sampling().is_greedy


def test_a_sampling_can_be_made_without_importing_torch() -> None:
    code = "import sys; from engine import Sampling; Sampling(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_numbers_that_no_tensor_holds_ask_for_what_the_largest_do() -> None:
    for most in (2**31, 2**63, 10**80):
        assert Sampling(top_k=most, no_repeat_ngram=most) == Sampling(top_k=2**31 - 1, no_repeat_ngram=2**31 - 1)
