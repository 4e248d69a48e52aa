"""What must be one object: states that are recognised as known ones cost no new mask."""

from __future__ import annotations

import copy
import gc
import pickle
import subprocess
import sys
import threading

import pytest

from grammars.regular import (
    ALL,
    ANY,
    EPSILON,
    NO_COUNTERS,
    NONE,
    Rx,
    chars,
    complement,
    concat,
    counter_slack,
    derivative,
    difference,
    intersect,
    literal,
    literals,
    moves,
    relax_counters,
    repeat,
    union,
)
from grammars.regular.rx import table_size

LETTER = chars([(97, 122)])
DIGIT = chars([(48, 57)])


def after(rx: Rx, text: str) -> Rx:
    for char in text:
        rx = derivative(rx, ord(char))
    return rx


def test_anything_goes_is_one_object() -> None:
    assert after(concat(literal("foo"), ALL), "foo") is ALL
    assert union(ALL, literal("x")) is ALL
    assert union(literal("x"), repeat(ANY, 1, None), EPSILON) is ALL
    assert concat(ALL, ALL) is ALL
    assert concat(repeat(ANY, 0, 3), ALL) is ALL
    assert repeat(ANY, 0, None) is ALL
    assert repeat(ALL, 2, 5) is ALL
    assert repeat(union(LETTER, chars([(0, 96), (123, 0x10FFFF)])), 0, None) is ALL
    assert complement(NONE) is ALL
    assert intersect() is ALL
    assert complement(complement(literal("ab"))) is literal("ab")
    assert after(repeat(ANY, 3, None), "abc") is ALL
    assert after(concat(ALL, literal("ab"), ALL), "xxab") is ALL
    assert union(complement(literal("ab")), literal("ab")) is ALL


def test_nothing_is_one_object() -> None:
    assert union() is NONE
    assert concat(LETTER, NONE) is NONE
    assert intersect(LETTER, DIGIT) is NONE
    assert intersect(repeat(LETTER, 3, 5), repeat(ANY, 6, None)) is NONE
    assert intersect(literal("abc"), concat(ALL, DIGIT)) is NONE
    assert difference(literal("ab"), literal("ab")) is NONE
    assert literal("a\ud800") is NONE
    assert repeat(NONE, 0, 5) is EPSILON


def test_units_and_sets_are_merged() -> None:
    assert union(literal("a"), literal("b")) is chars([(97, 98)])
    assert union(EPSILON, repeat(LETTER, 1, None)) is repeat(LETTER, 0, None)
    assert concat(LETTER, repeat(LETTER, 0, None)) is repeat(LETTER, 1, None)
    assert concat(repeat(LETTER, 1, 2), repeat(LETTER, 3, 4)) is repeat(LETTER, 4, 6)
    assert repeat(repeat(LETTER, 1000, 1000), 1000, 1000) is repeat(LETTER, 1_000_000, 1_000_000)
    assert repeat(repeat(repeat(LETTER, 0, None), 0, None), 0, 1) is repeat(LETTER, 0, None)
    assert repeat(union(LETTER, repeat(DIGIT, 0, None)), 0, None) is repeat(union(LETTER, DIGIT), 0, None)
    assert union(repeat(LETTER, 1, 3), repeat(LETTER, 2, 9)) is repeat(LETTER, 1, 9)
    assert concat(literal("ab"), literal("cd")) is literal("abcd")
    assert union(concat(literal("ab"), ALL), concat(literal("cd"), ALL)) is concat(literals(["ab", "cd"]), ALL)
    assert concat(ALL, repeat(LETTER, 0, 3), DIGIT) is concat(ALL, DIGIT)
    assert concat(DIGIT, repeat(LETTER, 2, 5), ALL) is concat(DIGIT, repeat(LETTER, 2, 2), ALL)
    assert intersect(repeat(LETTER, 1, 9), repeat(ANY, 3, None), repeat(union(LETTER, DIGIT), 0, None)) is repeat(
        LETTER, 3, 9
    )
    assert intersect(repeat(ANY, 0, 20), repeat(concat(LETTER, DIGIT), 0, 3)) is repeat(concat(LETTER, DIGIT), 0, 3)


