from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from constrained import BudgetError, Regex, TokenRejected, Vocabulary, compile
from constrained.phases import PhasedMatcher, Phases
from engine.constraint import ForkableConstraint, SpeculativeConstraint
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
    assert isinstance(matcher, SpeculativeConstraint)
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


@pytest.mark.parametrize("kept", range(6))
def test_tokens_are_taken_back_over_the_border(phases: Phases, kept: int) -> None:
    text = b"ab.12"
    matcher, other = phases.matcher(max_tokens=7), phases.matcher(max_tokens=7)
    for token in text:
        matcher.accept(token)
    matcher.rollback(len(text) - kept)
    for token in text[:kept]:
        other.accept(token)
    for token in text[kept:]:
        assert allowed(matcher) == allowed(other)
        assert matcher.is_accepting() is other.is_accepting()
        matcher.accept(token)
        other.accept(token)
    assert allowed(matcher) == allowed(other) == {*b"0123456789", 258}
    with pytest.raises(ValueError, match="5 have been committed"):
        matcher.rollback(6)


@pytest.mark.parametrize(("text", "good"), [(b"ab.12", 5), (b"ab.x2", 3), (b"abc?1", 3)])
@pytest.mark.parametrize("done", range(4))
def test_masks_ahead_cross_the_border_and_end_where_a_token_is_not_allowed(
    phases: Phases, text: bytes, good: int, done: int
) -> None:
    matcher, other = phases.matcher(max_tokens=7), phases.matcher(max_tokens=7)
    for token in text[:done]:
        matcher.accept(token)
        other.accept(token)
    left = list(text[done:])
    rows = np.ones((len(left) + 1, 9), np.uint32)
    matcher.masks_ahead(left, rows)
    assert allowed(matcher) == allowed(other)
    row = np.zeros(9, np.uint32)
    for at, found in enumerate(rows):
        other.fill_mask(row)
        assert (found == (row if done + at <= good else 0)).all()
        if done + at < good:
            other.accept(left[at])


def test_a_fork_goes_its_own_way(phases: Phases) -> None:
    matcher = phases.matcher(max_tokens=10)
    assert isinstance(matcher, ForkableConstraint)
    matcher.accept(ord("a"))
    other = matcher.fork()
    for token in b".12":
        other.accept(token)
    assert other.is_accepting()
    assert allowed(matcher) >= set(b"ab.")
    matcher.accept(ord("."))
    assert allowed(matcher) == set(b"0123456789")
    other.accept(ord("3"))
    assert allowed(other) == {258}
