"""Sets of numbers under Boolean operations, against the numbers themselves."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from grammars import JsonSchema
from grammars.json_schema import root_value
from grammars.json_schema.number_algebra import (
    language_of,
    language_of_values,
    meet_all_numbers,
    meet_numbers,
    other_numbers,
    unite_numbers,
)
from grammars.json_schema.quantities import Quantity
from grammars.regular import NONE, Rx, is_empty, matches

BOUNDS = st.one_of(st.none(), st.tuples(st.integers(-6, 6).map(Decimal), st.booleans()))
QUANTITIES = st.builds(
    Quantity,
    BOUNDS,
    BOUNDS,
    st.sets(st.sampled_from([Decimal(2), Decimal(3), Decimal("0.5"), Decimal("1.5")]), max_size=2).map(frozenset),
    st.booleans(),
)
NUMBERS = [Decimal(n) / 4 for n in range(-32, 33)]


def admits(quantity: Quantity, number: Decimal) -> bool:
    if quantity.low is not None and (number < quantity.low[0] or (number == quantity.low[0] and quantity.low[1])):
        return False
    if quantity.high is not None and (number > quantity.high[0] or (number == quantity.high[0] and quantity.high[1])):
        return False
    if quantity.integer and number != number.to_integral_value():
        return False
    return all(number % multiple == 0 for multiple in quantity.multiples)


def held(rx: Any) -> list[Decimal]:
    return [number for number in NUMBERS if matches(rx, f"{number.normalize():f}")]


@settings(max_examples=150, deadline=None)
@given(QUANTITIES, QUANTITIES)
def test_two_quantities_meet_in_the_numbers_of_both(a: Quantity, b: Quantity) -> None:
    both = [number for number in NUMBERS if admits(a, number) and admits(b, number)]
    assert held(meet_numbers(language_of(a), language_of(b))) == both
    assert held(meet_all_numbers([language_of(b), language_of(a)])) == both


@settings(max_examples=150, deadline=None)
@given(QUANTITIES, QUANTITIES)
def test_a_quantity_without_another_keeps_the_rest(a: Quantity, b: Quantity) -> None:
    left = [number for number in NUMBERS if admits(a, number) and not admits(b, number)]
    assert held(meet_numbers(language_of(a), other_numbers(language_of(b)))) == left
    if a.within(b):
        assert not left


def test_contradicting_bounds_are_no_language() -> None:
    assert Quantity((Decimal(1), True), (Decimal(1), False)).language() is NONE
    above, below = Quantity(low=(Decimal(3), False)), Quantity(high=(Decimal(2), False))
    assert meet_numbers(language_of(above), language_of(below)) is NONE


@settings(max_examples=150, deadline=None)
@given(QUANTITIES)
def test_a_quantity_knows_whether_it_holds_a_number_and_has_any(quantity: Quantity) -> None:
    members = [number for number in NUMBERS if admits(quantity, number)]
    assert [number for number in NUMBERS if quantity.holds(number)] == members
    assert quantity.is_empty() == (language_of(quantity) is NONE)
    assert not (members and quantity.is_empty())
    listed = quantity.members(100)
    if listed is not None:
        assert sorted(listed) == members


# A set of numbers: its language, and the test that it stands for.
SETS = st.recursive(
    QUANTITIES.map(lambda q: ("quantity", q))
    | st.sets(st.sampled_from(NUMBERS), max_size=3).map(lambda v: ("values", v)),
    lambda inner: st.one_of(
        st.tuples(st.just("and"), inner, inner),
        st.tuples(st.just("or"), inner, inner),
        st.tuples(st.just("not"), inner),
    ),
    max_leaves=6,
)


def language(expression: Any) -> Rx:
    match expression:
        case ("quantity", quantity):
            return language_of(quantity)
        case ("values", values):
            return language_of_values(values)
        case ("and", left, right):
            return meet_numbers(language(left), language(right))
        case ("or", left, right):
            return unite_numbers([language(left), language(right)])
        case _:
            return other_numbers(language(expression[1]))


def contains(expression: Any, number: Decimal) -> bool:
    match expression:
        case ("quantity", quantity):
            return admits(quantity, number)
        case ("values", values):
            return number in values
        case ("and", left, right):
            return contains(left, number) and contains(right, number)
        case ("or", left, right):
            return contains(left, number) or contains(right, number)
        case _:
            return not contains(expression[1], number)


@settings(max_examples=200, deadline=None)
@given(SETS)
def test_boolean_combinations_hold_the_numbers_that_they_should(expression: Any) -> None:
    rx = language(expression)
    assert held(rx) == [number for number in NUMBERS if contains(expression, number)]
    assert (rx is NONE) == is_empty(rx)


def number_of(schema: dict[str, Any]) -> Rx:
    return root_value(JsonSchema(schema)).alternatives().number


def test_towers_of_multiples_are_decided_in_arithmetic() -> None:
    few = number_of({
        "allOf": [{"multipleOf": m} for m in (6.75, 19, 9.5, 2.125)],
        "not": {"anyOf": [{"multipleOf": m} for m in (2, 6.5, 5, 7, 11, 37)]},
        "exclusiveMinimum": -100000, "exclusiveMaximum": -10000,
        "$ref": "#/$defs/other", "$defs": {"other": {"not": {"const": -78489}}},
    })  # fmt: skip
    assert matches(few, "-26163") and matches(few, "-2.6163e4") and not matches(few, "-78489")
    many = number_of({"allOf": [{"multipleOf": 77}, {"multipleOf": 4}, {"not": {"multipleOf": 429}}], "maximum": -9})
    assert matches(many, "-4004") and not matches(many, "-12012")
    none = {"type": "number", "allOf": [{"multipleOf": 12}, {"multipleOf": 143}, {"not": {"multipleOf": 429}}]}
    assert number_of(none) is NONE
