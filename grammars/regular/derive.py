"""Derivatives (Brzozowski 1964) by sets of code points, memoised on the nodes."""

from __future__ import annotations

from grammars.effort import spend
from grammars.memory import forgets
from grammars.regular.booleans import complement, intersect
from grammars.regular.build import ALL, follow, repeat, union
from grammars.regular.charset import ANY, chars, contains, join_all, meet, minus, single
from grammars.regular.counters import completion_bound
from grammars.regular.rx import (
    BOOLEAN,
    CHARS,
    COMPLEMENT,
    CONCAT,
    EPSILON,
    INTERSECT,
    LITERAL,
    NONE,
    REPEAT,
    UNFOLD,
    UNION,
    WORDS,
    Moves,
    Rx,
)
from grammars.regular.words import branches, has_scalars_only, is_listed, literal

_SWEEP_RANGES = 400
_PAIRWISE_MOVES = 24
_MOST_KEPT_CELLS, _MOST_KEPT_SETS = 4096, 256


def raw_moves(rx: Rx) -> Moves:
    """The derivatives by disjoint sets of code points, sorted; targets are distinct but may turn out to be empty."""
    found = rx._raw
    if found is not None:
        return found
    stack = [rx]
    while stack:
        node = stack[-1]
        if node._raw is None:
            kind = node.kind
            if kind == CONCAT:
                head, tail = node.a, node.b
                if head._raw is None:
                    stack.append(head)
                    continue
                if tail._raw is None and head.nullable:
                    stack.append(tail)
                    continue
            elif kind in (UNION, INTERSECT):
                waiting = [child for child in node.a if child._raw is None]
                if waiting:
                    stack.extend(waiting)
                    continue
            elif kind in (REPEAT, COMPLEMENT) and node.a._raw is None:
                stack.append(node.a)
                continue
            node._raw = found = _step(node)
            spend(len(found) * len(node.a) if kind == INTERSECT else 1 + len(found))
        stack.pop()
    assert rx._raw is not None
    return rx._raw


def _step(rx: Rx) -> Moves:
    kind = rx.kind
    if kind == CONCAT:
        ahead = _followed(rx.a._raw, rx.b)
        return _unite([ahead, rx.b._raw]) if rx.a.nullable else ahead
    if kind == UNION:
        return _unite([child._raw for child in rx.a])
    if kind == REPEAT:
        most = rx.most
        if rx.a is ANY and most is None and rx.least == 0:
            return ((ANY, rx),)
        rest = repeat(rx.a, max(rx.least - 1, 0), None if most is None else most - 1)
        return _followed(rx.a._raw, rest)
    if kind == CHARS:
        return ((rx, EPSILON),)
    if kind == LITERAL:
        return ((single(ord(rx.a[0])), literal(rx.a[1:])),)
    if kind == WORDS:
        return tuple((single(code), union(*parts)) for code, parts in branches(rx))
    if kind == INTERSECT:
        result: Moves = rx.a[0]._raw
        for child in rx.a[1:]:
            result = _product(result, child._raw)
        return result
    if kind == COMPLEMENT:
        inner: Moves = rx.a._raw
        out = [(charset, complement(target)) for charset, target in inner]
        rest_set = minus(ANY, join_all([charset for charset, _ in inner]))
        if rest_set is not NONE:
            out.append((rest_set, ALL))
        return _grouped(out)
    if kind == UNFOLD:
        return _grouped(rx.a.set_moves())
    return ()


def _followed(moves: Moves | None, tail: Rx) -> Moves:
    assert moves is not None
    if len(moves) == 1:
        charset, target = moves[0]
        return ((charset, follow(target, tail)),)
    after = [(charset, follow(target, tail)) for charset, target in moves]
    if tail is not NONE and len({target for _, target in after}) == len(after):  # as mostly: still one move per target
        return tuple(after)
    return _grouped(after)


