"""Texts that a string lets pass whatever they say, against running them."""

from __future__ import annotations

import itertools
import re

import pytest

from constrained.automata.character_classes import wide_flags
from constrained.automata.free_texts import free_texts
from constrained.kernels.branches import ALL_WIDE, MOST_WIDE
from grammars.regex import parse
from grammars.regular import NONE, Rx, complement, derivatives, intersect

LETTERS = "abx-"


def language(pattern: str) -> Rx:
    return parse(pattern, "ecma", re.DOTALL)


def allowed(rx: Rx, text: str) -> bool:
    """Whether a word of the language begins with the text."""
    for character in text:
        rx = next((to for low, high, to in derivatives(rx) if low <= ord(character) <= high), NONE)
    return rx is not NONE


PATTERNS = [
    "[ab]{2,3}", "[ab]{2,3}x", "[ab]{2,3}b", "[ab]{3}-?", "[ab]{2,}", "[ab]{1,}x", ".*x", ".*x.*", "(.*x|a-)", "(.*ab|b|)",
    "[ab]*x", "([ab]*x|-)", "([ab]*x|[abx]*)", "a.*x", "[ab]{0,2}(x|[ab])", "x{2}", "ab|ba", "(ab)*", "[ab]{2}|[ab]*x",
    "(a|.*ab)?", "(-|[ab]*x)?",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_free_texts_pass_up_to_their_number_and_no_longer(pattern: str) -> None:
    rx = language(pattern)
    found = free_texts((rx,))
    if found is None:
        return
    free = [letter for letter in LETTERS if found.ascii_bits >> ord(letter) & 1]
    assert free
    for size in range(5):
        for text in map("".join, itertools.product(free, repeat=size)):
            assert allowed(rx, text) == (found.most is None or size <= found.most), text


def test_which_languages_have_free_texts() -> None:
    found = {pattern for pattern in PATTERNS if free_texts((language(pattern),)) is not None}
    assert set(PATTERNS) - found == {"[ab]{2,3}b", "a.*x", "[ab]{0,2}(x|[ab])", "ab|ba", "(ab)*"}


def test_languages_side_by_side_pass_all_texts_where_one_of_them_or_its_opposite_does() -> None:
    searching, short = language(".*x.*"), language("[ab]{2}")
    for languages in [(short, searching), (short, complement(short)), (searching, complement(searching))]:
        found = free_texts(languages)
        assert found is not None
        assert found.most is None
        for text in map("".join, itertools.product(LETTERS, repeat=4)):
            assert any(allowed(rx, text) for rx in languages)
    assert free_texts((short, language("[ab]{3}"))) is None
    assert free_texts((intersect(searching, language(".*ab.*")),)) is not None
    assert free_texts((intersect(searching, language(".*ab")),)) is not None
    assert free_texts((intersect(searching, language("[^b]*a")),)) is None
    assert free_texts((intersect(searching, short),)) is None


def test_sets_may_lack_white_space_outside_ascii_and_no_other_character() -> None:
    for pattern, flags in [
        (r"[\s\S]", ALL_WIDE), (r"\S", MOST_WIDE), (r"[^\u2028\u2029]", MOST_WIDE), (r"[^\u2027]", 0), (r"[^\u2028-\u2030]", 0),
        (r"[a-z]", 0), (r"[^a\ud7ff]", 0), (r"[^a]", ALL_WIDE),
    ]:  # fmt: skip
        assert wide_flags(language(pattern)) == flags, pattern
