"""What `re` takes of a text, from the machine of its threads, against `re` itself."""

from __future__ import annotations

import itertools
import random
import re

import pytest

from grammars import UnsupportedFeature
from grammars.lark.terminals import ends_anywhere, taken
from grammars.regex import parse
from grammars.regular import Rx, matches

TEXTS = ["".join(word) for length in range(6) for word in itertools.product("abc", repeat=length)]
REPEATS = ["*", "+", "?", "*?", "+?", "??", "{1,2}", "{2}", "{0,2}?", "{1,}"]
LOOKS = ["(?!a)", r"(?!ab\b)", "(?=b)", "(?!ab|c)", "(?<=a)", "(?<!b)", r"\b", "$", r"\Z"]


def _expression(chance: random.Random, depth: int) -> str:
    roll = chance.random()
    if depth == 0 or roll < 0.3:
        return chance.choice(["a", "b", "ab", "[ab]", "[^a]", "c", "."])
    inner = _expression(chance, depth - 1)
    if roll < 0.5:
        return inner + _expression(chance, depth - 1)
    if roll < 0.7:
        return f"(?:{inner}|{_expression(chance, depth - 1)})"
    if roll < 0.75:
        return f"(?:|{inner})"
    return f"(?:{inner}){chance.choice(REPEATS)}"


def _pattern(seed: int) -> str:
    chance = random.Random(seed)
    pattern = _expression(chance, 3)
    if chance.random() < 0.3:
        pattern = _expression(chance, 2) + chance.choice(LOOKS) + _expression(chance, 2)
    if chance.random() < 0.1:
        pattern = f"(?:{pattern}|{_expression(chance, 1)}){chance.choice(['', '*', '+?'])}"
    return pattern


def _ends(always: Rx, where: tuple[tuple[Rx, Rx], ...], text: str) -> list[int]:
    return [
        end
        for end in range(1, len(text) + 1)
        if matches(always, text[:end])
        or any(matches(words, text[:end]) and matches(rests, text[end:]) for words, rests in where)
    ]


@pytest.mark.parametrize("block", range(6))
def test_the_longest_text_that_is_taken_is_what_re_matches(block: int) -> None:
    compared = 0
    for seed in range(block * 25, block * 25 + 25):
        pattern = _pattern(seed)
        try:
            found = taken(pattern)
        except UnsupportedFeature:
            continue
        compared += 1
        expression = re.compile(pattern)
        for text in TEXTS:
            match = expression.match(text)
            expected = match.end() if match else 0
            assert max(_ends(found.always, found.where, text), default=0) == expected, (pattern, text)
    assert compared > 10


@pytest.mark.parametrize("block", range(6))
def test_ends_are_those_that_dynamic_complete_tries(block: int) -> None:
    compared = 0
    for seed in range(1000 + block * 25, 1000 + block * 25 + 25):
        pattern = _pattern(seed)
        expression = re.compile(pattern)
        if expression.match(""):
            continue
        try:
            found = ends_anywhere(pattern)
        except UnsupportedFeature:
            continue
        compared += 1
        for text in TEXTS[1:]:
            expected = set()
            match = expression.match(text)
            if match and match.end():
                expected.add(match.end())
                shorter = (expression.match(match[0][:end]) for end in range(1, match.end()))
                expected |= {one.end() for one in shorter if one and one.end()}
            assert set(_ends(found.always, found.where, text)) == expected, (pattern, text)
    assert compared > 5


@pytest.mark.parametrize(
    "pattern",
    [r"\d+(?:\.\d+)?", r"[a-z_]\w*", r"0|[1-9]\d*", r'"[^"\n]*"', "(?i:select)", r"\w{1,10000}", "(?:foo|bar|foobar)?x",
     r"(?:a|b)*c", r"/\*(?:[^*]|\*+[^*/])*\*+/"],
)  # fmt: skip
def test_an_expression_whose_order_does_not_matter_is_its_own_language(pattern: str) -> None:
    assert taken(pattern).always is parse(pattern)
    assert taken(pattern).where == ()


@pytest.mark.parametrize(
    ("pattern", "whole", "not_whole"),
    [
        ('".*?"', ['"a"', '""'], ['"a"b"']),
        ("a|ab", ["a"], ["ab"]),
        ("a+?", ["a"], ["aa"]),
        (r'".*?(?<!\\)(\\\\)*?"', [r'"a\"b"', r'"\\"'], [r'"a"b"', r'"a\"']),
    ],
)
def test_lazy_repeats_and_ordered_alternatives_are_decided(
    pattern: str, whole: list[str], not_whole: list[str]
) -> None:
    assert all(matches(taken(pattern).always, text) for text in whole)
    assert not any(matches(taken(pattern).always, text) for text in not_whole)


@pytest.mark.parametrize(
    "pattern",
    [r"\bfoo", "(?<!a)b", "^a", r"\Ab", "a++b", "(?>a|ab)c", r"(a)\1", "a(?=(?<=a)b)b", "(?:(?<=a)b|c)"],
)
def test_what_looks_at_the_text_before_or_gives_nothing_back_is_refused(pattern: str) -> None:
    with pytest.raises(UnsupportedFeature):
        taken(pattern)
