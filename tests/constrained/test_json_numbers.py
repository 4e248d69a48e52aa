"""Numbers that doubles or Python's own reader cannot take come back exact."""

from __future__ import annotations

import threading
from decimal import Decimal
from typing import Any

import pytest

from constrained.deep_stack import with_deep_stack
from constrained.errors import ResultError
from constrained.json_numbers import plain, read_exact
from constrained.validation import JsonCheck
from grammars import JsonSchema

LONG = "7" * 5000


def _value(text: str, schema: Any = True) -> Any:
    return JsonCheck(JsonSchema(schema)).parse(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", 1),
        ("1.0", 1.0),
        ("-0.0", 0.0),
        ("0e999", 0.0),
        ("1e400", 10**400),
        ("-12.5e400", -125 * 10**399),
        ("1e-400", Decimal("1e-400")),
        ("1e5000", Decimal("1e5000")),
        ("1" + "0" * 400 + ".5", Decimal("1" + "0" * 400 + ".5")),
        ("1e99999999999999999999", Decimal("1e999999999999999999")),
        ("-1e-99999999999999999999", Decimal("-1e-999999999999999999")),
        ("0e99999999999999999999", 0.0),
    ],
)
def test_a_number_comes_back_without_a_loss(text: str, expected: Any) -> None:
    value = plain(read_exact(text))
    assert value == expected
    assert type(value) is type(expected)


def test_an_integer_may_have_any_number_of_digits() -> None:
    value = _value(f"[{LONG}, -{LONG}]")
    assert value == [7 * (10**5000 - 1) // 9, -7 * (10**5000 - 1) // 9]
    assert [type(one) for one in value] == [int, int]


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{"maximum": 5}, {"type": "integer"}]},
        {"multipleOf": 7},
        {"not": {"type": "string"}},
        {"type": ["integer", "null"], "minimum": 1},
    ],
)
def test_a_long_integer_is_checked_like_any_other(schema: Any) -> None:
    assert type(_value(LONG, schema)) is int


def test_a_long_number_that_does_not_fit_is_refused_in_words() -> None:
    with pytest.raises(ResultError, match="does not fit the schema"):
        _value(LONG, {"maximum": 5})
    with pytest.raises(ResultError, match=r"not a multiple of 0\.01"):
        _value(LONG + ".075", {"multipleOf": 0.01})


@pytest.mark.parametrize(
    ("schema", "text", "expected"),
    [
        ({"type": "integer"}, "1.0", 1),
        ({"type": "integer"}, "1.2e3", 1200),
        ({"type": "integer"}, "1e400", 10**400),
        ({"type": "number"}, "1.0", 1.0),
        ({"type": ["string", "integer"]}, "2e0", 2),
        ({"items": {"type": "integer"}}, "[1.0, 2]", [1, 2]),
        ({"properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}}, '{"a": 3.0, "b": 3.0}',
         {"a": 3, "b": 3.0}),
    ],
)  # fmt: skip
def test_an_integer_comes_back_as_one_however_it_is_written(schema: Any, text: str, expected: Any) -> None:
    assert repr(_value(text, schema)) == repr(expected)


def test_what_json_does_not_know_is_not_read() -> None:
    for text in ("NaN", "[Infinity]", "-Infinity"):
        with pytest.raises(ResultError, match="not JSON"):
            _value(text)


@pytest.mark.parametrize("depth", [400, 4000])
def test_deep_nesting_is_checked_too(depth: int) -> None:
    value = _value("[" * depth + "]" * depth, {"type": "array", "items": {"$ref": "#"}, "maxItems": 1})
    for _ in range(depth - 1):
        [value] = value
    assert value == []


def test_an_error_on_the_deep_stack_is_handed_on_and_the_limits_are_put_back() -> None:
    def descend(depth: int) -> int:
        if depth == 0:
            raise KeyError("at the bottom")
        return descend(depth - 1)

    before = threading.stack_size()
    with pytest.raises(KeyError, match="at the bottom"):
        with_deep_stack(lambda: descend(20_000))
    assert threading.stack_size() == before
    with pytest.raises(RecursionError):
        descend(20_000)
