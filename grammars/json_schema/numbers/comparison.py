"""How texts compare with the bounds of a span: by place (the sign of the exponents' difference), then by cursor."""

from __future__ import annotations

from grammars.json_schema.numbers.spans import BELOW, Bound, Span


def sign(exponent: int, bound: Bound | None) -> int:
    """Of a decimal exponent less the bound's; 0 without bound."""
    return 0 if bound is None else (exponent > bound.exponent) - (exponent < bound.exponent)


def places(span: Span, exponent: int) -> tuple[int, int]:
    """The signs of a decimal exponent less those of the lower and the upper bound."""
    return sign(exponent, span.low), sign(exponent, span.high)


def can_meet(span: Span, low_place: int, high_place: int, low: int, high: int) -> bool:
    """Whether further digits can bring a text at these places between the bounds."""
    if span.low is not None and (low_place < 0 or (low_place == 0 and low == BELOW)):
        return False
    if span.high is None or high_place < 0 or (high_place == 0 and high == BELOW):
        return True
    return high_place == 0 and high >= 0 and (span.high.closed or high < len(span.high.digits))


def follows_a_bound(span: Span, low_place: int, high_place: int, low: int, high: int) -> bool:
    """Whether writing out a bound, which is on the grid, completes the text."""
    return (span.low is not None and low_place == 0 and low >= 0) or (
        span.high is not None and high_place == 0 and high >= 0
    )


def holds(span: Span, low_place: int, high_place: int, low: int, high: int) -> bool:
    """Whether a text that ends at these places lies between the bounds."""
    if span.low is not None:
        order = low_place or span.low.settled(low)
        if order < 0 or (order == 0 and not span.low.closed):
            return False
    if span.high is not None:
        order = high_place or span.high.settled(high)
        if order > 0 or (order == 0 and not span.high.closed):
            return False
    return True
