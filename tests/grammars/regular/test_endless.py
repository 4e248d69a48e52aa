"""Languages with words of any length."""

from __future__ import annotations

import pytest

from grammars.regex import parse
from grammars.regular import ANY, Rx, complement, intersect, is_empty, longest_length, repeat
from grammars.regular.endless import LONG, is_endless

PATTERNS = ["a*", "(ab|c)*d", "a{3,90}", "a+b{2}", "[^a]*a[^a]*", "(a{2})*|b", "(a{1,40}b){1,3}", "x"]


def _read(pattern: str) -> Rx:
    return parse(pattern, dialect="ecma", mode="fullmatch")


def _pairs() -> list[Rx]:
    languages = [_read(pattern) for pattern in PATTERNS]
    languages += [complement(rx) for rx in languages[:3]]
    return [intersect(a, b) for a in languages for b in languages]


def test_a_language_called_endless_has_no_longest_word() -> None:
    found = [rx for rx in _pairs() if is_endless(rx)]
    assert len(found) > 12
    assert all(longest_length(rx) is None for rx in found)


@pytest.mark.parametrize("least", [LONG - 1, LONG, LONG + 40, 100 * LONG])
def test_a_language_with_long_words_alone_is_empty_where_the_longest_word_is_shorter(least: int) -> None:
    for rx in _pairs():
        longest = longest_length(rx)
        assert is_empty(intersect(rx, repeat(ANY, least, None))) == (longest is not None and longest < least)


def test_a_thousand_characters_of_three_patterns_are_found_without_counting_them() -> None:
    rx = intersect(
        parse("^([a-z][0-9])+$", dialect="ecma", mode="search"),
        parse("^((c1d3g3).{4,8}){6,6}", dialect="ecma", mode="search"),
        parse("(t|8){10,10}$", dialect="ecma", mode="search"),
        repeat(ANY, 100_000, None),
    )
    assert not is_empty(rx)
