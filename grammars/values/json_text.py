"""JSON texts of schemas, read without a loss: integers of any size, fractions as decimals."""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

from grammars.errors import LimitExceeded, SchemaError

_MOST_DIGITS = 4_300
"""Python reads and writes no longer integers unless told to; `Decimal` holds those exactly."""


def read_json(text: str | bytes) -> Any:
    """The value of a JSON text: numbers with a fraction, an exponent or very many digits are `Decimal`.

    Raises:
        SchemaError: it holds `NaN` or `Infinity`.
        LimitExceeded: a number has an exponent of more than 18 digits.
        json.JSONDecodeError, UnicodeDecodeError: not JSON.
        RecursionError: nested deeper than Python's own limit.
    """
    return json.loads(text, parse_float=_decimal, parse_int=_integer, parse_constant=_refuse_constant)


def _integer(text: str) -> int | Decimal:
    return int(text) if len(text) <= _MOST_DIGITS else _decimal(text)


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise LimitExceeded(f"the number {text[:40]}{'…' if len(text) > 40 else ''} is out of range", "") from None


def _refuse_constant(name: str) -> NoReturn:
    raise SchemaError(f"{name} is not JSON", pointer="")
