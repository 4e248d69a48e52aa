"""Normalised scientific notation: what the digits of a mantissa leave of the exponents."""

from __future__ import annotations

from dataclasses import dataclass

from grammars.json_schema.numbers.comparison import can_meet, follows_a_bound, places
from grammars.json_schema.numbers.spans import Span
from grammars.json_schema.numbers.texts import exponent_rx
from grammars.regular import Rx

_FAR = 1 << 40


@dataclass(frozen=True, slots=True)
class Mantissa:
    """What a text that may still get an exponent has read after its point.

    Attributes:
        digits: how many digits (counted on a grid only).
        zeros: how many of the last ones are zeros.
        remainder: of all digits down to the last non-zero one after the point.
        long: whether there are several digits before the point.
    """

    digits: int
    zeros: int
    remainder: int
    long: bool = False

    def advance(self, span: Span, digit: int) -> Mantissa | None:
        grid = span.grid
        if grid is None:
            return self
        if self.digits == span.mantissa:
            return None
        if digit == 0:
            return Mantissa(self.digits + 1, self.zeros + 1, self.remainder, self.long)
        remainder = grid.remainder(self.remainder * pow(10, self.zeros + 1, grid.step) + digit)
        return Mantissa(self.digits + 1, 0, remainder, self.long)

    def exponents(self, span: Span, low: int, high: int, alone: bool = False) -> Rx | None:
        """The exponents that are right if the mantissa ends here, `alone` after a single digit; `None` if none is."""
        most = span.long_exponent if self.long else span.largest_exponent + alone
        least = -span.long_exponent if self.long else span.smallest_exponent
        if span.low is not None:
            order = span.low.settled(low)
            least = max(least, span.low.exponent + (0 if order > 0 or (order == 0 and span.low.closed) else 1))
        if span.high is not None:
            order = span.high.settled(high)
            most = min(most, span.high.exponent - (0 if order < 0 or (order == 0 and span.high.closed) else 1))
        if span.grid is not None:
            power = span.grid.shift_to_multiple(self.remainder)
            if power is None:
                return None
            least = max(least, self.digits - self.zeros - span.grid.places + power)
        return None if least > most else exponent_rx(least, most)

    def lives(self, span: Span, low: int, high: int) -> bool:
        """Whether more digits or none and then an exponent can end in the span."""
        if span.grid is None and (span.low is None or span.high is None):
            return True
        if span.high is None and self._meets_grid(span, _FAR):
            return True
        # Between the exponents of the bounds the greatest is the most lenient; at theirs the digits decide.
        exponents: set[int] = set()
        for bound in (span.low, span.high):
            if bound is not None:
                exponents.update((bound.exponent - 1, bound.exponent, bound.exponent + 1))
        for exponent in exponents:
            low_place, high_place = places(span, exponent)
            if can_meet(span, low_place, high_place, low, high) and (
                span.grid is None
                or follows_a_bound(span, low_place, high_place, low, high)
                or self._meets_grid(span, exponent)
            ):
                return True
        return False

    def _meets_grid(self, span: Span, exponent: int) -> bool:
        grid = span.grid
        assert grid is not None
        further = exponent - self.digits + grid.places
        if further < 0:
            power = grid.shift_to_multiple(self.remainder)
            return power is not None and power <= further + self.zeros
        own = min(further, span.mantissa - self.digits)
        step = grid.coprime_step(further - own)
        power_of_ten: int = 10**own
        return (-self.remainder * int(10 ** (self.zeros + own))) % step < power_of_ten
