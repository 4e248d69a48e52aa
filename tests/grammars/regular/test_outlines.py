"""Languages around and within those whose states are too many to be searched."""

from __future__ import annotations

import pytest

from grammars.json_schema.formats import format_rx
from grammars.json_schema.formats.alabels import Digits
from grammars.regex import parse
from grammars.regular import (
    Rx,
    complement,
    concat,
    intersect,
    is_empty,
    is_subset,
    matches,
    moves,
    repeat,
    shortest,
    unfold,
    union,
)
from grammars.regular.outlines import around, has_outline, within


def beside(name: str, pattern: str) -> Rx:
    language = format_rx(name)
    assert language is not None
    return intersect(language, parse(pattern, dialect="ecma", mode="search"))


@pytest.mark.parametrize("text", ["", "a", "ls8h", "mgbh0fb", "1ch"])
def test_the_outlines_of_a_label_are_within_and_around_it(text: str) -> None:
    label = unfold(Digits(text))
    for rest in ("", "9ca", "-0ya", "a-9ca", "-"):
        for inner, outer in ((within(label), label), (label, around(label))):
            assert not matches(inner, rest) or matches(outer, rest)
    word = shortest(within(label))
    assert word is not None
    assert matches(label, word)
    assert is_subset(complement(around(label)), complement(within(label)))


@pytest.mark.parametrize("name", ["hostname", "email", "idn-hostname", "idn-email"])
@pytest.mark.parametrize("pattern", ["-$", r"\s$", "[.]$"])
def test_a_pattern_that_no_name_has_leaves_nothing(name: str, pattern: str) -> None:
    assert is_empty(beside(name, pattern))


@pytest.mark.parametrize(
    ("name", "pattern", "word"),
    [
        ("email", r"@example\.(com|org)$", "o'neil@example.org"),
        ("idn-email", r"@example\.(com|org)$", "ü@example.com"),
        ("email", "/", "a/b@xn--9ca.com"),
        ("hostname", "^[a-z]+[.]xn--", "a.xn--9ca"),
        ("idn-hostname", r"\.com$", "ж.com"),
    ],
)
def test_names_beside_a_pattern_are_read_to_their_end(name: str, pattern: str, word: str) -> None:
    language = beside(name, pattern)
    for char in word:
        (language,) = [target for characters, target in moves(language) if matches(characters, char)]
    assert language.nullable


def test_languages_of_thousands_of_parts_are_asked_without_going_down_them() -> None:
    long = parse("[ab][cd]" * 2000, dialect="python", mode="fullmatch")
    assert not is_empty(intersect(complement(long), parse("[ab].*", dialect="python", mode="fullmatch")))
    addresses = intersect(parse("([ab]?[.]?)" * 1500 + "@.*", dialect="ecma", mode="search"), complement(long))
    assert has_outline(intersect(addresses, beside("email", "@")))
    assert not has_outline(addresses)
    for outline in (around, within):
        assert has_outline(outline(intersect(addresses, beside("email", "@")))) is False


@pytest.mark.parametrize("name", ["hostname", "email", "idn-hostname", "idn-email"])
def test_what_has_an_outline_is_seen_through_all_that_it_is_put_together_by(name: str) -> None:
    language = beside(name, "a")
    assert has_outline(language)
    other = parse("[xy]{2,9}", dialect="python", mode="fullmatch")
    for made in (concat(other, language), concat(language, other), union(language, other), repeat(language, 2, 5)):
        assert has_outline(made)
        assert has_outline(complement(made))
    assert not has_outline(other)
