"""Boolean algebra on sets of numbers, worked out in arithmetic where automata would have to be multiplied.

A language of numbers that came from numeric keywords is remembered as a union of *cells*: a quantity less some other
quantities.  Cells meet and are complemented symbolically; whether one is empty is decided by listing a bounded grid or by
finding a number in it.  Languages of unknown origin, and unions of too many cells, meet as automata.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import reduce
from itertools import islice, product
from weakref import WeakKeyDictionary

from grammars import regular
from grammars.effort import spend
from grammars.json_schema.numbers import NUMBER, listed_numbers_rx, other_number_rx
from grammars.json_schema.quantities import Quantity
from grammars.regular import NONE, Rx

MAX_CELLS = 96
MAX_MEETINGS = 2_000
"""Pairs of cells that are met with each other for one set."""
MAX_LISTED = 2_000
"""Members of a bounded grid that are looked at one by one."""
MAX_POINTS = 24
"""Members that are written out rather than described."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The numbers of `base` that are in none of `excluded`."""

    base: Quantity
    excluded: frozenset[Quantity] = frozenset()

    def language(self) -> Rx:
        """Texts of these numbers."""
        found = self.base.language(measured=bool(self.excluded))
        if not self.excluded or found is NONE:
            return found
        members = None if self.base.strict else self.base.members(MAX_LISTED)
        if members is not None:
            return listed_numbers_rx([number for number in members if self.holds(number)])
        others = [other.language(measured=True) for other in sorted(self.excluded, key=repr)]
        return regular.intersect(found, other_number_rx(regular.union(*others)))

    def holds(self, number: Decimal) -> bool:
        """Whether a number is a member, whatever its text."""
        return self.base.holds(number) and not any(other.holds(number) for other in self.excluded)


Cells = tuple[Cell, ...]

_ANYTHING: Cells = (Cell(Quantity()),)
_KNOWN: WeakKeyDictionary[Rx, Cells] = WeakKeyDictionary()
_KNOWN[NUMBER] = _ANYTHING


def language_of(quantity: Quantity) -> Rx:
    """Texts of the numbers of a quantity, remembered as such; `NONE` itself where there are none."""
    rx = quantity.language()
    if rx is not NONE and quantity.measurable():
        _KNOWN[rx] = (Cell(quantity),)
    return rx


def language_of_values(values: Iterable[Decimal]) -> Rx:
    """Texts of the given numbers."""
    values = list(values)
    if len(values) > MAX_POINTS:
        return listed_numbers_rx(values)
    return unite_numbers([language_of(Quantity.point(value)) for value in values])


def listed_values(rx: Rx) -> list[Decimal] | None:
    """The numbers of a language of few; `None` where that is not known of it."""
    cells = _KNOWN.get(rx)
    if cells is None or any(cell.excluded or cell.base.low != cell.base.high or not cell.base.low for cell in cells):
        return None
    return [cell.base.low[0] for cell in cells if cell.base.low is not None]


def unite_numbers(languages: Iterable[Rx]) -> Rx:
    """Union of languages of numbers."""
    distinct = [rx for rx in dict.fromkeys(languages) if rx is not NONE]
    if len(distinct) < 2 or NUMBER in distinct:
        return NUMBER if NUMBER in distinct else next(iter(distinct), NONE)
    rx = regular.union(*distinct)
    known = [_KNOWN.get(part) for part in distinct]
    if None not in known:
        _remember(rx, tuple(dict.fromkeys(cell for cells in known for cell in cells or ())))
    return rx


def meet_all_numbers(languages: Iterable[Rx]) -> Rx:
    """Intersection of several languages of numbers, those that are known as numbers first."""
    return reduce(meet_numbers, sorted(dict.fromkeys(languages), key=lambda rx: rx not in _KNOWN), NUMBER)


def meet_numbers(a: Rx, b: Rx) -> Rx:
    """Intersection of two languages of numbers; `NONE` itself where it is empty."""
    if a is b or b is NUMBER:
        return a
    if a is NUMBER:
        return b
    if a is NONE or b is NONE:
        return NONE
    left, right = _KNOWN.get(a), _KNOWN.get(b)
    if left is not None and right is not None and len(left) * len(right) <= MAX_MEETINGS:
        cells = _simplified(Cell(x.base.meets(y.base), x.excluded | y.excluded) for x, y in product(left, right))
        if cells is not None:
            return a if cells == left else b if cells == right else _language(cells)
    both = regular.intersect(a, b)
    return NONE if regular.is_empty(both) else both


