"""Sets of code points: the leaves of the algebra, and the labels of its derivatives.

A set is a node of kind CHARS (or NONE when empty).  Binary operations are remembered, because the derivatives of the
many states of one expression split the same few sets over and over; Unicode classes have hundreds of ranges.
"""

from __future__ import annotations

from collections.abc import Iterable

from grammars.memory import forgets
from grammars.regular.rx import CHARS, EXACT, MAX_CODE_POINT, NONE, SCALARS, Rx, intern, lookup

Ranges = tuple[tuple[int, int], ...]

_MEMO_LIMIT = 20_000
_meets: dict[tuple[int, int], Rx] = {}
_joins: dict[tuple[int, int], Rx] = {}
_minuses: dict[tuple[int, int], Rx] = {}
_singles: dict[int, Rx] = {}


@forgets
def _forget() -> None:
    for remembered in (_meets, _joins, _minuses):
        remembered.clear()


def from_ranges(ranges: Ranges) -> Rx:
    """The set of sorted, disjoint, non-adjacent ranges without surrogates."""
    if not ranges:
        return NONE
    key = (CHARS, ranges)
    found = lookup(key)
    if found is not None:
        return found
    return intern(key, False, hash((CHARS, ranges)), 1, 1, EXACT, ranges)


def single(code: int) -> Rx:
    """The set of one scalar value."""
    if code < 128:
        found = _singles.get(code)
        if found is None:
            found = _singles[code] = from_ranges(((code, code),))
        return found
    return from_ranges(((code, code),))


def normalise(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Sorted, merged ranges of scalar values: surrogates and what lies outside Unicode are left out."""
    out: list[tuple[int, int]] = []
    for lo, hi in sorted(ranges):
        lo = max(lo, 0)
        hi = min(hi, MAX_CODE_POINT)
        if lo > hi:
            continue
        if out and lo <= out[-1][1] + 1:
            if hi > out[-1][1]:
                out[-1] = (out[-1][0], hi)
        else:
            out.append((lo, hi))
    if not any(lo <= 0xDFFF and hi >= 0xD800 for lo, hi in out):
        return tuple(out)
    split: list[tuple[int, int]] = []
    for lo, hi in out:
        if lo < 0xD800:
            split.append((lo, min(hi, 0xD7FF)))
        if hi > 0xDFFF:
            split.append((max(lo, 0xE000), hi))
    return tuple(split)


def chars(ranges: Iterable[tuple[int, int]]) -> Rx:
    """The language of the one-character texts in `ranges`.

    Args:
        ranges: inclusive `(lo, hi)` code points in any order, overlapping or not; surrogates are left out.
    """
    return from_ranges(normalise(ranges))


ANY = chars(SCALARS)


def meet(x: Rx, y: Rx) -> Rx:
    """The intersection of two sets."""
    if x is y or y is ANY:
        return x
    if x is ANY:
        return y
    if x is NONE or y is NONE:
        return NONE
    left: Ranges = x.a
    right: Ranges = y.a
    if left[-1][1] < right[0][0] or right[-1][1] < left[0][0]:
        return NONE
    key = (x.serial, y.serial) if x.serial < y.serial else (y.serial, x.serial)
    found = _meets.get(key)
    if found is None:
        if len(_meets) > _MEMO_LIMIT:
            _meets.clear()
        found = _meets[key] = from_ranges(_meet_ranges(left, right))
    return found


def _meet_ranges(left: Ranges, right: Ranges) -> Ranges:
    if len(left) < len(right):
        left, right = right, left
    out: list[tuple[int, int]] = []
    if len(left) > 8 * len(right):
        for lo, hi in right:
            index = _first_reaching(left, lo)
            while index < len(left) and left[index][0] <= hi:
                out.append((max(lo, left[index][0]), min(hi, left[index][1])))
                index += 1
        return tuple(out)
    i = j = 0
    while i < len(left) and j < len(right):
        lo = max(left[i][0], right[j][0])
        hi = min(left[i][1], right[j][1])
        if lo <= hi:
            out.append((lo, hi))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return tuple(out)


def _minus_ranges(left: Ranges, right: Ranges) -> Ranges:
    out: list[tuple[int, int]] = []
    index = _first_reaching(right, left[0][0])
    for lo, hi in left:
        while index < len(right) and right[index][1] < lo:
            index += 1
        at = index
        while at < len(right) and right[at][0] <= hi:
            if right[at][0] > lo:
                out.append((lo, right[at][0] - 1))
            lo = right[at][1] + 1
            at += 1
        if lo <= hi:
            out.append((lo, hi))
    # A piece that begins or ends in the gap of the surrogates is cut there.
    return normalise(out)


def _first_reaching(ranges: Ranges, code: int) -> int:
    """Index of the first range that does not end before `code`."""
    low, high = 0, len(ranges)
    while low < high:
        middle = (low + high) // 2
        if ranges[middle][1] < code:
            low = middle + 1
        else:
            high = middle
    return low


def invert_ranges(ranges: Ranges) -> Ranges:
    """The scalar values that are not in `ranges` (normalised)."""
    out: list[tuple[int, int]] = []
    start = 0
    for lo, hi in ranges:
        if lo > start:
            out.append((start, lo - 1))
        start = hi + 1
    if start <= MAX_CODE_POINT:
        out.append((start, MAX_CODE_POINT))
    return normalise(out)


def minus(x: Rx, y: Rx) -> Rx:
    """What is in `x` and not in `y`."""
    if x is y or x is NONE or y is ANY:
        return NONE
    if y is NONE:
        return x
    left: Ranges = x.a
    right: Ranges = y.a
    if left[-1][1] < right[0][0] or right[-1][1] < left[0][0]:
        return x
    key = (x.serial, y.serial)
    found = _minuses.get(key)
    if found is None:
        if len(_minuses) > _MEMO_LIMIT:
            _minuses.clear()
        found = _minuses[key] = from_ranges(_minus_ranges(left, right))
    return found


def join(x: Rx, y: Rx) -> Rx:
    """The union of two sets."""
    if x is y or y is NONE:
        return x
    if x is NONE:
        return y
    if x is ANY or y is ANY:
        return ANY
    key = (x.serial, y.serial) if x.serial < y.serial else (y.serial, x.serial)
    found = _joins.get(key)
    if found is None:
        if len(_joins) > _MEMO_LIMIT:
            _joins.clear()
        found = _joins[key] = from_ranges(normalise(x.a + y.a))
    return found


def join_all(sets: list[Rx]) -> Rx:
    """The union of many sets."""
    sets = [one for one in sets if one is not NONE]
    if not sets:
        return NONE
    if len(sets) <= 3 or (len(sets) <= 12 and any(len(one.a) > 50 for one in sets)):
        # The same few large sets are joined again and again, which is remembered pair by pair.
        result = sets[0]
        for other in sets[1:]:
            result = join(result, other)
        return result
    return from_ranges(normalise(pair for one in sets for pair in one.a))


def contains(x: Rx, code: int) -> bool:
    """Whether a code point is in the set."""
    ranges: Ranges = x.a
    index = _first_reaching(ranges, code)
    return index < len(ranges) and ranges[index][0] <= code


_PLEASANT = ((97, 122), (48, 57), (65, 90), (32, 33), (35, 91), (93, 126))


def sample(x: Rx) -> int:
    """A representative code point, one that is cheap to write in JSON and pleasant to read where there is one."""
    for lo, hi in _PLEASANT:
        for low, high in x.a:
            if low > hi:
                break
            if high >= lo:
                return max(lo, int(low))
    code: int = x.a[0][0]
    return code
