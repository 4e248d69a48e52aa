"""JSON texts to Python values without a loss: numbers that a double or Python's reader cannot take are kept exact.

JSON sets no bounds to numbers (RFC 8259, section 6).  `json.loads` makes `1e400` infinite and refuses integers of more
than 4,300 digits; here a text is read with its numbers as they are written, checked so, and then made plain.
"""

from __future__ import annotations

import json
import math
import sys
from decimal import Decimal
from typing import Any, Final

Json = Any
"""A JSON value as `json.loads` gives it."""

_MOST_DIGITS: Final = 4_300
"""Python writes and reads no longer integers unless told to; what an exponent makes longer stays a `Decimal`."""
_LARGEST: Final = 999_999_999_999_999_999
"""Of exponents that a `Decimal` can have."""


class Literal(Decimal):
    """A number as it was written, with a fraction, an exponent or very many digits.

    Attributes:
        is_integer: the text has neither fraction nor exponent, or a schema was found to take it as an integer.
    """

    is_integer: bool = False


def read_exact(text: str) -> Json:
    """The value of a JSON text, numbers that are not plain integers as `Literal`.

    Raises:
        ValueError: not JSON.
        RecursionError: nested deeper than Python's own limit.
    """
    return json.loads(text, parse_float=_literal, parse_int=_integer, parse_constant=_refuse)


def plain(value: Json) -> Json:
    """The same value with plain numbers: `int`, `float`, and `Decimal` for what neither of them can hold.

    An integer is an `int`, also where it was written as `1.0` and the schema takes it as an integer.
    """
    if isinstance(value, Literal):
        return _plain_number(value)
    if isinstance(value, dict):
        return {key: plain(member) for key, member in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def _plain_number(number: Literal) -> int | float | Decimal:
    digits = number.as_tuple()
    is_short = isinstance(digits.exponent, int) and digits.exponent <= _MOST_DIGITS
    if number.is_integer and is_short:
        return int(number)
    rounded = float(number)
    if not number or (rounded and math.isfinite(rounded)):
        return rounded
    if is_short and number == number.to_integral_value():
        return int(number)
    return Decimal(number)


def _literal(text: str) -> Literal:
    try:
        return Literal(text)
    except ArithmeticError:  # an exponent of more than 18 digits: as good as the largest there is
        mantissa, _, exponent = text.lower().partition("e")
        sign = "-" if exponent.startswith("-") else ""
        return Literal(f"{'-' if mantissa.startswith('-') else ''}1e{sign}{_LARGEST}" if Decimal(mantissa) else "0.0")


def _integer(text: str) -> int | Literal:
    limit = sys.get_int_max_str_digits() or sys.maxsize
    if len(text) <= min(limit, _MOST_DIGITS):
        return int(text)
    literal = Literal(text)
    literal.is_integer = True
    return literal


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