def other_numbers(rx: Rx) -> Rx:
    """Numbers that are not in a language of numbers; `NONE` itself where there are none.

    Not the plain complement: of the many writings of a number, languages with bounds hold only those they can judge.
    """
    if rx is NONE or rx is NUMBER:
        return NUMBER if rx is NONE else NONE
    known = _KNOWN.get(rx)
    if known is not None:
        cells: Cells | None = _ANYTHING
        for cell in known:
            rest = _others(cell)
            if cells is None or rest is None or len(cells) * len(rest) > MAX_MEETINGS:
                cells = None
                break
            cells = _simplified(Cell(x.base.meets(y.base), x.excluded | y.excluded) for x, y in product(cells, rest))
        if cells is not None:
            return _language(cells)
    others = other_number_rx(rx)
    return NONE if regular.is_empty(others) else others


def _others(cell: Cell) -> Sequence[Cell] | None:
    """The numbers that are not in a cell, as cells; `None` where a text decides."""
    base = cell.base
    if base.strict:
        return None
    found = [Cell(other) for other in cell.excluded]
    if not base.multiples and not base.integer:
        if base.low is not None:
            found.append(Cell(Quantity(high=(base.low[0], not base.low[1]))))
        if base.high is not None:
            found.append(Cell(Quantity(low=(base.high[0], not base.high[1]))))
    else:
        found.append(Cell(Quantity(), frozenset((base,))))
    return found


def _language(cells: Cells) -> Rx:
    rx = regular.union(*[cell.language() for cell in cells])
    if rx is not NONE:
        _remember(rx, cells)
    return rx


def _remember(rx: Rx, cells: Cells) -> None:
    if len(cells) <= MAX_CELLS and rx not in _KNOWN:
        _KNOWN[rx] = cells


def _simplified(cells: Iterable[Cell]) -> Cells | None:
    """The cells that are not empty, each in its simplest form; `None` where there are too many, or one is undecided."""
    found: dict[Cell, None] = {}
    for cell in dict.fromkeys(cells):
        parts = _parts(cell)
        if parts is None:
            return None
        found.update(dict.fromkeys(parts))
        if len(found) > MAX_CELLS:
            return None
    kept = list(found)
    spend(len(kept))
    return tuple(cell for cell in kept if not any(other is not cell and _within(cell, other, kept) for other in kept))


def _within(a: Cell, b: Cell, order: list[Cell]) -> bool:
    """A sufficient test that `a` adds nothing to `b`; of two equal ones the first stays."""
    if not (b.excluded <= a.excluded and a.base.within(b.base)):
        return False
    return not (a.excluded <= b.excluded and b.base.within(a.base)) or order.index(b) < order.index(a)


def _parts(cell: Cell) -> Sequence[Cell] | None:
    """The cell without exclusions that do not concern it; nothing where it is empty, points where it has few members.

    `None` where arithmetic does not tell whether it is empty, or the remainders are too many.
    """
    base = cell.base
    if not base.measurable():
        return None
    if base.is_empty():
        return ()
    excluded: list[Quantity] = []
    for other in sorted(cell.excluded, key=repr):
        spend()  # it is compared with all of them
        if other.strict or not other.measurable():
            return None
        if base.within(other):
            return ()
        if not base.meets(other).is_empty() and not any(map(other.within, excluded)):
            excluded = [one for one in excluded if not one.within(other)] + [other]
    cell = Cell(base, frozenset(excluded))
    if not excluded:
        return (cell,)
    members = base.members(MAX_LISTED)
    if members is None:
        return (cell,) if any(cell.holds(number) for number in islice(base.some_members(), MAX_LISTED)) else None
    kept = list(islice((number for number in members if cell.holds(number)), MAX_POINTS + 1))
    if len(kept) > MAX_POINTS:
        return (cell,)
    return [Cell(replace(base, low=(number, False), high=(number, False))) for number in kept]
