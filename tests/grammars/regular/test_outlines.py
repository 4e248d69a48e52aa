"""Languages around and within those whose states are too many to be searched."""

from __future__ import annotations

import pytest

from grammars.json_schema.formats import format_rx
from grammars.json_schema.formats.alabels import Digits
from grammars.regex import parse
from grammars.regular import Rx, complement, intersect, is_empty, is_subset, matches, moves, shortest, unfold
from grammars.regular.outlines import around, within


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