def test_counters_make_a_step_of_constant_size() -> None:
    rx = repeat(ANY, 0, 10_000)
    assert moves(rx) == ((ANY, repeat(ANY, 0, 9_999)),)
    assert after(repeat(literal("ab"), 2, 5), "abab") is repeat(literal("ab"), 0, 3)


@pytest.mark.parametrize(
    ("rx", "horizon", "relaxed"),
    [
        (repeat(ANY, 0, 5000), 128, ALL),
        (repeat(ANY, 3000, 5000), 128, repeat(ANY, 129, None)),
        (repeat(ANY, 0, 127), 128, repeat(ANY, 0, 127)),
        (repeat(ANY, 5, 128), 128, repeat(ANY, 5, None)),
        (concat(repeat(LETTER, 0, 500), literal("x")), 64, concat(repeat(LETTER, 0, None), literal("x"))),
        (
            intersect(repeat(ANY, 0, 500), concat(repeat(LETTER, 1, None), DIGIT, repeat(LETTER, 1, None))),
            64,
            None,
        ),
    ],
)
def test_counters_out_of_reach_are_dropped(rx: Rx, horizon: int, relaxed: Rx | None) -> None:
    expected = concat(repeat(LETTER, 1, None), DIGIT, repeat(LETTER, 1, None)) if relaxed is None else relaxed
    assert relax_counters(rx, horizon) is expected


def test_slack_says_how_long_a_counter_does_not_matter() -> None:
    assert counter_slack(repeat(ANY, 0, 20)) == (ALL, 20)
    assert counter_slack(concat(literal("ab"), repeat(LETTER, 0, 7))) == (concat(literal("ab"), repeat(LETTER)), 9)
    assert counter_slack(literal("abc")) == (literal("abc"), NO_COUNTERS)
    assert counter_slack(repeat(LETTER, 2, 8)) == (repeat(LETTER, 2, 8), NO_COUNTERS)
    email = concat(repeat(LETTER, 1, None), literal("@"), repeat(LETTER, 1, None))
    assert counter_slack(intersect(repeat(ANY, 0, 50), email)) == (email, 47)


def test_a_hundred_thousand_words_cost_only_their_fan_out() -> None:
    words = [f"{number:05d}x" for number in range(100_000)]
    rx = literals(words)
    assert literals(reversed(words)) is rx
    assert [chr(charset.a[0][0]) for charset, _ in moves(rx)] == list("0123456789")
    assert after(rx, "12345x") is EPSILON
    assert after(rx, "1234") is concat(DIGIT, literal("x")) or len(moves(after(rx, "1234"))) == 10


def test_languages_that_nobody_uses_go_away() -> None:
    gc.collect()
    before = table_size()
    for number in range(200):
        rx = repeat(concat(literal(f"word{number}"), repeat(LETTER, number, number + 5)), 0, None)
        for char in f"word{number}abc":
            rx = derivative(rx, ord(char))
    del rx
    gc.collect()
    assert table_size() <= before + 5


def test_threads_get_the_same_objects() -> None:
    results: list[list[Rx]] = []

    def work() -> None:
        mine = []
        for number in range(300):
            rx = union(concat(literal(f"key{number}"), repeat(LETTER, 0, number)), repeat(DIGIT, number, None))
            mine.append(rx)
            moves(rx)
        results.append(mine)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first, *others = results
    assert len(results) == 4
    assert all(left is right for other in others for left, right in zip(first, other, strict=True))


def test_the_order_of_operands_is_the_same_in_every_process() -> None:
    program = (
        "from grammars.regular import *\n"
        "junk = [literal('junk%d' % n) for n in range({junk})]\n"
        "parts = [repeat(literal('ab%d' % n), n, None) for n in {order}]\n"
        "print([x.a.a for x in union(*parts).a])\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program.format(junk=junk, order=order)], capture_output=True, text=True, check=True
        ).stdout
        for junk, order in ((0, [1, 2, 3, 4, 5]), (50, [5, 3, 1, 2, 4]))
    }
    assert len(outputs) == 1 and "ab3" in next(iter(outputs))


def test_a_language_is_its_own_copy_and_does_not_pickle() -> None:
    rx = concat(LETTER, DIGIT)
    assert copy.deepcopy(rx) is rx
    with pytest.raises(TypeError, match="pickle the grammar"):
        pickle.dumps(rx)
