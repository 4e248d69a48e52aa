"""Expressions that blow up elsewhere: bounded work, or LimitExceeded."""

from __future__ import annotations

import pytest

from grammars.errors import LimitExceeded
from grammars.regex import parse
from grammars.regular import (
    ANY,
    Rx,
    complement,
    derivative,
    intersect,
    is_empty,
    literal,
    longest_length,
    matches,
    moves,
    repeat,
    shortest,
    words,
)


def walk(rx: Rx, text: str) -> Rx:
    for char in text:
        moves(rx)
        rx = derivative(rx, ord(char))
    return rx


def test_counters_of_counters_are_lazy() -> None:
    rx = parse("(a{1000}){1000}")
    assert rx is repeat(literal("a"), 1_000_000, 1_000_000)
    assert walk(rx, "a" * 500) is repeat(literal("a"), 999_500, 999_500)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(a|aa){0,10000}", "a" * 300),
        ("(a|aa){1000}", "a" * 200),
        ("(ab|a|bab){1,500}", "aba" * 60),
        ("((a*)*)*", "a" * 50),
        ("(a*b*)*(a|b)*", "ab" * 50),
        ("(?:a?){64}a{64}", "a" * 64),
        (".*a.{100}", "aab" * 30),
        ("(.*)(.*)(.*)(.*)x", "a" * 30),
        ("(x+x+)+y", "x" * 60),
    ],
)
def test_walks_keep_few_terms(pattern: str, text: str) -> None:
    rx = walk(parse(pattern), text)
    assert len(repr(rx)) < 2_000
    assert len(moves(rx)) < 200


def test_deep_nesting_is_an_error_with_its_place_and_no_recursion_error() -> None:
    assert matches(parse("(" * 150 + "a" + ")*" * 150), "aaa")
    with pytest.raises(LimitExceeded, match="nested") as caught:
        parse("(" * 5000 + "a" + ")" * 5000)
    assert caught.value.position == 200


def test_long_patterns_are_an_error() -> None:
    with pytest.raises(LimitExceeded, match="characters"):
        parse("a" * 200_001)
    with pytest.raises(LimitExceeded, match="anchors"):
        parse(r"\b" * 101)
    with pytest.raises(LimitExceeded, match="64"):
        parse(r"(?:a(?!b)){65}")


def test_long_sequences_and_wide_unions_are_no_problem() -> None:
    assert matches(parse("[ab][cd]" * 5000), "ac" * 5000)
    assert walk(parse("|".join(f"w{number}[xy]" for number in range(3000))), "w12").nullable is False
    assert matches(parse("|".join(f"w{number}" for number in range(3000))), "w2999")
    rx = parse("".join(f"{char}?" for char in "abcdefghij" * 30))
    assert matches(rx, "abcjjj")


def test_an_intersection_that_takes_too_many_states_is_an_error() -> None:
    three = [repeat(repeat(literal("a"), n, n), 1, None) for n in (89, 97, 101)]
    with pytest.raises(LimitExceeded, match="states"):
        is_empty(intersect(*three))
    assert not is_empty(intersect(*three[:2]))


def test_lengths_against_patterns_need_no_search() -> None:
    rx = intersect(repeat(ANY, 100_000, 200_000), parse("[a-z]+(-[a-z]+)*"))
    assert not is_empty(rx)
    assert all(not is_empty(target) for _, target in moves(rx))
    assert longest_length(rx) == 200_000


def test_a_complement_of_a_finite_language_is_not_empty() -> None:
    assert not is_empty(complement(repeat(literal("a"), 0, 100_000)))


def test_enumeration_stops_at_its_limit() -> None:
    assert words(parse("[a-z]{2}"), 675) is None
    assert len(words(parse("[a-z]{2}"), 676) or ()) == 676
    assert words(parse("a*b"), 1000) is None
    assert words(parse("(?s)."), 1000) is None
    assert words(parse("(ab?|c){0,1}"), 10) == ["", "a", "c", "ab"]


def test_a_shortest_password_is_found() -> None:
    rx = parse(r"(?=.*\d)(?=.*[a-z])(?=.*[A-Z])(?=.*[^\w]).{8,64}")
    word = shortest(rx)
    assert word is not None and len(word) == 8 and matches(rx, word)


def test_long_texts_are_held_against_alternatives_that_come_again_and_again() -> None:
    rx = parse(".*a.{3}|.*b.{5}")
    text = "ab" * 1000
    assert matches(rx, text)
    assert not matches(rx, text + "cccccc")
    assert matches(complement(rx), text + "cccccc")
