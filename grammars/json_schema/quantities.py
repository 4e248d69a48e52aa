"""What numeric keywords ask of a number: bounds and multiples, in exact arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import count
from math import ceil, floor, gcd, lcm

from grammars import regular
from grammars.json_schema.numbers import number_rx
from grammars.memory import remembered
from grammars.regular import NONE, Rx

_FAR = 5_000
"""Decimal places beyond which numbers are left to the automata, which compare them digit by digit."""

_End = tuple[Decimal, bool]  # a bound, and whether it is itself outside


@dataclass(frozen=True, slots=True)
class Quantity:
    """Numbers between two bounds that are multiples of everything in `multiples`.

    Attributes:
        low, high: a bound and whether it is exclusive; `None`: unbounded.
        integer: integers only; `strict`: by their text (draft 4).
    """

    low: _End | None = None
    high: _End | None = None
    multiples: frozenset[Decimal] = frozenset()
    integer: bool = False
    strict: bool = False

    def language(self, *, measured: bool = False) -> Rx:
        """Texts of these numbers; `NONE` itself where there are none.  Arguments and errors are those of `number_rx`."""
        low, high = self.low, self.high
        if low and high and (low[0] > high[0] or (low[0] == high[0] and (low[1] or high[1]))):
            return NONE
        rx = number_rx(
            integer=self.integer,
            minimum=_inclusive(self.low),
            exclusive_minimum=_exclusive(self.low),
            maximum=_inclusive(self.high),
            exclusive_maximum=_exclusive(self.high),
            multiple_of=sorted(self.multiples) or None,
            draft4_integers=self.strict,
            measured=measured,
        )
        return NONE if regular.is_empty(rx) else rx

    def meets(self, other: Quantity) -> Quantity:
        """The numbers of both."""
        return Quantity(
            _tighter(self.low, other.low, 1),
            _tighter(self.high, other.high, -1),
            self.multiples | other.multiples,
            self.integer or other.integer,
            self.strict or other.strict,
        )

    def within(self, other: Quantity) -> bool:
        """A sufficient test that every number of these is one of `other`."""
        if _tighter(self.low, other.low, 1) != self.low or _tighter(self.high, other.high, -1) != self.high:
            return False
        if other.strict and not self.strict:
            return False
        wanted, own = other._step(), self._step()
        return wanted is None or (own is not None and own % wanted == 0)

    @staticmethod
    def point(value: Decimal) -> Quantity:
        """Exactly one number."""
        return Quantity((value, False), (value, False))

    def measurable(self) -> bool:
        """Whether the operands are of a size that arithmetic on fractions can afford."""
        numbers = [end[0] for end in (self.low, self.high) if end is not None]
        return all(abs(number.adjusted()) < _FAR and _places(number) < _FAR for number in (*numbers, *self.multiples))

    def holds(self, number: Decimal) -> bool:
        """Whether a number is one of these, whatever its text."""
        if self.low is not None and (number < self.low[0] or (self.low[1] and number == self.low[0])):
            return False
        if self.high is not None and (number > self.high[0] or (self.high[1] and number == self.high[0])):
            return False
        step = self._step()
        return step is None or Fraction(number) % step == 0

    def _step(self) -> Fraction | None:
        """The number whose multiples these are; `None` where they are on no grid."""
        return _grid(self.multiples, self.integer)

    def is_empty(self) -> bool:
        """Whether there are no such numbers."""
        if self.low is None or self.high is None:
            return False
        step = self._step()
        if step is None:
            return self.low[0] > self.high[0] or (self.low[0] == self.high[0] and (self.low[1] or self.high[1]))
        first, last = Fraction(self.low[0]) / step, Fraction(self.high[0]) / step
        lowest = floor(first) + 1 if self.low[1] else ceil(first)
        return lowest > (ceil(last) - 1 if self.high[1] else floor(last))

    def members(self, limit: int) -> list[Decimal] | None:
        """All of these numbers, if they are on a grid and at most `limit`; else `None`."""
        step = self._step()
        if step is None or self.low is None or self.high is None:
            return None
        first, last = ceil(Fraction(self.low[0]) / step), floor(Fraction(self.high[0]) / step)
        if last - first >= limit:
            return None
        found = [_decimal(index * step) for index in range(first, last + 1)]
        return [number for number in found if self.holds(number)]

    def some_members(self) -> Iterator[Decimal]:
        """Some of these numbers one by one, without end or until all were named: both sides of a bound's neighbourhood
        and multiples of growing size on a grid, numbers of many digits off it."""
        step = self._step()
        start, end = (None if side is None else Fraction(side[0]) for side in (self.low, self.high))
        anchor = start if start is not None else end if end is not None else Fraction(0)
        upwards = 1 if start is not None or end is None else -1
        if step is not None:
            first = floor(anchor / step)
            candidates = (_decimal((first + upwards * index) * step) for index in count())
        else:
            width = end - start if start is not None and end is not None else Fraction(2)
            # Sevenths of a power of two: on no decimal grid that schemas use.
            candidates = (_decimal(anchor + upwards * width * (7 * index + 1) / 1024) for index in range(145))
        return (number for number in candidates if self.holds(number))


def tighter_bound(inclusive: Decimal | None, exclusive: Decimal | None, side: int) -> _End | None:
    """The tighter of an inclusive and an exclusive bound; `side` is 1 for lower bounds and -1 for upper ones."""
    closed = None if inclusive is None else (inclusive, False)
    return _tighter(closed, None if exclusive is None else (exclusive, True), side)


def _inclusive(end: _End | None) -> Decimal | None:
    return None if end is None or end[1] else end[0]


def _exclusive(end: _End | None) -> Decimal | None:
    return end[0] if end is not None and end[1] else None


@remembered(4096)
def _grid(multiples: frozenset[Decimal], integer: bool) -> Fraction | None:
    steps = [Fraction(multiple) for multiple in multiples] + [Fraction(1)] * integer
    if not steps:
        return None
    return Fraction(lcm(*[step.numerator for step in steps]), gcd(*[step.denominator for step in steps]))


def _tighter(a: _End | None, b: _End | None, side: int) -> _End | None:
    """The tighter of two bounds; `side` is 1 for lower bounds and -1 for upper ones."""
    if a is None or b is None:
        return b if a is None else a
    if a[0] == b[0]:
        return (a[0], a[1] or b[1])
    return a if (a[0] > b[0]) == (side > 0) else b


def _places(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    return abs(exponent)


def _decimal(number: Fraction) -> Decimal:
    """A fraction whose denominator divides a power of ten, exactly."""
    twos = number.denominator.bit_length()
    scaled = number * 10**twos
    return Decimal(f"{scaled.numerator}e-{twos}")
