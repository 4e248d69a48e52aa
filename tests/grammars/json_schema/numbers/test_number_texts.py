"""Languages of number texts, against exact fractions."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grammars.errors import LimitExceeded
from grammars.json_schema.numbers import (
    INTEGER,
    MEASURED,
    NUMBER,
    equal_number_rx,
    listed_numbers_rx,
    number_rx,
    other_number_rx,
)
from grammars.regular import NONE, Rx, derivatives, is_empty, is_subset, matches, shortest, union

JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
PLAIN = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
ZERO = re.compile(r"-?0(\.0+)?([eE][+-]?[0-9]+)?")
NORMALISED = re.compile(r"-?[1-9](\.[0-9]{1,20})?[eE]([+-]?[0-9]+)")

SHORT_TEXTS = ["".join(letters) for size in range(1, 5) for letters in itertools.product("-0123.e+", repeat=size)]


def in_sub_language(text: str) -> bool:
    if PLAIN.fullmatch(text):
        return True
    if ZERO.fullmatch(text):
        return -324 <= int(text.lower().partition("e")[2]) <= 307
    normalised = NORMALISED.fullmatch(text)
    return normalised is not None and -324 <= int(normalised[2]) <= (307 if normalised[1] else 308)


def meets(value: Fraction, limits: dict[str, Decimal | bool]) -> bool:
    compare: dict[str, Callable[[Fraction], bool]] = {
        "integer": lambda _: value.denominator == 1,
        "minimum": lambda bound: value >= bound,
        "exclusive_minimum": lambda bound: value > bound,
        "maximum": lambda bound: value <= bound,
        "exclusive_maximum": lambda bound: value < bound,
        "multiple_of": lambda step: (value / step).denominator == 1,
    }
    return all(compare[name](Fraction(limit)) for name, limit in limits.items() if limit is not False)


def assert_agrees(rx: Rx, text: str, limits: dict[str, Decimal | bool]) -> None:
    got = rx is not NONE and matches(rx, text)
    wanted = JSON_NUMBER.fullmatch(text) is not None and meets(Fraction(text), limits)
    if wanted and not in_sub_language(text):
        return  # such a text may be left out, but never let in wrongly
    assert got == wanted, (text, limits)


def assert_never_stuck(rx: Rx, states: int) -> None:
    seen = {rx}
    waiting = [rx]
    while waiting and len(seen) < states:
        state = waiting.pop()
        following = derivatives(state)
        assert state.nullable or following, state
        for _, _, target in following:
            if target not in seen:
                seen.add(target)
                waiting.append(target)


decimals = st.one_of(
    st.decimals(min_value=-30, max_value=30, places=2),
    st.integers(-40, 1200).map(Decimal),
    st.builds(lambda digits, places: Decimal(digits).scaleb(places), st.integers(-999, 999), st.integers(-5, 4)),
)
digit_texts = st.text("0123456789", min_size=1, max_size=4)
texts = st.one_of(
    decimals.map(str),
    st.builds("{}{}.{}".format, st.sampled_from(["", "-"]), st.integers(0, 40), digit_texts),
    st.builds("{}.{}e{}".format, st.integers(-9, 9), digit_texts, st.integers(-6, 6)),
    st.builds("{}{}{}0{}".format, st.integers(-9, 9), st.sampled_from("eE"), st.sampled_from("+-"), st.integers(0, 9)),
    st.builds("0.000{}".format, digit_texts),
    st.text("-0129.e+E", max_size=7),
)


@st.composite
def limits(draw: st.DrawFn) -> dict[str, Decimal | bool]:
    chosen: dict[str, Decimal | bool] = {}
    for names in (("minimum", "exclusive_minimum"), ("maximum", "exclusive_maximum")):
        if draw(st.booleans()):
            chosen[draw(st.sampled_from(names))] = draw(decimals)
    if draw(st.booleans()):
        chosen["integer"] = True
    if draw(st.booleans()):
        chosen["multiple_of"] = draw(decimals.map(abs).filter(lambda step: step > 0))
    return chosen


@settings(max_examples=150)
@given(limits(), st.lists(texts, min_size=20, max_size=40))
def test_a_text_matches_exactly_if_its_value_meets_the_limits(
    chosen: dict[str, Decimal | bool], candidates: list[str]
) -> None:
    try:
        rx = number_rx(**chosen)  # type: ignore[arg-type]
    except LimitExceeded as error:
        assert error.keyword == "multipleOf"
        return
    for text in candidates:
        assert_agrees(rx, text, chosen)
    if rx is not NONE:
        assert_never_stuck(rx, 60)


@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {"integer": True},
        {"minimum": Decimal(0)},
        {"exclusive_minimum": Decimal(0)},
        {"maximum": Decimal(0)},
        {"minimum": Decimal(1), "maximum": Decimal(12)},
        {"minimum": Decimal("-3.2"), "exclusive_maximum": Decimal("1.3")},
        {"minimum": Decimal("0.02"), "maximum": Decimal("0.31")},
        {"integer": True, "minimum": Decimal(2), "maximum": Decimal(31)},
        {"multiple_of": Decimal("0.2")},
        {"multiple_of": Decimal(3)},
        {"multiple_of": Decimal("1.5"), "minimum": Decimal(2), "maximum": Decimal(33)},
        {"multiple_of": Decimal(100)},
        {"exclusive_minimum": Decimal(3), "exclusive_maximum": Decimal("3.1")},
        {"minimum": Decimal("1e3"), "maximum": Decimal("3e5")},
    ],
    ids=str,
)
def test_every_short_text_agrees(chosen: dict[str, Decimal | bool]) -> None:
    rx = number_rx(**chosen)  # type: ignore[arg-type]
    for text in SHORT_TEXTS:
        assert_agrees(rx, text, chosen)
    assert_never_stuck(rx, 500)


def test_without_limits_every_form_of_number_is_in_the_language() -> None:
    assert number_rx() is NUMBER
    for text in ("-0", "0.0", "1E+02", "12.5e-007", "0.05e3", "1e308", "1.7976931348623157e+308", "5e-324", "9" * 400):
        assert matches(NUMBER, text)
    for text in ("01", ".5", "1.", "+1", "1e", "-", "0x1", "1_0", "١", "Infinity"):
        assert not matches(NUMBER, text)


def test_exponents_stay_within_what_binary64_holds() -> None:
    for text in (
        "1e309",
        "1.7976931348623158e308",
        "1.8e308",
        "1e400",
        "1e-400",
        "12345e304",
        "1e99999999999",
        "0e99999999999",
    ):
        assert not matches(NUMBER, text), text
    for rx in (INTEGER, number_rx(minimum=Decimal(5)), number_rx(multiple_of=Decimal(3)), MEASURED):
        assert matches(rx, "9.6e307") and not matches(rx, "9.6e308") and not matches(rx, "6e309")
    assert matches(INTEGER, "12.5e99") and not matches(INTEGER, "12.5e300")
    # Bounds and multiples beyond are reached all the same.
    assert matches(number_rx(minimum=Decimal("1e400")), "1e400")
    assert matches(number_rx(maximum=Decimal("1e-400"), exclusive_minimum=Decimal(0)), "1e-400")
    assert matches(number_rx(multiple_of=Decimal("1e400")), "1e400")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_is_a_number_as_python_prints_it(value: float) -> None:
    assert matches(NUMBER, json.dumps(value))


@pytest.mark.parametrize(
    "rx", [NUMBER, INTEGER, number_rx(minimum=Decimal(7)), number_rx(multiple_of=Decimal(7)), MEASURED]
)
def test_random_texts_with_exponents_are_finite(rx: Rx) -> None:
    rng = random.Random(3)
    seen = 0
    for _ in range(400):
        state, text = rx, ""
        while not (state.nullable and (rng.random() < 0.05 or not derivatives(state))):
            low, high, state = rng.choice(derivatives(state))
            text += chr(rng.randint(low, high))
        if "e" in text.lower() and Fraction(text.lower().partition("e")[0]) != 0:
            seen += 1
            # Of 2e308 to 9e308 bounds know nothing; a mantissa with a fraction never gets there.
            assert 0 < abs(float(text)) < float("inf") or text.lower().lstrip("-").partition("e")[0] in "23456789"
    assert seen > 50


def test_integers_are_integers_by_value() -> None:
    for text in ("7", "-0", "1.0", "1e2", "1.50e1", "12.5e1", "1E+02", "0.0e-9", "-2.000"):
        assert matches(INTEGER, text), text
    for text in ("1.5", "1e-2", "1.55e1", "0.1"):
        assert not matches(INTEGER, text), text


def test_draft_4_integers_are_digits_alone() -> None:
    rx = number_rx(integer=True, draft4_integers=True, minimum=Decimal(-3))
    assert [text for text in SHORT_TEXTS if matches(rx, text)][:8] == ["0", "1", "2", "3", "-0", "-1", "-2", "-3"]
    assert not any(matches(rx, text) for text in SHORT_TEXTS if "." in text or "e" in text)


def test_negative_zero_is_allowed_exactly_when_zero_is() -> None:
    assert matches(number_rx(minimum=Decimal(0)), "-0.00")
    assert matches(number_rx(maximum=Decimal(0)), "0e5")
    assert not matches(number_rx(exclusive_minimum=Decimal(0)), "-0")
    assert not matches(number_rx(minimum=Decimal(1)), "-0")


def test_bounds_are_never_rounded() -> None:
    bound = Decimal("9007199254740993.00000000000000000000000001")
    rx = number_rx(maximum=bound)
    assert matches(rx, "9007199254740993.00000000000000000000000001")
    assert not matches(rx, "9007199254740993.000000000000000000000000010001")
    assert not matches(rx, "9007199254740994")
    assert matches(rx, "9.00719925474099300000000000000000000000001e15")
    assert not matches(rx, "9.00719925474099300000000000000000000000002e15")


def test_bounds_far_outside_of_binary_floats_work() -> None:
    rx = number_rx(minimum=Decimal("1e-400"), maximum=Decimal("1e400"))
    assert matches(rx, "1e400") and matches(rx, "9.9e399") and matches(rx, "1e-400")
    assert not matches(rx, "1.1e400") and not matches(rx, "1e401") and not matches(rx, "9.9e-401")


@pytest.mark.parametrize(
    ("limits_", "members", "others"),
    [
        ({"multiple_of": Decimal("0.01")}, ["1.25", "1.250", "-0.07", "1e3", "7.5e-1"], ["1.255", "1e-3"]),
        ({"multiple_of": Decimal("1e-7")}, ["0.0000001", "1e-7", "2.5e-6"], ["1.5e-7", "0.00000001"]),
        ({"multiple_of": Decimal("2.5")}, ["5", "7.5", "1e1", "2.50"], ["4", "2e0", "7.55"]),
        ({"multiple_of": Decimal(3_600_000)}, ["3600000", "-7200000", "3.6e6", "1.8e7", "0"], ["360000", "3.6e5"]),
        ({"multiple_of": [Decimal(4), Decimal(6)]}, ["12", "24.0"], ["4", "6", "18"]),
    ],
)
def test_multiples_are_exact(limits_: dict[str, Decimal], members: list[str], others: list[str]) -> None:
    rx = number_rx(**limits_)  # type: ignore[arg-type]
    assert all(matches(rx, text) for text in members)
    assert not any(matches(rx, text) for text in others)


def test_too_many_remainders_are_refused_by_name() -> None:
    with pytest.raises(LimitExceeded, match="multipleOf") as caught:
        number_rx(multiple_of=Decimal(10**60 + 7))
    assert caught.value.keyword == "multipleOf"
    with pytest.raises(LimitExceeded, match="multipleOf"):
        number_rx(multiple_of=[Decimal(10**30 + 1), Decimal(10**31 + 3)])
    with pytest.raises(LimitExceeded, match="beside others that are left out"):
        number_rx(multiple_of=Decimal(1_000_003), measured=True)


def test_limits_that_contradict_each_other_leave_nothing() -> None:
    assert number_rx(minimum=Decimal(2), exclusive_maximum=Decimal(2)) is NONE
    assert number_rx(integer=True, exclusive_minimum=Decimal(2), exclusive_maximum=Decimal(3)) is NONE
    assert number_rx(multiple_of=Decimal(7), minimum=Decimal(1), maximum=Decimal(6)) is NONE
    assert number_rx(exclusive_minimum=Decimal(0), exclusive_maximum=Decimal(0)) is NONE


@pytest.mark.parametrize("bad", [Decimal("NaN"), Decimal("Infinity")])
def test_a_bound_must_be_a_number(bad: Decimal) -> None:
    with pytest.raises(ValueError, match="no number"):
        number_rx(minimum=bad)


@pytest.mark.parametrize("bad", [Decimal(0), Decimal(-2), Decimal("NaN")])
def test_a_multiple_must_be_positive(bad: Decimal) -> None:
    with pytest.raises(ValueError, match="not positive"):
        number_rx(multiple_of=bad)


@given(decimals, texts)
def test_equal_numbers_are_equal_by_value(value: Decimal, text: str) -> None:
    rx = equal_number_rx(value)
    wanted = JSON_NUMBER.fullmatch(text) is not None and Fraction(text) == Fraction(value)
    assert matches(rx, text) == (wanted and in_sub_language(text))
    if value:
        assert matches(rx, f"{value:.40e}") and matches(rx, f"{value:.40f}")


@given(st.lists(decimals, min_size=1, max_size=6), texts)
def test_listed_numbers_have_the_texts_of_each(values: list[Decimal], text: str) -> None:
    rx = listed_numbers_rx(values)
    for candidate in (text, *[f"{value:.5e}" for value in values], *[f"{value:f}00" for value in values]):
        assert matches(rx, candidate) == any(matches(equal_number_rx(value), candidate) for value in values)


def test_a_hundred_thousand_numbers_are_one_language() -> None:
    rx = listed_numbers_rx(map(Decimal, range(100_000)))
    assert matches(rx, "99999") and matches(rx, "4.21e3") and matches(rx, "17.0") and matches(rx, "-0")
    assert not matches(rx, "100000") and not matches(rx, "-1") and not matches(rx, "1e5") and not matches(rx, "1.5")
    assert shortest(rx) == "0"


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_what_python_prints_for_a_float_is_in_the_language_of_its_value(value: float) -> None:
    assert matches(equal_number_rx(Decimal(repr(value))), json.dumps(value))


@given(limits(), texts)
def test_other_numbers_are_the_rest(chosen: dict[str, Decimal | bool], text: str) -> None:
    try:
        rx = number_rx(**chosen)  # type: ignore[arg-type]
    except LimitExceeded:
        return
    rest = other_number_rx(rx)
    if in_sub_language(text):
        assert matches(rest, text) != matches(rx, text)
    else:
        assert not matches(rest, text)


def test_a_complement_of_a_bound_says_nothing_wrong() -> None:
    small = number_rx(maximum=Decimal(100))
    assert is_subset(other_number_rx(small), number_rx(exclusive_minimum=Decimal(100)))
    assert is_empty(other_number_rx(union(small, number_rx(minimum=Decimal(3)))))
    assert is_subset(MEASURED, NUMBER)


def test_a_shortest_number_is_found() -> None:
    assert shortest(number_rx(minimum=Decimal(17), maximum=Decimal("17.5"))) == "17"
    assert len(shortest(number_rx(multiple_of=Decimal(7919), minimum=Decimal(1))) or "") == 4
