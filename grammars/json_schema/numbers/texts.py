"""How JSON writes numbers, whatever their value (RFC 8259 section 6), and how exponents write integers.

All languages are over ASCII.  An exponent here is what follows the letter `e`: an optional sign and digits, in which
leading zeros are legal.

Texts with an exponent stay within the range of binary64: RFC 8259 section 6 says that no reader can be expected to have
more, and for most readers `1e400` is infinite, `1e-400` nothing.  Plain decimals may have any length.
"""

from __future__ import annotations

from grammars.memory import remembered
from grammars.regular import EPSILON, NONE, Rx, chars, concat, literal, literals, repeat, union

SCIENTIFIC_DIGITS = 20
"""Fraction digits that a mantissa may have where integers or multiples are asked for; 16 print any binary64 exactly."""


LARGEST_EXPONENT = 307
"""Of normalised scientific notation: 9.99e307 is finite.  One more has 10 to 308, and any number up to the largest where
no bound or multiple is asked for."""
SMALLEST_EXPONENT = -324

_LARGEST_MANTISSA = "17976931348623157"

LONG_DIGITS = 20
LONG_EXPONENT = 99
"""A mantissa of up to so many digits before its point has an exponent of at most this size."""


def digits(lowest: int, highest: int) -> Rx:
    """One digit between `lowest` and `highest`, both included."""
    return chars([(48 + lowest, 48 + highest)])


def optional(rx: Rx) -> Rx:
    """The words of `rx` and the empty word."""
    return union(EPSILON, rx)


ZERO_DIGIT = literal("0")
DIGIT = digits(0, 9)
DIGITS = repeat(DIGIT, 0, None)
SOME_DIGITS = repeat(DIGIT, 1, None)
NONZERO_DIGIT = digits(1, 9)
SIGN = optional(literal("-"))
EXPONENT_LETTER = chars([(69, 69), (101, 101)])

_FRACTION_PART = optional(concat(literal("."), SOME_DIGITS))
_SHORT_FRACTION_PART = optional(concat(literal("."), repeat(DIGIT, 1, SCIENTIFIC_DIGITS)))
_ZERO_FRACTION = concat(literal("."), repeat(ZERO_DIGIT, 1, None))
_NATURAL = union(ZERO_DIGIT, concat(NONZERO_DIGIT, DIGITS))

PLAIN_INTEGER_TAIL = DIGITS
INTEGER_TAIL = concat(DIGITS, optional(_ZERO_FRACTION))
NUMBER_TAIL = concat(DIGITS, _FRACTION_PART)


@remembered(4096)
def exponent_rx(least: int | None, most: int | None) -> Rx:
    """Exponents between `least` and `most`, both included; `None` is no bound.  Leading zeros and both zeros count."""
    signs = []
    if most is None or most >= 0:
        upward = natural_rx(max(least or 0, 0), most)
        signs.append(concat(optional(literal("+")), upward))
    if least is None or least <= 0:
        downward = natural_rx(max(-most, 0) if most is not None else 0, None if least is None else -least)
        signs.append(concat(literal("-"), downward))
    return union(*signs)


@remembered(4096)
def natural_rx(least: int, most: int | None) -> Rx:
    """Digit strings with any leading zeros whose value lies between `least` and `most`, both included."""
    if most is not None and least > most:
        return NONE
    if most is None:
        if least == 0:
            return SOME_DIGITS
        width = len(str(least))
        longer = concat(NONZERO_DIGIT, repeat(DIGIT, width, None))
        return concat(repeat(ZERO_DIGIT, 0, None), union(_between(str(least), "9" * width), longer))
    low, high = str(least), str(most)
    parts = []
    for width in range(len(low), len(high) + 1):
        first = low if width == len(low) else "1" + "0" * (width - 1)
        last = high if width == len(high) else "9" * width
        parts.append(_between(first, last))
    return concat(repeat(ZERO_DIGIT, 0, None), union(*parts))


@remembered(4096)
def _between(low: str, high: str) -> Rx:
    """Digit strings of the width of `low` and `high`, which is the same, from one to the other."""
    if not low:
        return EPSILON
    rest = len(low) - 1
    if low == "0" * (rest + 1) and high == "9" * (rest + 1):
        return repeat(DIGIT, rest + 1, rest + 1)
    first, last = int(low[0]), int(high[0])
    if first == last:
        return concat(digits(first, first), _between(low[1:], high[1:]))
    parts = [concat(digits(first, first), _between(low[1:], "9" * rest))]
    if first + 1 < last:
        parts.append(concat(digits(first + 1, last - 1), repeat(DIGIT, rest, rest)))
    parts.append(concat(digits(last, last), _between("0" * rest, high[1:])))
    return union(*parts)


ZERO_EXPONENT = exponent_rx(SMALLEST_EXPONENT, LARGEST_EXPONENT)

ZERO_UNSIGNED = concat(ZERO_DIGIT, optional(_ZERO_FRACTION), optional(concat(EXPONENT_LETTER, ZERO_EXPONENT)))
"""Zero in all its writings, without a sign."""


def _with_exponent(mantissa: Rx, least: int, most: int) -> Rx:
    return concat(mantissa, EXPONENT_LETTER, exponent_rx(least, most))


_LONG_MANTISSA = union(
    concat(NONZERO_DIGIT, repeat(DIGIT, 0, LONG_DIGITS - 1), _SHORT_FRACTION_PART),
    concat(literal("0."), repeat(ZERO_DIGIT, 0, LONG_DIGITS), NONZERO_DIGIT, repeat(DIGIT, 0, SCIENTIFIC_DIGITS)),
)
_SCIENTIFIC = union(
    _with_exponent(concat(NONZERO_DIGIT, _SHORT_FRACTION_PART), SMALLEST_EXPONENT, LARGEST_EXPONENT),
    _with_exponent(NONZERO_DIGIT, LARGEST_EXPONENT + 1, LARGEST_EXPONENT + 1),
)


def _largest() -> Rx:
    """Numbers from ten to 308 to the largest of binary64."""
    largest = _LARGEST_MANTISSA
    mantissas = [literals(largest[1:end] for end in range(2, len(largest) + 1))]
    for place in range(1, len(largest)):
        if largest[place] != "0":
            smaller = concat(literal(largest[1:place]), digits(0, int(largest[place]) - 1))
            mantissas.append(concat(smaller, repeat(DIGIT, 0, SCIENTIFIC_DIGITS - place)))
    return _with_exponent(concat(literal("1."), union(*mantissas)), LARGEST_EXPONENT + 1, LARGEST_EXPONENT + 1)


POSITIVE = union(
    concat(NONZERO_DIGIT, DIGITS, _FRACTION_PART),
    concat(literal("0."), repeat(ZERO_DIGIT, 0, None), NONZERO_DIGIT, DIGITS),
    _SCIENTIFIC,
    _largest(),
    _with_exponent(_LONG_MANTISSA, -LONG_EXPONENT, LONG_EXPONENT),
)
"""Everything above zero: plain decimals, and every form of exponent."""

UNSIGNED = union(POSITIVE, ZERO_UNSIGNED)

NUMBER = concat(SIGN, UNSIGNED)
"""Every number in the texts of this package."""

MEASURED = concat(SIGN, union(concat(_NATURAL, _FRACTION_PART), ZERO_UNSIGNED, _SCIENTIFIC))
"""The texts on which every language of this package is exact, so that complements are taken within it."""
