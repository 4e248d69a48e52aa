"""Random expressions over a small alphabet: the algebra's answers against sets of all short words."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grammars.regular import (
    ALL,
    ANY,
    EPSILON,
    NONE,
    Rx,
    chars,
    complement,
    concat,
    counter_slack,
    derivatives,
    difference,
    intersect,
    is_empty,
    is_subset,
    literal,
    literals,
    longest_length,
    matches,
    moves,
    relax_counters,
    repeat,
    shortest,
    shortest_length,
    union,
    words,
)
from grammars.regular.lengths import UNKNOWN, length_gap

LENGTH = 5
ALPHABET = "ab\u00e9"
UNIVERSE = frozenset("".join(w) for n in range(LENGTH + 1) for w in itertools.product(ALPHABET, repeat=n))

Language = frozenset[str]
Pair = tuple[Rx, Language]


def cut(language: Language | set[str]) -> Language:
    return frozenset(word for word in language if len(word) <= LENGTH)


def joined(left: Language, right: Language) -> Language:
    return frozenset(x + y for x in left for y in right if len(x) + len(y) <= LENGTH)


def repeated(language: Language, least: int, most: int | None) -> Language:
    turn: Language = frozenset([""])
    for _ in range(least):
        turn = joined(turn, language)
    out = set(turn)
    for _ in range((LENGTH + 1) if most is None else most - least):
        turn = joined(turn, language)
        if turn <= out:
            break
        out |= turn
    return frozenset(out)


def char_set(letters: str) -> Pair:
    return chars((ord(c), ord(c)) for c in letters), frozenset(letters)


LEAVES: st.SearchStrategy[Pair] = st.one_of(
    st.sampled_from([(NONE, frozenset[str]()), (EPSILON, frozenset([""])), (ALL, UNIVERSE)]),
    st.just((ANY, frozenset(ALPHABET))),
    st.text(ALPHABET, min_size=1, max_size=3).map(char_set),
    st.text(ALPHABET, max_size=3).map(lambda text: (literal(text), frozenset([text]))),
    st.lists(st.text(ALPHABET, max_size=3), max_size=5).map(lambda ws: (literals(ws), frozenset(ws))),
)


def binary(rx: Callable[..., Rx], sets: Callable[[Language, Language], Language]) -> Callable[[Pair, Pair], Pair]:
    return lambda left, right: (rx(left[0], right[0]), cut(sets(left[1], right[1])))


def counted(pair: Pair, least: int, extra: int | None) -> Pair:
    most = None if extra is None else least + extra
    return repeat(pair[0], least, most), repeated(pair[1], least, most)


def grow(inner: st.SearchStrategy[Pair], boolean: bool) -> st.SearchStrategy[Pair]:
    branches = [
        st.builds(binary(concat, joined), inner, inner),
        st.builds(binary(union, lambda x, y: x | y), inner, inner),
        st.builds(counted, inner, st.integers(0, 3), st.none() | st.integers(0, 3)),
    ]
    if boolean:
        branches += [
            st.builds(binary(intersect, lambda x, y: x & y), inner, inner),
            st.builds(binary(difference, lambda x, y: x - y), inner, inner),
            inner.map(lambda pair: (complement(pair[0]), UNIVERSE - pair[1])),
        ]
    return st.one_of(*branches)


EXPRESSIONS = st.recursive(LEAVES, lambda inner: grow(inner, True), max_leaves=9)
PLAIN = st.recursive(LEAVES, lambda inner: grow(inner, False), max_leaves=9)


def walk(rx: Rx, depth: int = LENGTH) -> tuple[Language, Language]:
    """Words and live prefixes over the alphabet that derivatives lead to, up to a length."""
    found: set[str] = set()
    prefixes: set[str] = set()
    level = [("", rx)]
    for _ in range(depth + 1):
        following = []
        for prefix, node in level:
            prefixes.add(prefix)
            if node.nullable:
                found.add(prefix)
            for letter in ALPHABET:
                for lo, hi, target in derivatives(node):
                    if lo <= ord(letter) <= hi:
                        following.append((prefix + letter, target))
        level = following
    return frozenset(found), frozenset(prefixes)


@settings(max_examples=400, deadline=None)
@given(EXPRESSIONS)
def test_derivatives_spell_exactly_the_words_of_the_language(pair: Pair) -> None:
    rx, language = pair
    assert walk(rx)[0] == language
    assert rx.nullable == ("" in language)


@settings(max_examples=300, deadline=None)
@given(EXPRESSIONS)
def test_a_text_matches_iff_it_is_a_word_of_the_language(pair: Pair) -> None:
    rx, language = pair
    assert {word for word in UNIVERSE if matches(rx, word)} == language
    assert not matches(union(rx, complement(rx)), "a\ud800")


@settings(max_examples=200, deadline=None)
@given(EXPRESSIONS)
def test_derivatives_are_sorted_disjoint_merged_and_live(pair: Pair) -> None:
    rx, _ = pair
    ranges = derivatives(rx)
    assert list(ranges) == sorted(ranges, key=lambda one: one[0])
    for (_, high, left), (low, _, right) in itertools.pairwise(ranges):
        assert high < low
        assert not (high + 1 == low and left is right)
    for lo, hi, target in ranges:
        assert lo <= hi
        assert not (lo <= 0xDFFF and hi >= 0xD800)
        assert not is_empty(target)
        word = shortest(target)
        assert word is not None
        assert matches(rx, chr(lo) + word) and matches(rx, chr(hi) + word)
    targets = [target for _, target in moves(rx)]
    assert len(set(targets)) == len(targets)


@settings(max_examples=300, deadline=None)
@given(EXPRESSIONS)
def test_length_questions_agree_with_the_words(pair: Pair) -> None:
    rx, language = pair
    word = shortest(rx)
    assert is_empty(rx) == (word is None)
    if word is not None:
        assert matches(rx, word) and shortest_length(rx) == len(word)
        assert len(word) <= min(map(len, language), default=len(word))
    # Complements have words with letters that the brute force does not know.
    spelled = shortest(intersect(rx, repeat(chars((ord(c), ord(c)) for c in ALPHABET), 0, None)))
    if language:
        assert spelled is not None and len(spelled) == min(map(len, language)) and spelled in language
    else:
        assert spelled is None or len(spelled) > LENGTH
    assert rx.low <= (shortest_length(rx) or 0) or is_empty(rx)
    longest = longest_length(rx)
    if longest is not None:
        assert all(len(one) <= longest for one in language)
        assert rx.high is None or rx.high >= longest
    listed = words(rx, 60)
    if listed is not None:
        assert sorted(listed) == sorted(set(listed)) and all(matches(rx, one) for one in listed)
        assert cut({one for one in listed if set(one) <= set(ALPHABET)}) == language
        assert max(map(len, listed), default=0) == longest


@settings(max_examples=200, deadline=None)
@given(PLAIN)
def test_plain_expressions_are_empty_only_as_none(pair: Pair) -> None:
    rx, language = pair
    assert is_empty(rx) == (rx is NONE)
    if language:
        assert rx is not NONE


@settings(max_examples=200, deadline=None)
@given(EXPRESSIONS, EXPRESSIONS)
def test_subset_means_every_word_is_in_the_other(left: Pair, right: Pair) -> None:
    if is_subset(left[0], right[0]):
        assert left[1] <= right[1]
    else:
        witness = shortest(difference(left[0], right[0]))
        assert witness is not None and matches(left[0], witness) and not matches(right[0], witness)


@settings(max_examples=400, deadline=None)
@given(EXPRESSIONS, st.integers(0, LENGTH))
def test_relaxed_counters_look_the_same_within_the_horizon(pair: Pair, horizon: int) -> None:
    rx, _ = pair
    if is_empty(rx):
        return
    assert walk(relax_counters(rx, horizon), horizon) == walk(rx, horizon)


@settings(max_examples=400, deadline=None)
@given(EXPRESSIONS)
def test_the_base_without_counters_looks_the_same_within_its_slack(pair: Pair) -> None:
    rx, _ = pair
    if is_empty(rx):
        return
    base, slack = counter_slack(rx)
    depth = min(slack, LENGTH)
    assert walk(base, depth) == walk(rx, depth)


@pytest.mark.parametrize("least", [0, 1, 3])
def test_union_and_intersection_do_not_care_for_order_nesting_or_duplicates(least: int) -> None:
    a, b, c = literal("abc"), repeat(literal("xy"), least, 5), concat(chars([(48, 57)]), literal("q"))
    assert union(a, union(b, c), a) is union(c, a, b)
    p, q, r = concat(ALL, a), concat(ALL, c, ALL), complement(concat(b, ANY))
    assert intersect(p, intersect(q, r), p) is intersect(r, q, p)


@settings(max_examples=300, deadline=None)
@given(PLAIN)
def test_no_two_neighbouring_lengths_are_further_apart_than_the_gap(pair: Pair) -> None:
    rx, language = pair
    gap = length_gap(rx)
    if language and gap < UNKNOWN:
        lengths = sorted({len(word) for word in language})
        assert all(later - one <= max(gap, 1) for one, later in itertools.pairwise(lengths))
        assert lengths[0] == rx.low
        if rx.high is None or rx.high > lengths[-1]:
            assert LENGTH - lengths[-1] < max(gap, 1)
