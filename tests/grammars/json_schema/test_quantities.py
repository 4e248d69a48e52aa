"""Numeric conditions that meet by arithmetic, against the numbers themselves."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from grammars.json_schema.quantities import Quantity, meet_all_numbers, meet_numbers, other_numbers
from grammars.regular import NONE, matches

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
    assert held(meet_numbers(a.language(), b.language())) == both
    assert held(meet_all_numbers([b.language(), a.language()])) == both


@settings(max_examples=150, deadline=None)
@given(QUANTITIES, QUANTITIES)
def test_a_quantity_without_another_keeps_the_rest(a: Quantity, b: Quantity) -> None:
    left = [number for number in NUMBERS if admits(a, number) and not admits(b, number)]
    assert held(meet_numbers(a.language(), other_numbers(b.language()))) == left
    if a.within(b):
        assert not left


def test_contradicting_bounds_are_no_language() -> None:
    assert Quantity((Decimal(1), True), (Decimal(1), False)).language() is NONE
    above, below = Quantity(low=(Decimal(3), False)), Quantity(high=(Decimal(2), False))
    assert meet_numbers(above.language(), below.language()) is NONE
