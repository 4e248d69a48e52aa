"""Whether a parse table reads less than its rules: where two actions were possible, one was chosen.

Lookaheads are looked up where the rules' FOLLOW sets do not rule a conflict out already (DeRemer and Pennello 1982, from
the reductions in question backwards).
"""

from __future__ import annotations

from collections.abc import Sequence

from grammars.context_free.grammar import END_MARK, LalrTable, Rule
from grammars.context_free.nullable import nullable_symbols

Item = tuple[int, int]
"""A rule's number and the place of the dot."""


class Conflicts:
    """The LR(0) automaton of a table, and the lookaheads of its reductions."""

    def __init__(self, rules: Sequence[tuple[int, Rule]], start: int, table: LalrTable) -> None:
        """
        Args:
            rules: the rules that some sentence uses, each with its number in the table.
        """
        self._rules = dict(rules)
        self._start = start
        self._table = table
        self._nullable = nullable_symbols(rule for _, rule in rules)
        self._by_origin: dict[int, list[int]] = {}
        for number, rule in rules:
            self._by_origin.setdefault(rule.origin, []).append(number)
        self._items: dict[int, set[Item]] = {}
        self._before: dict[int, set[int]] = {}
        self._find_items()

    def were_resolved(self) -> bool:
        """Whether in some state a terminal asks for an action that the table does not take."""
        follow = self._follow_sets()
        for state, items in self._items.items():
            actions = self._table.actions[state]
            for number, dot in items:
                rule = self._rules[number]
                if dot < len(rule.symbols):
                    continue
                doubtful = {
                    terminal for terminal in follow[rule.origin]
                    if terminal in actions and actions[terminal] != ("reduce", number)
                }  # fmt: skip
                if doubtful and doubtful & self._lookaheads(state, number):
                    return True
        return False

    def _find_items(self) -> None:
        first = {(number, 0) for number in self._by_origin.get(self._start, ())}
        waiting: list[tuple[int, set[Item]]] = [(self._table.start, first)]
        while waiting:
            state, kernel = waiting.pop()
            known = self._items.setdefault(state, set())
            if kernel <= known:
                continue
            queue = list(kernel - known)
            known |= kernel
            while queue:
                number, dot = queue.pop()
                symbols = self._rules[number].symbols
                if dot < len(symbols) and symbols[dot] >= 0:
                    for other in self._by_origin.get(symbols[dot], ()):
                        if (other, 0) not in known:
                            known.add((other, 0))
                            queue.append((other, 0))
            moved: dict[int, set[Item]] = {}
            for number, dot in known:
                symbols = self._rules[number].symbols
                if dot < len(symbols):
                    moved.setdefault(symbols[dot], set()).add((number, dot + 1))
            for symbol, after in moved.items():
                target = self._target(state, symbol)
                if target is not None:
                    self._before.setdefault(target, set()).add(state)
                    waiting.append((target, after))

    def _target(self, state: int, symbol: int) -> int | None:
        if symbol >= 0:
            return self._table.gotos[state].get(symbol)
        action = self._table.actions[state].get(~symbol)
        return action[1] if action is not None and action[0] == "shift" else None

    def _follow_sets(self) -> dict[int, set[int]]:
        firsts: dict[int, set[int]] = {origin: set() for origin in self._by_origin}
        follow: dict[int, set[int]] = {origin: set() for origin in self._by_origin}
        follow[self._start].add(END_MARK)
        changed = True
        while changed:
            changed = False
            for rule in self._rules.values():
                trailer = set(follow[rule.origin])
                first: set[int] = set()
                for symbol in reversed(rule.symbols):
                    if symbol < 0:
                        trailer = first = {~symbol}
                        continue
                    if not trailer <= follow[symbol]:
                        follow[symbol] |= trailer
                        changed = True
                    if symbol in self._nullable:
                        trailer = trailer | firsts[symbol]
                        first = first | firsts[symbol]
                    else:
                        trailer = first = firsts[symbol]
                if not first <= firsts[rule.origin]:
                    firsts[rule.origin] |= first
                    changed = True
        return follow

    def _lookaheads(self, state: int, number: int) -> set[int]:
        """The terminals behind a reduction in a state."""
        rule = self._rules[number]
        found: set[int] = set()
        queue = [(base, rule.origin) for base in self._back(state, len(rule.symbols))]
        seen = set(queue)

        def add(base: int, origin: int) -> None:
            if (base, origin) not in seen:
                seen.add((base, origin))
                queue.append((base, origin))

        while queue:
            base, origin = queue.pop()
            if base == self._table.start and origin == self._start:
                found.add(END_MARK)
            target = self._table.gotos[base].get(origin)
            if target is None:
                continue
            for other, dot in self._items.get(target, ()):
                symbols = self._rules[other].symbols
                if dot < len(symbols):
                    if symbols[dot] < 0:
                        found.add(~symbols[dot])
                    elif symbols[dot] in self._nullable:
                        add(target, symbols[dot])
            for other, dot in self._items[base]:
                symbols = self._rules[other].symbols
                if (
                    dot < len(symbols)
                    and symbols[dot] == origin
                    and all(symbol in self._nullable for symbol in symbols[dot + 1 :])
                ):
                    for before in self._back(base, dot):
                        add(before, self._rules[other].origin)
        return found

    def _back(self, state: int, steps: int) -> set[int]:
        states = {state}
        for _ in range(steps):
            states = {before for one in states for before in self._before.get(one, ())}
        return states
