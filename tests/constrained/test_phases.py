from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from constrained import BudgetError, Regex, TokenRejected, Vocabulary, compile
from constrained.phases import PhasedMatcher, Phases
from engine.constraint import TokenConstraint
from grammars import AnyText, Sequence


@pytest.fixture
def phases(make_vocabulary: Callable[..., Vocabulary]) -> Phases:
    vocabulary = make_vocabulary(".1", "ab")
    return Phases(compile(Sequence(AnyText(stop="."), "."), vocabulary), 4, compile(Regex("[0-9]{2,3}"), vocabulary))


def allowed(matcher: PhasedMatcher) -> set[int]:
    row = np.zeros(9, np.uint32)
    matcher.fill_mask(row)
    return {token for token in range(259) if row[token // 32] >> (token % 32) & 1}


def test_one_language_follows_the_other(phases: Phases) -> None:
    matcher = phases.matcher(max_tokens=10)
    assert isinstance(matcher, TokenConstraint)
    for token in b"ab.":
        assert not matcher.is_accepting()
        matcher.accept(token)
    assert allowed(matcher) == set(b"0123456789")
    for token in b"12":
        matcher.accept(token)
    assert matcher.is_accepting()
    matcher.accept(258)
    assert matcher.is_finished()


def test_no_token_crosses(phases: Phases) -> None:
    assert 256 not in allowed(phases.matcher())


def test_the_first_part_keeps_to_its_tokens(phases: Phases) -> None:
    matcher = phases.matcher(max_tokens=10)
    for token in b"abc":
        matcher.accept(token)
    assert allowed(matcher) == {ord(".")}
    with pytest.raises(TokenRejected):
        matcher.accept(ord("a"))
    matcher.accept(ord("."))
    assert allowed(matcher) == set(b"0123456789")


def test_the_second_part_has_what_is_left(phases: Phases) -> None:
    matcher = phases.matcher(max_tokens=7)
    for token in b"abc.12":
        matcher.accept(token)
    assert allowed(matcher) == {258}


@pytest.mark.parametrize("most", [3, 4, 5])
def test_a_budget_that_leaves_nothing_fails_at_once(phases: Phases, most: int) -> None:
    with pytest.raises(BudgetError):
        phases.matcher(max_tokens=most)