def _grouped(pairs: list[tuple[Rx, Rx]]) -> Moves:
    """One move per target, without NONE, sorted by first code point."""
    by_target: dict[Rx, list[Rx]] = {}
    for charset, target in pairs:
        if target is not NONE:
            by_target.setdefault(target, []).append(charset)
    moves = [(sets[0] if len(sets) == 1 else join_all(sets), target) for target, sets in by_target.items()]
    if len(moves) > 1:
        moves.sort(key=_first_code)
    return tuple(moves)


def _first_code(move: tuple[Rx, object]) -> int:
    code: int = move[0].a[0][0]
    return code


def _unite(lists: list[Moves]) -> Moves:
    lists = [moves for moves in lists if moves]
    if len(lists) < 2:
        return lists[0] if lists else ()
    targets: list[Rx] = []
    key: list[int] = []
    for moves in lists:
        key.append(0)
        for charset, target in moves:
            key.append(charset.serial)
            targets.append(target)
    named = tuple(key)
    found = _cells.get(named)
    if found is None:
        found = _kept_cells(named, lists)
    united = []
    for charset, numbers in zip(*found, strict=True):
        if len(numbers) == 1:
            united.append((charset, targets[numbers[0]]))
        elif len(numbers) == 2:
            united.append((charset, union(targets[numbers[0]], targets[numbers[1]])))
        else:
            united.append((charset, union(*[targets[number] for number in numbers])))
    return tuple(united) if len({target for _, target in united}) == len(united) else _grouped(united)


Cell = tuple[Rx, tuple[int, ...]]
"""A set of code points, and which of the given sets, numbered through, hold it."""
Cells = tuple[tuple[Rx, ...], tuple[tuple[int, ...], ...]]
"""Disjoint cells sorted by first code point: their sets, and their numbers."""
_cells: dict[tuple[int, ...], Cells] = {}
"""The cells of partitions by the serial numbers of their sets, 0 before each: unions of many languages share few."""


@forgets
def _forget() -> None:
    _cells.clear()


def _kept_cells(key: tuple[int, ...], lists: list[Moves]) -> Cells:
    cells = _cells_of(lists)
    cells.sort(key=_first_code)
    found = tuple([charset for charset, _ in cells]), tuple([numbers for _, numbers in cells])
    if len(key) <= _MOST_KEPT_SETS:
        if len(_cells) >= _MOST_KEPT_CELLS:
            _cells.clear()
        _cells[key] = found
    return found


def _cells_of(lists: list[Moves]) -> list[Cell]:
    """The common refinement of partitions."""
    numbered: list[list[Cell]] = []
    count = 0
    for moves in lists:
        numbered.append([(charset, (count + index,)) for index, (charset, _) in enumerate(moves)])
        count += len(moves)
    few = len(lists) == 2 and len(lists[0]) * len(lists[1]) <= _PAIRWISE_MOVES
    if not few:
        ranges = sum([len(charset.a) for moves in lists for charset, _ in moves])
        if ranges <= _SWEEP_RANGES or count > 3 * _PAIRWISE_MOVES:
            return _sweep(numbered)
    result = numbered[0]
    for cells in numbered[1:]:
        result = _refined(result, cells)
    return result


def _refined(left: list[Cell], right: list[Cell]) -> list[Cell]:
    out: list[Cell] = []
    others = list(right)
    for charset, numbers in left:
        for index, (other, other_numbers) in enumerate(others):
            if other is NONE:
                continue
            both = meet(charset, other)
            if both is NONE:
                continue
            out.append((both, numbers + other_numbers))
            others[index] = (minus(other, both), other_numbers)
            charset = minus(charset, both)
            if charset is NONE:
                break
        if charset is not NONE:
            out.append((charset, numbers))
    out.extend(cell for cell in others if cell[0] is not NONE)
    return out


def _sweep(lists: list[list[Cell]]) -> list[Cell]:
    """The same by one pass over all range borders: better for many short sets."""
    borders: list[tuple[int, int, int]] = []
    for cells in lists:
        for charset, (number,) in cells:
            for lo, hi in charset.a:
                borders.append((lo, number, 1))
                borders.append((hi + 1, number, 0))
    borders.sort()
    segments: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    active: dict[int, None] = {}
    start = 0
    for position, number, opens in borders:
        if active and position > start:
            segments.setdefault(tuple(sorted(active)), []).append((start, position - 1))
        start = position
        if opens:
            active[number] = None
        else:
            del active[number]
    return [(chars(spans), numbers) for numbers, spans in segments.items()]


