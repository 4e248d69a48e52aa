"""The fewest characters that complete a text on a grid: what leads searches for short numbers straight to them.

There are as many states as remainders, and a search that did not know the way would visit most of them.
"""

from __future__ import annotations

from itertools import count
from math import gcd

from grammars.json_schema.numbers.comparison import places
from grammars.json_schema.numbers.mantissa import Mantissa
from grammars.json_schema.numbers.spans import ABOVE, BELOW, Bound, Grid, Span
from grammars.memory import remembered

FAR = 64
"""No nearer is looked for: any longer need counts as this one."""

_SEVERAL = 64
"""Remainders that a search visits as fast as they are told apart."""


Nearest = tuple[int, str | None]
"""No completion is shorter, and one of that length; `None` where it would have an exponent, or is far."""


def nearest_whole(span: Span, digits: int, low: int, high: int, remainder: int, mantissa: Mantissa | None) -> Nearest:
    """What completes a text of so many digits; `low` and `high` are cursors."""
    grid = span.grid
    if grid is None or not _is_large(grid):
        return 1, None
    length = FAR if mantissa is None else _before_exponent(span, grid, low, high, mantissa, whole=digits)
    word = None
    first = 0 if span.low is None else max(0, span.low.exponent - digits + 1)
    for further in count(first):
        exponent = digits + further - 1
        if further >= length or (span.high is not None and exponent > span.high.exponent):
            break
        where = places(span, exponent)
        for fraction in range(1 if span.bare else grid.places + 1):
            size = further + (fraction and fraction + 1)
            if size >= length:
                break
            rest = grid.places - fraction
            spelled = _digits(span, grid, where, (low, high), remainder, further + fraction, rest)
            if spelled is not None:
                length = size
                word = spelled[:further] + "." * (fraction > 0) + spelled[further:]
    return length, word


def nearest_fraction(
    span: Span,
    where: tuple[int, int],
    cursors: tuple[int, int],
    remainder: int,
    read: int | None,
    mantissa: Mantissa | None,
) -> Nearest:
    """What completes a text after the point and `read` digits (`None`: only an exponent makes it one).

    `where` is how its decimal exponent compares with those of the bounds.
    """
    grid = span.grid
    if grid is None or not _is_large(grid):
        return 1, None
    length = FAR if mantissa is None else _before_exponent(span, grid, *cursors, mantissa)
    if read is not None:
        left = max(grid.places - read, 0)
        for further in range(0 if read else 1, max(left, 1) + 1):
            if further >= length:
                break
            more = min(further, left)
            spelled = _digits(span, grid, where, cursors, remainder, more, left - more)
            if spelled is not None:
                return further, spelled.ljust(further, "0")
    return length, None


def _is_large(grid: Grid) -> bool:
    return grid.step > _SEVERAL and grid.classes > _SEVERAL


def _before_exponent(span: Span, grid: Grid, low: int, high: int, mantissa: Mantissa, whole: int = 0) -> int:
    """Characters of more digits behind the point and an exponent, at least, as far as the grid is concerned.

    `whole`: digits that have been read, where the point has not.
    """
    now = mantissa.exponents(span, low, high, whole == 1)
    best = FAR if now is None else 1 + now.low
    step = _coarser(grid.step, grid.step.bit_length())
    point = whole > 0 and not span.long  # digits may come without it where mantissas are long
    for more in range(1, span.mantissa - mantissa.digits + 1):
        size = more + point + 1
        if size >= best:
            break
        if -mantissa.remainder * 10 ** (mantissa.zeros + more) % step < 10**more:
            behind = mantissa.digits + more if not whole or point else 0
            best = min(best, size + _exponent_size(span, behind - grid.places))
    return best


def _exponent_size(span: Span, least: int) -> int:
    """Characters of the shortest exponent that the bounds leave, `least` or more."""
    most = span.largest_exponent if span.high is None else span.high.exponent
    if span.low is not None:
        least = max(least, span.low.exponent)
    if most < 0:
        return 1 + len(str(-most))
    return len(str(least)) if least > 0 else 1


def _digits(
    span: Span, grid: Grid, where: tuple[int, int], cursors: tuple[int, int], remainder: int, more: int, rest: int
) -> str | None:
    """So many digits which, with `rest` zeros down to the grid's last place, make a member of the span."""
    between = _between(span, where, cursors, more)
    if between is None:
        return None
    least, most = between
    spelled = least + (-remainder * 10**more - least) % _coarser(grid.step, rest)
    return str(spelled).rjust(more, "0")[:more] if spelled <= most else None


def _between(span: Span, where: tuple[int, int], cursors: tuple[int, int], more: int) -> tuple[int, int] | None:
    """What `more` digits may spell so that the text lies between the bounds, which are members themselves."""
    least, most = 0, 10**more - 1
    if span.low is not None:
        if where[0] < 0 or (where[0] == 0 and cursors[0] == BELOW):
            return None
        if where[0] == 0 and cursors[0] >= 0:
            least = _next_digits(span.low, cursors[0], more)
            least += cursors[0] + more < len(span.low.digits)
    if span.high is not None:
        if where[1] > 0 or (where[1] == 0 and cursors[1] == ABOVE):
            return None
        if where[1] == 0 and cursors[1] >= 0:
            most = _next_digits(span.high, cursors[1], more)
    return least, most


def _next_digits(bound: Bound, cursor: int, more: int) -> int:
    digits = bound.digits[cursor : cursor + more]
    return int("".join(map(str, digits)) or "0") * int(10 ** (more - len(digits)))


@remembered(4096)
def _coarser(step: int, zeros: int) -> int:
    """What a number must be a multiple of, so that with so many zeros behind it it is one of `step`."""
    return step // gcd(step, 10**zeros)
