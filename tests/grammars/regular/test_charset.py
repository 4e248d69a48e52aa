"""Sets of code points against Python sets, with many and few ranges and around the surrogates."""

from __future__ import annotations

import random

import pytest

from grammars.regular import ANY, NONE, Rx, chars
from grammars.regular.charset import contains, invert_ranges, join, join_all, meet, minus, normalise, sample

DOMAIN = [*range(0, 400), *range(0xD7D0, 0xD800), *range(0xE000, 0xE050), *range(0x10FF80, 0x110000)]


def members(charset: Rx) -> set[int]:
    return {code for code in DOMAIN if charset is not NONE and contains(charset, code)}


def random_set(source: random.Random) -> Rx:
    ranges = []
    for _ in range(source.choice([1, 2, 20, 60])):
        low = source.choice(
            [source.randint(0, 300), source.randint(0xD7E0, 0xE020), source.randint(0x10FFC0, 0x10FFFF)]
        )
        ranges.append((low, low + source.randint(0, source.choice([0, 3, 40]))))
    return chars(ranges)


@pytest.mark.parametrize("seed", range(8))
def test_set_operations_agree_with_python_sets(seed: int) -> None:
    source = random.Random(seed)
    for _ in range(60):
        left, right = random_set(source), random_set(source)
        a, b = members(left), members(right)
        for result, expected in (
            (meet(left, right), a & b),
            (minus(left, right), a - b),
            (join(left, right), a | b),
            (join_all([left, right, NONE, left, random_set(source), right]), None),
            (chars(invert_ranges(left.a or ())), set(DOMAIN) - a),
        ):
            if expected is not None:
                assert members(result) == expected
            if result is not NONE:
                assert result.a == normalise(result.a)


def test_surrogates_and_what_lies_outside_unicode_are_left_out() -> None:
    assert chars([(0xD800, 0xDFFF)]) is NONE
    assert chars([(0x110000, 0x120000), (-5, -1)]) is NONE
    assert chars([(0, 0x10FFFF)]) is ANY
    assert chars([(0xD700, 0xE005)]).a == ((0xD700, 0xD7FF), (0xE000, 0xE005))


def test_samples_are_members_and_pleasant_where_possible() -> None:
    assert chr(sample(ANY)) == "a"
    assert chr(sample(chars([(0, 0x60)]))) == "0"
    assert sample(chars([(34, 34), (0x3B1, 0x3B9)])) == 34
