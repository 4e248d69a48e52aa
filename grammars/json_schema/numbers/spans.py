"""What a number must satisfy, in exact arithmetic: bounds as decimal digits, multiples as a grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import gcd, lcm

from grammars.errors import LimitExceeded
from grammars.json_schema.numbers.texts import (
    LARGEST_EXPONENT,
    LONG_EXPONENT,
    SCIENTIFIC_DIGITS,
    SMALLEST_EXPONENT,
)

MAX_CLASSES = 10**50
"""How many remainders a recogniser of multiples may have to tell apart: there is a state for each that is met, and digits
lead to the multiples without a search (`nearest`)."""

MAX_MEASURED = 10_000
"""The same where complements are taken, whose states are told from nothing by searches."""

MAX_GRID_DIGITS = 5_000
"""Decimal places, and digits of a bound on a grid, beyond which the arithmetic is refused."""

BELOW = -2
ABOVE = -1


@dataclass(frozen=True, slots=True)
class Bound:
    """A positive number as significant digits and a decimal exponent: `d.ddd` times ten to `exponent`.

    While the significant digits of a text are read, its *cursor* says how they compare with the bound's: `ABOVE`,
    `BELOW`, or the count of digits (at most all of the bound's) that agreed so far.
    """

    digits: tuple[int, ...]
    exponent: int
    closed: bool

    @staticmethod
    def of(value: Decimal, closed: bool) -> Bound:
        """The bound at a positive decimal."""
        _, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)
        end = len(digits)
        while digits[end - 1] == 0:
            end -= 1
        return Bound(digits[:end], exponent + len(digits) - 1, closed)

    def advance(self, cursor: int, digit: int) -> int:
        """The cursor after one more significant digit."""
        if cursor < 0:
            return cursor
        if cursor == len(self.digits):
            return cursor if digit == 0 else ABOVE
        expected = self.digits[cursor]
        if digit == expected:
            return cursor + 1
        return BELOW if digit < expected else ABOVE

    def settled(self, cursor: int) -> int:
        """How a text that ends here compares in its significant digits: -1, 0 or 1."""
        if cursor == ABOVE:
            return 1
        return 0 if cursor == len(self.digits) else -1

    def units(self, places: int) -> tuple[int, bool]:
        """The bound times ten to `places`, rounded down, and whether that is exact."""
        shift = self.exponent - len(self.digits) + 1 + places
        if shift + len(self.digits) > MAX_GRID_DIGITS:
            raise LimitExceeded(f"a bound with more than {MAX_GRID_DIGITS} digits cannot be combined with multiples")
        whole = int("".join(map(str, self.digits)))
        if shift >= 0:
            return whole * 10**shift, True
        if -shift > len(self.digits):
            return 0, False
        quotient, remainder = divmod(whole, 10**-shift)
        return quotient, remainder == 0


@dataclass(frozen=True, slots=True)
class Grid:
    """The multiples of `step`, which ends in `zeros` zeros, times ten to minus `places`; `places` is minimal."""

    step: int
    places: int
    zeros: int

    @staticmethod
    def of(multiples: Sequence[Decimal], integer: bool, measured: bool = False) -> Grid | None:
        """The common multiples of all that is asked for, or `None` where every number will do.

        Raises `LimitExceeded` that names multipleOf past `MAX_CLASSES`, or past `MAX_MEASURED` where it is `measured`.
        """
        step, places = 0, 0
        for value in (*multiples, Decimal(1)) if integer else multiples:
            _, digits, exponent = value.as_tuple()
            assert isinstance(exponent, int)
            if abs(exponent) + len(digits) > MAX_GRID_DIGITS:
                raise LimitExceeded(f"multipleOf has more than {MAX_GRID_DIGITS} decimal places", keyword="multipleOf")
            own = int("".join(map(str, digits))) * 10 ** max(exponent, 0)
            own_places = max(-exponent, 0)
            common = max(places, own_places)
            own *= 10 ** (common - own_places)
            step = lcm(step * 10 ** (common - places), own) if step else own
            places = common
        if not step:
            return None
        while places and step % 10 == 0:
            step, places = step // 10, places - 1
        zeros = 0
        while step % 10 ** (zeros + 1) == 0:
            zeros += 1
        grid = Grid(step, places, zeros)
        limit = MAX_MEASURED if measured else MAX_CLASSES
        if grid.classes > limit:
            raise LimitExceeded(
                f"multipleOf asks for multiples of {step}e-{places} altogether: {grid.classes} remainders to tell "
                f"apart, and {limit:.0e} is the limit{' beside others that are left out' if measured else ''}",
                keyword="multipleOf",
            )
        return grid

    @property
    def classes(self) -> int:
        """How many numbers differ in which digits can follow them."""
        return self.step // int(10**self.zeros) * (self.zeros + 1)

    def remainder(self, number: int) -> int:
        """The smallest convenient representative of the numbers that the same digits complete to multiples.

        Of two numbers that end in no more zeros than `step`, only the remainders before these zeros by what is left of
        `step` without its own zeros matter; that makes multiples of 3,600,000 as easy as those of 36.
        """
        number %= self.step
        if not self.zeros:
            return number
        ending = 0
        while ending < self.zeros and number % 10 == 0:
            number //= 10
            ending += 1
        odd = self.step // int(10**self.zeros)
        number %= odd
        if ending < self.zeros and number % 10 == 0:
            number += odd
        return number * int(10**ending)

    def reaches(self, remainder: int, more: int) -> bool:
        """Whether `more` further digits can turn a number with this remainder into a multiple of `step`."""
        if self.step == 1:
            return True
        power: int = 10 ** min(more, len(str(self.step)))
        return (-remainder * power) % self.step < power

    def shift_to_multiple(self, remainder: int) -> int | None:
        """The least power of ten that makes a number with this remainder a multiple of `step`; `None` if none does."""
        for power in range(self.step.bit_length() + 1):
            if remainder % self.step == 0:
                return power
            remainder = remainder * 10 % self.step
        return None

    def coprime_step(self, twists: int | None = None) -> int:
        """`step` less the factors that it shares with ten to `twists` (`None`: with any power of ten)."""
        power = self.step.bit_length() if twists is None else min(twists, self.step.bit_length())
        return self.step // gcd(self.step, 10**power)


@dataclass(frozen=True, eq=False, slots=True)
class Span:
    """A set of numbers without sign: an interval of positive ones, perhaps zero, perhaps on a grid.

    Attributes:
        low: lower bound; `None` lets in every positive number however small.
        high: upper bound, or `None`.
        zero: whether zero belongs (then `low` is `None`).
        grid: the multiples that belong.  Bounds are on the grid then, and closed.
        bare: integers are written as digits alone.
        mantissa: how many fraction digits a mantissa may have on a grid.
        largest_exponent, smallest_exponent: limits of exponents; beyond what binary64 holds only where a bound is.
        long_exponent: limit either way behind a mantissa with several digits before its point.
        least_units: the smallest positive member in units of the grid's last place.
        long: whether a mantissa may have several digits before its point; only the sign is bounded then.
        order: a hash of all this that is the same in every process.
    """

    low: Bound | None
    high: Bound | None
    zero: bool
    grid: Grid | None
    bare: bool
    mantissa: int
    largest_exponent: int
    smallest_exponent: int
    long_exponent: int
    least_units: int
    long: bool
    order: int


def span_of(
    low: Bound | None, high: Bound | None, zero: bool, grid: Grid | None, bare: bool, measured: bool = False
) -> Span | None:
    """The span with these limits, or `None` where no positive number is in it; `measured`: never with long mantissas."""
    least_units = 0
    if grid is not None:
        least_units = grid.step
        if low is not None:
            whole, exact = low.units(grid.places)
            if not (exact and low.closed):
                whole += 1
            least_units = -(-whole // grid.step) * grid.step
            low = _on_grid(least_units, grid)
        if high is not None:
            whole, exact = high.units(grid.places)
            if exact and not high.closed:
                whole -= 1
            most_units = whole // grid.step * grid.step
            if most_units < least_units:
                return None
            high = _on_grid(most_units, grid)
    elif low is not None and high is not None:
        order = _compare(low, high)
        if order > 0 or (order == 0 and not (low.closed and high.closed)):
            return None
    significant = max((len(bound.digits) for bound in (low, high) if bound is not None), default=0)
    mantissa = max(SCIENTIFIC_DIGITS, significant)
    # A mantissa must reach the bounds, and the grid.
    on_grid = mantissa + grid.step.bit_length() if grid is not None else 0
    bounds = [abs(bound.exponent) + 1 for bound in (low, high) if bound is not None]
    largest = max([LARGEST_EXPONENT, on_grid, *bounds])
    smallest = min([SMALLEST_EXPONENT, *[-bound for bound in bounds]])
    long = low is None and high is None and not measured
    order = hash((_order(low), _order(high), zero, bare, long, (grid.step, grid.places) if grid is not None else 0))
    longest = max(LONG_EXPONENT, on_grid)
    return Span(low, high, zero, grid, bare, mantissa, largest, smallest, longest, least_units, long, order)


def _order(bound: Bound | None) -> int:
    return 0 if bound is None else hash((bound.digits, bound.exponent, bound.closed))


def _on_grid(units: int, grid: Grid) -> Bound:
    text = str(units)
    return Bound(tuple(map(int, text.rstrip("0"))), len(text) - 1 - grid.places, True)


def _compare(one: Bound, other: Bound) -> int:
    left = (one.exponent, one.digits)
    right = (other.exponent, other.digits)
    return (left > right) - (left < right)
