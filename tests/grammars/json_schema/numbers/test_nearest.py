"""Multiples with more remainders than can be searched: short completions are worked out, and are members."""

from __future__ import annotations

from decimal import Decimal, localcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grammars.json_schema.numbers import number_rx
from grammars.regular import NONE, Rx, at_hand, derivative, matches, moves, shortest

steps = st.builds(lambda digits, places: Decimal(digits).scaleb(-places), st.integers(65, 10**12), st.integers(0, 9))
bounds = st.one_of(
    st.none(),
    st.builds(lambda digits, power: Decimal(digits).scaleb(power), st.integers(-999, 999), st.integers(-3, 14)),
)


def is_member(text: str, step: Decimal, low: Decimal | None, high: Decimal | None) -> bool:
    with localcontext(prec=500):
        value = Decimal(text)
        return value % step == 0 and (low is None or value >= low) and (high is None or value <= high)


def after(rx: Rx, text: str) -> Rx:
    for char in text:
        rx = derivative(rx, ord(char))
    return rx


@settings(max_examples=150)
@given(st.data(), steps, bounds, bounds)
def test_completions_of_prefixes_are_members_and_no_search_finds_shorter_ones(
    data: st.DataObject, step: Decimal, low: Decimal | None, high: Decimal | None
) -> None:
    rx = number_rx(multiple_of=step, minimum=low, maximum=high)
    prefix = ""
    for _ in range(data.draw(st.integers(0, 9))):
        choices = [(chars.a[0][0], target) for chars, target in moves(rx)]
        if not choices:
            break
        code, rx = data.draw(st.sampled_from(choices))
        prefix += chr(code)
    if rx is NONE:
        return
    word = at_hand(rx)
    if word is None:
        word = shortest(rx)
    assert word is not None
    assert is_member(prefix + word, step, low, high), (prefix, word)
    assert matches(rx, word)
    if rx.kind == 10 and not rx.nullable:  # an unfolding: what it says of lengths bounds them
        assert rx.a.nearest[0] <= len(word)


@pytest.mark.parametrize(
    ("limits", "prefix", "word"),
    [
        ({"multiple_of": Decimal(123456789)}, "1", "23456789"),
        ({"multiple_of": Decimal(123456789), "integer": True}, "-24691357", "8"),
        ({"multiple_of": Decimal("0.123456789"), "integer": True}, "12345678", "9"),
        ({"multiple_of": Decimal("0.000123"), "minimum": Decimal("7.5")}, "7.5", "03"),
        ({"multiple_of": Decimal(999_999_937), "maximum": Decimal(10**10)}, "9999", "99937"),
    ],
)
def test_the_shortest_way_to_a_multiple_is_known(limits: dict[str, Decimal], prefix: str, word: str) -> None:
    rx = after(number_rx(**limits), prefix)  # type: ignore[arg-type]
    assert shortest(rx) is not None
    assert len(shortest(rx) or "") == len(word)
    assert matches(rx, word)


def test_multiples_of_large_numbers_are_exact() -> None:
    rx = number_rx(multiple_of=Decimal(123456789), integer=True)
    for text in ("123456789", "-246913578", "1.23456789e8", "123456789000.0", "0", f"{123456789 * (10**40 + 1)}"):
        assert matches(rx, text), text
    for text in ("123456788", "1.23456789e7", "1e308", "123456789.5", f"{123456789 * (10**40 + 1) + 1}"):
        assert not matches(rx, text), text
