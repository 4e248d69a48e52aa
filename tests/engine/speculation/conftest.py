from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest


@pytest.fixture(scope="session")
def assert_distributed() -> Callable[[np.ndarray, np.ndarray], None]:
    """`check(counts, expected)`: counts of outcomes fit their expected probabilities, by Pearson's chi-square.

    Its mean is the number of degrees of freedom k and its deviation sqrt(2k); past six deviations a fixed seed is wrong
    once in many millions.  What cannot happen must not have happened.
    """

    def check(counts: np.ndarray, expected: np.ndarray) -> None:
        counts, expected = counts.ravel(), expected.ravel() / expected.sum()
        possible = expected > 0
        assert counts[~possible].sum() == 0, "an outcome that has probability 0"
        wanted = expected[possible] * counts.sum()
        statistic = ((counts[possible] - wanted) ** 2 / wanted).sum()
        freedom = possible.sum() - 1
        assert statistic < freedom + 6 * np.sqrt(2 * freedom) + 1e-9, (statistic, freedom)

    return check
