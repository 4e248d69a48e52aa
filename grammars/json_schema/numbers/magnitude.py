"""Number texts without sign whose exact value lies in a span, read one character at a time.

A text compares with a bound by its decimal exponent first and its significant digits second.  The digits come first in
the text, so a state remembers how they compare (the cursors), and which exponents are right is decided at the letter
`e`.  On a grid a state remembers the remainder as well, of the digits down to the grid's last place for plain texts,
and of the digits down to the last non-zero one for mantissas.  Each state is offered only if some text completes it,
which is decided in arithmetic, without a search.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from grammars.json_schema.numbers.comparison import can_meet, follows_a_bound, holds, places, sign
from grammars.json_schema.numbers.mantissa import Mantissa
from grammars.json_schema.numbers.nearest import Nearest, nearest_fraction, nearest_whole
from grammars.json_schema.numbers.spans import ABOVE, BELOW, Span
from grammars.json_schema.numbers.texts import (
    DIGIT,
    DIGITS,
    INTEGER_TAIL,
    LONG_DIGITS,
    NUMBER_TAIL,
    PLAIN_INTEGER_TAIL,
    SOME_DIGITS,
    ZERO_DIGIT,
    ZERO_EXPONENT,
)
from grammars.regular import Rx, Unfolding, concat, repeat, unfold

Move = tuple[int, int, Rx]

_POINT = 46
_ZERO = 48
_LETTERS = (69, 101)
_EACH_DIGIT = tuple((digit, digit) for digit in range(10))
_ZERO_OR_NOT = ((0, 0), (1, 9))


def magnitude_rx(span: Span) -> Rx:
    """The texts without sign of the numbers in `span`."""
    return unfold(_Start(span))


@dataclass(frozen=True, slots=True)
class _Start(Unfolding):
    """Nothing has been read."""

    span: Span

    @property
    def nullable(self) -> bool:
        return False

    @property
    def order(self) -> int:
        return hash((1, self.span.order))

    def moves(self) -> Iterator[Move]:
        span = self.span
        if span.zero or _small_numbers(span, 0):
            yield _ZERO, _ZERO, unfold(_LeadingZero(span, -1))
        for digit, last in _digit_classes(span, 0, 0)[1:]:
            low = span.low.advance(0, digit) if span.low else 0
            high = span.high.advance(0, digit) if span.high else 0
            target = _whole(span, 1, low, high, span.grid.remainder(digit) if span.grid else 0)
            if target is not None:
                yield _ZERO + digit, _ZERO + last, target


@dataclass(frozen=True, slots=True)
class _LeadingZero(Unfolding):
    """`0` when `read` is -1, else `0.` and so many zeros (no more are counted than matter)."""

    span: Span
    read: int

    @property
    def nullable(self) -> bool:
        return self.span.zero and self.read != 0

    @property
    def order(self) -> int:
        return hash((2, self.span.order, self.read))

    def moves(self) -> Iterator[Move]:
        span, read = self.span, self.read
        if span.bare:
            return
        if span.zero and read != 0:
            for letter in _LETTERS:
                yield letter, letter, ZERO_EXPONENT
        if read < 0:
            yield _POINT, _POINT, unfold(_LeadingZero(span, 0))
            return
        # Zeros beyond the last place at which a bound or the grid starts make no difference.
        last = max(1, span.grid.places if span.grid else 0, *(1 - b.exponent for b in (span.low, span.high) if b))
        after = min(read + 1, last)
        if span.zero or _small_numbers(span, after):
            yield _ZERO, _ZERO, unfold(_LeadingZero(span, after))
        if not _small_numbers(span, read):
            return
        for digit, last_digit in _digit_classes(span, 0, 0)[1:]:
            target = _first_fraction_digit(span, read, digit)
            if target is not None:
                yield _ZERO + digit, _ZERO + last_digit, target


def _digit_classes(span: Span, low: int, high: int) -> Sequence[tuple[int, int]]:
    """Ranges of digits that make no difference at these cursors; zero is always apart and comes first."""
    if span.grid is not None and span.grid.step > 1:
        return _EACH_DIGIT
    borders = {1}
    for bound, cursor in ((span.low, low), (span.high, high)):
        if bound is not None and cursor >= 0:
            expected = bound.digits[cursor] if cursor < len(bound.digits) else 0
            borders.update((expected, expected + 1))
    if len(borders) == 1:
        return _ZERO_OR_NOT
    first = sorted(border for border in borders if 0 < border < 10)
    return [(0, 0), *zip(first, [border - 1 for border in first[1:]] + [9], strict=True)]


def _first_fraction_digit(span: Span, zeros: int, digit: int) -> Rx | None:
    exponent = -zeros - 1
    low = span.low.advance(0, digit) if span.low else 0
    high = span.high.advance(0, digit) if span.high else 0
    remainder = span.grid.remainder(digit) if span.grid else 0
    if span.grid is not None and zeros + 1 > span.grid.places:
        return None
    return _fraction(
        span,
        sign(exponent, span.low),
        sign(exponent, span.high),
        low,
        high,
        remainder,
        zeros + 1 if span.grid else 1,
        True,
        None,
    )


def _small_numbers(span: Span, zeros: int) -> bool:
    """Whether the span has a positive number below ten to minus `zeros`."""
    if span.grid is not None:
        return zeros < span.grid.places and span.least_units < 10 ** (span.grid.places - zeros)
    return span.low is None or span.low.exponent < -zeros


@dataclass(frozen=True, slots=True)
class _Whole(Unfolding):
    """`count` digits before the point, the first of them not zero; `remainder` is theirs on the grid."""

    span: Span
    count: int
    low: int
    high: int
    remainder: int

    @property
    def nullable(self) -> bool:
        span = self.span
        if not holds(span, *places(span, self.count - 1), self.low, self.high):
            return False
        return span.grid is None or self.remainder * 10**span.grid.places % span.grid.step == 0

    @property
    def nearest(self) -> Nearest:
        return nearest_whole(self.span, self.count, self.low, self.high, self.remainder, self._mantissa())

    @property
    def order(self) -> int:
        return hash((3, self.span.order, self.count, self.low, self.high, self.remainder))

    def moves(self) -> Iterator[Move]:
        span = self.span
        for digit, last in _digit_classes(span, self.low, self.high):
            low = span.low.advance(self.low, digit) if span.low else 0
            high = span.high.advance(self.high, digit) if span.high else 0
            remainder = span.grid.remainder(self.remainder * 10 + digit) if span.grid else 0
            target = _whole(span, self.count + 1, low, high, remainder)
            if target is not None:
                yield _ZERO + digit, _ZERO + last, target
        if span.bare:
            return
        mantissa = self._mantissa()
        target = _fraction(span, *places(span, self.count - 1), self.low, self.high, self.remainder, 0, True, mantissa)
        if target is not None:
            yield _POINT, _POINT, target
        if mantissa is not None:
            exponents = mantissa.exponents(span, self.low, self.high, alone=self.count == 1)
            if exponents is not None:
                for letter in _LETTERS:
                    yield letter, letter, exponents

    def _mantissa(self) -> Mantissa | None:
        if self.span.bare or self.count > (LONG_DIGITS if self.span.long else 1):
            return None
        return Mantissa(0, 0, self.remainder, self.count > 1)


def _whole(span: Span, count: int, low: int, high: int, remainder: int) -> Rx | None:
    """The state after so many digits, or `None` where nothing completes it."""
    # Digits beyond those of both bounds make no difference; a single one may be a mantissa.
    if span.long:
        count = min(count, LONG_DIGITS + 1)
    else:
        count = min(count, max(2, 2 + max([b.exponent for b in (span.low, span.high) if b], default=0)))
    low, high = _forget(span, count, low, high)
    past = span.low is None or count - 1 > span.low.exponent
    if span.high is None and past and count > (LONG_DIGITS if span.long and not span.bare else 1):
        if span.grid is None:
            return NUMBER_TAIL
        if span.grid.step == 1 and span.grid.places == 0:
            return PLAIN_INTEGER_TAIL if span.bare else INTEGER_TAIL
    state = _Whole(span, count, low, high, remainder)
    if _whole_lives(span, count, low, high, remainder):
        return unfold(state)
    mantissa = state._mantissa()
    if mantissa is not None and mantissa.lives(span, low, high):
        return unfold(state)
    return None


def _forget(span: Span, count: int, low: int, high: int) -> tuple[int, int]:
    """Drops the cursors of bounds that so many digits have already passed and that no exponent brings back."""
    if count > 1 and span.low is not None and count - 1 > span.low.exponent:
        low = ABOVE
    if count > 1 and span.high is not None and count - 1 > span.high.exponent:
        high = ABOVE
    return low, high


def _whole_lives(span: Span, count: int, low: int, high: int, remainder: int) -> bool:
    exponents = {count - 1}
    for bound in (span.low, span.high):
        if bound is not None:
            exponents.update((bound.exponent - 1, bound.exponent, bound.exponent + 1))
    if span.high is None:
        exponents.add(max(exponents) + (len(str(span.grid.step)) if span.grid else 0))
    for exponent in exponents:
        if exponent < count - 1:
            continue
        low_place, high_place = places(span, exponent)
        more = exponent - count + 1 + (span.grid.places if span.grid else 0)
        if can_meet(span, low_place, high_place, low, high) and (
            span.grid is None
            or follows_a_bound(span, low_place, high_place, low, high)
            or span.grid.reaches(remainder, more)
        ):
            return True
    return False


@dataclass(frozen=True, slots=True)
class _Fraction(Unfolding):
    """The point has been read, and the first significant digit.

    Attributes:
        low_place, high_place: sign of the plain text's decimal exponent less the bound's.
        low, high: cursors.
        remainder: on the grid, of the digits down to its last place.
        read: how many digits after the point, as far as it matters.
        plain: whether the text without exponent can still end well.
        mantissa: what an exponent needs to know, or `None` where none may come.
    """

    span: Span
    low_place: int
    high_place: int
    low: int
    high: int
    remainder: int
    read: int
    plain: bool
    mantissa: Mantissa | None

    @property
    def nullable(self) -> bool:
        if not self.plain or self.read == 0:
            return False
        if not holds(self.span, self.low_place, self.high_place, self.low, self.high):
            return False
        grid = self.span.grid
        return grid is None or self.remainder * 10 ** max(grid.places - self.read, 0) % grid.step == 0

    @property
    def nearest(self) -> Nearest:
        where, cursors = (self.low_place, self.high_place), (self.low, self.high)
        read = self.read if self.plain else None
        return nearest_fraction(self.span, where, cursors, self.remainder, read, self.mantissa)

    @property
    def order(self) -> int:
        mantissa = self.mantissa
        exponent = (mantissa.digits, mantissa.zeros, mantissa.remainder) if mantissa is not None else 0
        places = (self.low_place, self.high_place, self.low, self.high)
        return hash((4, self.span.order, places, self.remainder, self.read, self.plain, exponent))

    def moves(self) -> Iterator[Move]:
        span, grid = self.span, self.span.grid
        for digit, last in _digit_classes(span, self.low, self.high):
            low = span.low.advance(self.low, digit) if span.low else 0
            high = span.high.advance(self.high, digit) if span.high else 0
            plain, remainder, read = self.plain, self.remainder, 1
            if grid is not None:
                if self.read >= grid.places:
                    plain = plain and digit == 0
                else:
                    remainder = grid.remainder(remainder * 10 + digit)
                read = min(self.read + 1, grid.places + 1)
            mantissa = self.mantissa.advance(span, digit) if self.mantissa else None
            target = _fraction(span, self.low_place, self.high_place, low, high, remainder, read, plain, mantissa)
            if target is not None:
                yield _ZERO + digit, _ZERO + last, target
        if self.mantissa is not None and self.read > 0:
            exponents = self.mantissa.exponents(span, self.low, self.high)
            if exponents is not None:
                for letter in _LETTERS:
                    yield letter, letter, exponents


def _fraction(
    span: Span,
    low_place: int,
    high_place: int,
    low: int,
    high: int,
    remainder: int,
    read: int,
    plain: bool,
    mantissa: Mantissa | None,
) -> Rx | None:
    """The state after so many digits behind the point, less what no longer matters; `None` if nothing completes it."""
    plain = plain and _fraction_lives(span, low_place, high_place, low, high, remainder, read)
    if mantissa is not None and not mantissa.lives(span, low, high):
        mantissa = None
    if mantissa is None:
        if not plain:
            return None
        low, high = _settle(low, low_place), _settle(high, high_place)
        if (span.low is None or low == ABOVE) and (span.high is None or high == BELOW):
            tail = _unbounded_fraction(span, read)
            if tail is not None:
                return tail
    if not plain:
        low_place = high_place = remainder = 0
        read = min(read, 1)
    return unfold(_Fraction(span, low_place, high_place, low, high, remainder, read, plain, mantissa))


def _unbounded_fraction(span: Span, read: int) -> Rx | None:
    """The rest of a plain fraction that no bound looks at, the same for all spans; `None` where a remainder decides."""
    if span.grid is None:
        return DIGITS if read else SOME_DIGITS
    if span.grid.step > 1:
        return None
    more = max(span.grid.places - read, 0)
    zeros = repeat(ZERO_DIGIT, 0, None)
    if read:
        return concat(repeat(DIGIT, 0, more), zeros)
    return concat(DIGIT, repeat(DIGIT, 0, more - 1), zeros) if more else repeat(ZERO_DIGIT, 1, None)


def _settle(cursor: int, place: int) -> int:
    """The cursor of a bound that a plain text is compared with by place already."""
    return cursor if place == 0 else BELOW if place < 0 else ABOVE


def _fraction_lives(
    span: Span, low_place: int, high_place: int, low: int, high: int, remainder: int, read: int
) -> bool:
    if not can_meet(span, low_place, high_place, low, high):
        return False
    if span.grid is None or follows_a_bound(span, low_place, high_place, low, high):
        return True
    return span.grid.reaches(remainder, max(span.grid.places - read, 0))
