"""Lark's LALR(1) table, computed on numbers: the same table, some ten times sooner than Lark makes it.

Lookaheads by the relations of DeRemer and Pennello ("Efficient Computation of LALR(1) Look-Ahead Sets", 1982), as Lark
has them: its `includes` also starts from items whose dot is not at the beginning, which can add lookaheads.  That is
kept, because the contextual lexer tries whatever the table has an action for.  Conflicts are resolved as there: to
shift, or between rules to the one of higher priority.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from grammars.context_free import END_MARK, Rule

Action = tuple[Literal["shift", "reduce"], int]
Transition = tuple[int, int]
"""A state and a symbol that it goes on with."""


@dataclass(slots=True)
class Table:
    """The table, and what could not be decided.

    Attributes:
        actions: for each state, by terminal (`END_MARK`: at the end): ("shift", state) or ("reduce", rule).
        gotos: for each state, by nonterminal: the next state.
        end: the state after the start symbol; the start is 0.
        collisions: terminals at which several rules of one priority might be reduced, with these rules.
    """

    actions: list[dict[int, Action]] = field(default_factory=list)
    gotos: list[dict[int, int]] = field(default_factory=list)
    end: int = 0
    collisions: list[tuple[int, list[int]]] = field(default_factory=list)


def lalr(rules: Sequence[Rule], priorities: Sequence[int], start: int) -> Table:
    """The table of a grammar; nonterminals are numbers from 0, terminals are ~number."""
    return _Builder(rules, priorities, start).table()


class _Builder:
    def __init__(self, rules: Sequence[Rule], priorities: Sequence[int], start: int) -> None:
        self.priorities = priorities
        self.root = len(rules)
        self.rules = [*(rule.symbols for rule in rules), (start,)]
        # The rule above the start has an origin that no rule uses.
        self.origins = [*(rule.origin for rule in rules), 1 + max((rule.origin for rule in rules), default=0)]
        self.by_origin: dict[int, list[int]] = {}
        for number, origin in enumerate(self.origins):
            self.by_origin.setdefault(origin, []).append(number)
        self.nullable = self._nullable()
        self.begun: dict[int, tuple[tuple[int, int], ...]] = {}
        self.closures: list[tuple[tuple[int, int], ...]] = []
        self.moves: list[dict[int, int]] = []
        self._make_states()

    def _nullable(self) -> set[int]:
        found: set[int] = set()
        changed = True
        while changed:
            before = len(found)
            found.update(
                origin
                for origin, symbols in zip(self.origins, self.rules, strict=True)
                if all(symbol in found for symbol in symbols)
            )
            changed = len(found) != before
        return found

    # --- LR(0) states ---------------------------------------------------------------------------------------------------

    def _make_states(self) -> None:
        numbers: dict[frozenset[tuple[int, int]], int] = {}
        kernels: list[frozenset[tuple[int, int]]] = []

        def number_of(kernel: frozenset[tuple[int, int]]) -> int:
            if kernel not in numbers:
                numbers[kernel] = len(kernels)
                kernels.append(kernel)
            return numbers[kernel]

        number_of(frozenset({(self.root, 0)}))
        for kernel in kernels:
            closure = self._closure(kernel)
            after: dict[int, list[tuple[int, int]]] = {}
            for rule, dot in closure:
                symbols = self.rules[rule]
                if dot < len(symbols):
                    after.setdefault(symbols[dot], []).append((rule, dot + 1))
            self.closures.append(closure)
            self.moves.append({symbol: number_of(frozenset(items)) for symbol, items in after.items()})

    def _closure(self, kernel: frozenset[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        items = dict.fromkeys(kernel)
        for rule, dot in kernel:
            symbols = self.rules[rule]
            if dot < len(symbols) and symbols[dot] >= 0:
                items.update(dict.fromkeys(self._begins(symbols[dot])))
        return tuple(items)

    def _begins(self, origin: int) -> tuple[tuple[int, int], ...]:
        """The items with which a nonterminal begins."""
        found = self.begun.get(origin)
        if found is None:
            reached = {origin: None}
            queue = [origin]
            while queue:
                for rule in self.by_origin.get(queue.pop(), ()):
                    symbols = self.rules[rule]
                    if symbols and symbols[0] >= 0 and symbols[0] not in reached:
                        reached[symbols[0]] = None
                        queue.append(symbols[0])
            found = tuple((rule, 0) for one in reached for rule in self.by_origin.get(one, ()))
            self.begun[origin] = found
        return found

    # --- lookaheads -----------------------------------------------------------------------------------------------------

    def _lookaheads(self) -> list[dict[int, int]]:
        """For each state and rule that ends there, the terminals (as bits; the end is bit 0) at which it is reduced."""
        follow: dict[Transition, int] = {}
        reads: dict[Transition, list[Transition]] = {}
        for state, moves in enumerate(self.moves):
            for symbol, target in moves.items():
                if symbol >= 0:
                    bits = 1 if (state, symbol) == (0, self.rules[self.root][0]) else 0
                    inside = []
                    for following in self.moves[target]:
                        if following < 0:
                            bits |= 2 << ~following
                        elif following in self.nullable:
                            inside.append((target, following))
                    follow[state, symbol] = bits
                    reads[state, symbol] = inside
        _close(follow, reads)
        included, lookback = self._included(follow)
        _close(follow, included)
        out: list[dict[int, int]] = [{} for _ in self.moves]
        for transition, ends in lookback.items():
            for state, rule in ends:
                out[state][rule] = out[state].get(rule, 0) | follow[transition]
        return out

    def _included(
        self, transitions: dict[Transition, int]
    ) -> tuple[dict[Transition, list[Transition]], dict[Transition, list[tuple[int, int]]]]:
        included: dict[Transition, list[Transition]] = {one: [] for one in transitions}
        lookback: dict[Transition, list[tuple[int, int]]] = {}
        for state, closure in enumerate(self.closures):
            moves = self.moves[state]
            for rule, dot in closure:
                transition = (state, self.origins[rule])
                if transition[1] not in moves:
                    continue
                symbols = self.rules[rule]
                here = state
                last = self._last_solid(symbols)
                for place in range(dot, len(symbols)):
                    symbol = symbols[place]
                    if place >= last and symbol >= 0:
                        included[here, symbol].append(transition)
                    here = self.moves[here][symbol]
                if dot == 0:
                    lookback.setdefault(transition, []).append((here, rule))
        return included, lookback

    def _last_solid(self, symbols: tuple[int, ...]) -> int:
        """The place of the last symbol behind which all may be empty, so of the last that is not nullable."""
        place = len(symbols) - 1
        while place > 0 and symbols[place] in self.nullable:
            place -= 1
        return place

    # --- the table --------------------------------------------------------------------------------------------------------

    def table(self) -> Table:
        """What each state does."""
        table = Table(end=self.moves[0][self.rules[self.root][0]])
        for moves, ends in zip(self.moves, self._lookaheads(), strict=True):
            actions: dict[int, Action] = {~symbol: ("shift", to) for symbol, to in moves.items() if symbol < 0}
            table.gotos.append({symbol: to for symbol, to in moves.items() if symbol >= 0})
            candidates: dict[int, list[int]] = {}
            for rule, bits in ends.items():
                for terminal in _terminals(bits):
                    candidates.setdefault(terminal, []).append(rule)
            for terminal, rules in candidates.items():
                if len(rules) > 1:
                    rules.sort(key=lambda rule: -self.priorities[rule])
                    if self.priorities[rules[0]] == self.priorities[rules[1]]:
                        table.collisions.append((terminal, rules))
                        continue
                actions.setdefault(terminal, ("reduce", rules[0]))
            table.actions.append(actions)
        return table


def _close(values: dict[Transition, int], others: dict[Transition, list[Transition]]) -> None:
    """Add to each value those of its others, until nothing changes."""
    users: dict[Transition, list[Transition]] = {}
    for one, several in others.items():
        for other in several:
            users.setdefault(other, []).append(one)
    queue = list(users)
    waiting = set(queue)
    while queue:
        one = queue.pop()
        waiting.discard(one)
        value = values[one]
        for user in users.get(one, ()):
            if value & ~values[user]:
                values[user] |= value
                if user not in waiting:
                    waiting.add(user)
                    queue.append(user)


def _terminals(bits: int) -> list[int]:
    out = []
    while bits:
        low = bits & -bits
        place = low.bit_length() - 1
        out.append(END_MARK if place == 0 else place - 1)
        bits ^= low
    return out
