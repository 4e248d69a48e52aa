"""Numeric conditions as arithmetic: bounds and multiples meet without a product of automata.

A language that came from one schema's numeric keywords remembers them.  Two such languages meet by the tighter bounds
and all multiples together, and whether one lies within or apart from another is seen from the numbers themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from weakref import WeakKeyDictionary

from grammars import regular
from grammars.errors import LimitExceeded
from grammars.json_schema.numbers import NUMBER, number_rx, other_number_rx
from grammars.regular import NONE, Rx

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

    def language(self) -> Rx:
        """Texts of these numbers; `NONE` itself where there are none.  Raises `LimitExceeded` as `number_rx` does."""
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
        )
        if regular.is_empty(rx):
            return NONE
        _QUANTITIES[rx] = self
        return rx

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
        if (other.strict and not self.strict) or (other.integer and not (self.integer or self._whole())):
            return False
        own = [Fraction(multiple) for multiple in self.multiples] + [Fraction(1)] * self.integer
        return all(any(mine % Fraction(multiple) == 0 for mine in own) for multiple in other.multiples)

    def _whole(self) -> bool:
        return any(multiple == multiple.to_integral_value() for multiple in self.multiples)


_QUANTITIES: WeakKeyDictionary[Rx, Quantity] = WeakKeyDictionary()
_COMPLEMENTS: WeakKeyDictionary[Rx, Quantity] = WeakKeyDictionary()
_QUANTITIES[NUMBER] = Quantity()


def meet_all_numbers(languages: Iterable[Rx]) -> Rx:
    """Intersection of several languages of numbers, those that are known as numbers first."""
    found = NUMBER
    for rx in sorted(dict.fromkeys(languages), key=lambda rx: rx not in _QUANTITIES):
        found = meet_numbers(found, rx)
    return found


def meet_numbers(a: Rx, b: Rx) -> Rx:
    """Intersection of two languages of numbers; `NONE` itself where it is empty."""
    if a is b or b is NUMBER:
        return a
    if a is NUMBER:
        return b
    if a is NONE or b is NONE:
        return NONE
    first, second = _QUANTITIES.get(a), _QUANTITIES.get(b)
    if first is not None and second is not None:
        return first.meets(second).language()
    known, other = (first, b) if first is not None else (second, a)
    excluded = _COMPLEMENTS.get(other)
    if known is not None and excluded is not None:
        if known.within(excluded):
            return NONE
        if _apart(known, excluded):
            return a if first is not None else b
    both = regular.intersect(a, b)
    return NONE if regular.is_empty(both) else both


def _apart(a: Quantity, b: Quantity) -> bool:
    try:
        return a.meets(b).language() is NONE
    except LimitExceeded:  # too many remainders together; then it takes the automata to tell
        return False


def other_numbers(rx: Rx) -> Rx:
    """Numbers that are not in a language of numbers; `NONE` itself where there are none.

    Not the plain complement: of the many writings of a number, languages with bounds hold only those they can judge.
    """
    if rx is NONE or rx is NUMBER:
        return NUMBER if rx is NONE else NONE
    others = other_number_rx(rx)
    if regular.is_empty(others):
        return NONE
    quantity = _QUANTITIES.get(rx)
    if quantity is not None:
        _COMPLEMENTS[others] = quantity
    return others


def tighter_bound(inclusive: Decimal | None, exclusive: Decimal | None, side: int) -> _End | None:
    """The tighter of an inclusive and an exclusive bound; `side` is 1 for lower bounds and -1 for upper ones."""
    closed = None if inclusive is None else (inclusive, False)
    return _tighter(closed, None if exclusive is None else (exclusive, True), side)


def _inclusive(end: _End | None) -> Decimal | None:
    return None if end is None or end[1] else end[0]


def _exclusive(end: _End | None) -> Decimal | None:
    return end[0] if end is not None and end[1] else None


def _tighter(a: _End | None, b: _End | None, side: int) -> _End | None:
    """The tighter of two bounds; `side` is 1 for lower bounds and -1 for upper ones."""
    if a is None or b is None:
        return b if a is None else a
    if a[0] == b[0]:
        return (a[0], a[1] or b[1])
    return a if (a[0] > b[0]) == (side > 0) else b