def _product(left: Moves, right: Moves) -> Moves:
    out: list[tuple[Rx, Rx]] = []
    for charset, target in left:
        for other, other_target in right:
            both = meet(charset, other)
            if both is not NONE:
                out.append((both, intersect(target, other_target)))
                charset = minus(charset, both)
                if charset is NONE:
                    break
    return _grouped(out)


def moves(rx: Rx) -> Moves:
    """The live derivatives: pairs (set of code points as a CHARS node, target), disjoint, sorted by first code point.

    Targets are distinct and never empty.  Automata can compile each set once: states share the set objects.

    Raises:
        LimitExceeded: if telling an empty intersection from a non-empty one takes too many states.
    """
    found = rx._live
    if found is None:
        found = _counted_moves(rx) if rx.kind == INTERSECT else None
        if found is not None:
            rx._live = found
            return found
        found = raw_moves(rx)
        if rx.flags & BOOLEAN:
            from grammars.regular.explore import is_empty

            live = [move for move in found if not is_empty(move[1])]
            found = found if len(live) == len(found) else tuple(live)
        rx._live = found
    return found


def _counted_moves(rx: Rx) -> Moves | None:
    """The moves of a language with a limit on the length that is still far: none of them can become empty."""
    if len(rx.a) != 2:
        return None
    limit, rest = rx.a
    if not (limit.kind == REPEAT and limit.a is ANY):
        limit, rest = rest, limit
        if not (limit.kind == REPEAT and limit.a is ANY):
            return None
    if limit.least or limit.most is None or rest.kind not in (CONCAT, UNION):
        return None
    bound = completion_bound(rest)
    if bound is None or limit.most <= bound:
        return None
    spend()
    left = repeat(ANY, 0, limit.most - 1)
    return _grouped([(charset, intersect(target, left)) for charset, target in raw_moves(rest)])


def derivatives(rx: Rx) -> tuple[tuple[int, int, Rx], ...]:
    """The live derivatives by ranges: sorted disjoint inclusive `(lo, hi, target)`, without surrogates.

    Raises:
        LimitExceeded: as `moves`.
    """
    found = rx._derivatives
    if found is None:
        flat = [(lo, hi, target) for charset, target in moves(rx) for lo, hi in charset.a]
        flat.sort(key=lambda one: one[0])
        found = rx._derivatives = tuple(flat)
    return found


def derivative(rx: Rx, code: int) -> Rx:
    """What may follow the code point `code`; NONE where it may not come (a non-NONE result of a boolean expression may
    still be an empty language)."""
    for charset, target in raw_moves(rx):
        if contains(charset, code):
            return target
    return NONE


def matches(rx: Rx, text: str) -> bool:
    """Whether `text` is a word of the language; one with lone surrogates never is."""
    return has_scalars_only(text) and _matches(rx, text, 0)


def _matches(rx: Rx, text: str, at: int, *, in_parts: bool = True) -> bool:
    """Whether the rest of `text` from `at` is a word; no derivative is made where one look is enough.

    Parts are looked at one by one before the first derivative only: they come again behind each, and more of them.
    """
    while True:
        kind, left = rx.kind, len(text) - at
        if kind == COMPLEMENT:
            return not _matches(rx.a, text, at, in_parts=in_parts)
        if left < rx.low or (rx.high is not None and left > rx.high):
            return False
        if kind == LITERAL:
            return text.endswith(rx.a, at)
        if kind == WORDS:
            return is_listed(rx, text[at:])
        if kind == UNION and in_parts:
            return any([_matches(part, text, at) for part in rx.a])
        if kind == INTERSECT and in_parts:
            return all([_matches(part, text, at) for part in rx.a])
        if kind == REPEAT and rx.a.kind == CHARS:
            return all([contains(rx.a, ord(char)) for char in text[at:]])
        if not left:
            return rx.nullable
        rx = derivative(rx, ord(text[at]))
        at += 1
        in_parts = False
