"""Languages of the texts of numbers that satisfy JSON Schema's assertions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

from grammars.json_schema.numbers.magnitude import magnitude_rx
from grammars.json_schema.numbers.spans import Bound, Grid, span_of
from grammars.json_schema.numbers.texts import (
    EXPONENT_LETTER,
    MEASURED,
    NUMBER,
    POSITIVE,
    SIGN,
    UNSIGNED,
    ZERO_DIGIT,
    ZERO_UNSIGNED,
    exponent_rx,
    optional,
)
from grammars.memory import remembered
from grammars.regular import NONE, Rx, concat, difference, literal, literals, repeat, union

_End = tuple[Decimal, bool]

_MINUS = literal("-")


def number_rx(
    *,
    integer: bool = False,
    minimum: Decimal | None = None,
    exclusive_minimum: Decimal | None = None,
    maximum: Decimal | None = None,
    exclusive_maximum: Decimal | None = None,
    multiple_of: Decimal | Sequence[Decimal] | None = None,
    draft4_integers: bool = False,
    measured: bool = False,
) -> Rx:
    """All number texts whose exact value meets the bounds, of the sub-language that the package describes.

    Args:
        integer: integers by value (`1.0` and `1e2` are, JSON Schema draft 6 and later).
        minimum, exclusive_minimum, maximum, exclusive_maximum: finite bounds; all of them hold together.
        multiple_of: positive; the number is a multiple of each.
        draft4_integers: with `integer`, only texts without fraction and exponent (draft 4, section 3.5).
        measured: for an operand of `other_number_rx` or its result: texts about which that says nothing are left out where
            they would only make states.

    Raises:
        LimitExceeded: `keyword` is `multipleOf`; where multiples have more than 10^50 remainders to tell apart, or
            10,000 where they are `measured`.
        ValueError: for a bound that is not finite, or a multiple that is not positive.
    """
    if multiple_of is None:
        multiples: tuple[Decimal, ...] = ()
    else:
        multiples = (multiple_of,) if isinstance(multiple_of, Decimal) else tuple(multiple_of)
    for bound in (minimum, exclusive_minimum, maximum, exclusive_maximum):
        if bound is not None and not bound.is_finite():
            raise ValueError(f"a bound that is no number: {bound}")
    for multiple in multiples:
        if not multiple.is_finite() or multiple <= 0:
            raise ValueError(f"a multiple that is not positive: {multiple}")
    low = _tighter(minimum, exclusive_minimum, 1)
    high = _tighter(maximum, exclusive_maximum, -1)
    return _number_rx(low, high, multiples, integer, integer and draft4_integers, measured)


def equal_number_rx(value: Decimal) -> Rx:
    """All texts of this value: zeros after the fraction, and normalised exponents."""
    return _number_rx((value, True), (value, True), (), False, False)


def listed_numbers_rx(values: Iterable[Decimal]) -> Rx:
    """All texts of these values, as `equal_number_rx` has them; what a hundred thousand of them cost is a sort."""
    positive: dict[str, list[tuple[str, int]]] = {"": [], "-": []}
    zero = False
    for value in values:
        sign, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)
        text = "".join(map(str, digits)).lstrip("0")
        zero = zero or not text
        if text:
            positive["-" if sign else ""].append((text.rstrip("0"), exponent + len(text) - 1))
    signed = [concat(literal(sign), _listed_magnitudes(numbers)) for sign, numbers in positive.items() if numbers]
    return union(*signed, concat(SIGN, ZERO_UNSIGNED) if zero else NONE)


def _listed_magnitudes(numbers: list[tuple[str, int]]) -> Rx:
    """Texts without sign of positive numbers, each given by its significant digits and its decimal exponent."""
    integers, fractions = [], []
    mantissas: dict[int, tuple[list[str], list[str]]] = {}
    for digits, exponent in numbers:
        if exponent >= len(digits) - 1:
            integers.append(digits + "0" * (exponent + 1 - len(digits)))
        elif exponent >= 0:
            fractions.append(f"{digits[: exponent + 1]}.{digits[exponent + 1 :]}")
        else:
            fractions.append(f"0.{'0' * (-exponent - 1)}{digits}")
        whole, broken = mantissas.setdefault(exponent, ([], []))
        if len(digits) == 1:
            whole.append(digits)
        else:
            broken.append(f"{digits[0]}.{digits[1:]}")
    parts = [_padded(integers, fractions)]
    parts += [
        concat(_padded(*listed), EXPONENT_LETTER, exponent_rx(exponent, exponent))
        for exponent, listed in sorted(mantissas.items())
    ]
    return union(*parts)


def _padded(integers: Iterable[str], fractions: Iterable[str]) -> Rx:
    """The same numbers with more zeros behind the point."""
    zeros = repeat(ZERO_DIGIT, 0, None)
    return union(concat(literals(integers), optional(concat(literal(".0"), zeros))), concat(literals(fractions), zeros))


def other_number_rx(rx: Rx) -> Rx:
    """The numbers that are not in `rx`, a language of this package or a union or an intersection of such.

    Only texts on which all languages of the package are exact are in the result, so it holds no number twice: with
    `12e1`, which is in no language of numbers up to 100, it says nothing about 120.
    """
    return difference(MEASURED, rx)


def _tighter(closed: Decimal | None, exclusive: Decimal | None, side: int) -> _End | None:
    if exclusive is not None and (closed is None or exclusive.compare(closed) * side >= 0):
        return exclusive, False
    return None if closed is None else (closed, True)


@remembered(4096)
def _number_rx(
    low: _End | None,
    high: _End | None,
    multiples: tuple[Decimal, ...],
    integer: bool,
    bare: bool,
    measured: bool = False,
) -> Rx:
    if low is None and high is None and not integer and not multiples:
        return NUMBER
    grid = Grid.of(multiples, integer, measured)
    zero = (low is None or low[0] < 0 or (low[0] == 0 and low[1])) and (
        high is None or high[0] > 0 or (high[0] == 0 and high[1])
    )
    positive = _magnitudes(low, high, zero, grid, bare, measured)
    negative = _magnitudes(_mirrored(high), _mirrored(low), zero, grid, bare, measured)
    return union(positive, concat(_MINUS, negative))


def _mirrored(end: _End | None) -> _End | None:
    return None if end is None else (end[0].copy_negate(), end[1])


def _magnitudes(low: _End | None, high: _End | None, zero: bool, grid: Grid | None, bare: bool, measured: bool) -> Rx:
    """Texts without sign of the members of an interval that are zero (where it belongs) or positive."""
    span = None
    if high is None or high[0] > 0:
        lower = Bound.of(*low) if low is not None and low[0] > 0 else None
        upper = Bound.of(*high) if high is not None else None
        if lower is None and upper is None and grid is None:
            return UNSIGNED if zero else POSITIVE
        span = span_of(lower, upper, zero, grid, bare, measured)
    if span is not None:
        return magnitude_rx(span)
    if not zero:
        return NONE
    return literal("0") if bare else ZERO_UNSIGNED
