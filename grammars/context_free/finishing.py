"""How much text a parser's stacks need at least to be finished: shortest derivations (Knuth 1977) along the stack.

A reduction that has to go on below a node is finished by what its nonterminal lets follow there; the tables of a piece
of stack say so for every nonterminal, given the table of the piece below.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence

from grammars.context_free.grammar import Rule
from grammars.context_free.lr import Automaton
from grammars.context_free.stacks import BASE, Stacks

FAR = 1 << 40
"""Stands for: cannot be finished."""

Pend = Callable[[int, int], int]
"""What a reduction (nonterminal, nodes still to be taken off) costs below."""


def shortest_derivations(rules: Iterable[Rule], terminals: Sequence[int]) -> dict[int, int]:
    """The least size of a text of each nonterminal, given that of each terminal."""
    rules = list(rules)
    least: dict[int, int] = {}
    users: dict[int, list[int]] = {}
    missing = []
    heap: list[tuple[int, int]] = []
    for number, rule in enumerate(rules):
        own = {symbol for symbol in rule.symbols if symbol >= 0}
        missing.append(len(own))
        for symbol in own:
            users.setdefault(symbol, []).append(number)
        if not own:
            heapq.heappush(heap, (_size(rule.symbols, least, terminals), rule.origin))
    while heap:
        size, origin = heapq.heappop(heap)
        if origin in least or size >= FAR:
            continue
        least[origin] = size
        for number in users.get(origin, ()):
            missing[number] -= 1
            if not missing[number]:
                rule = rules[number]
                heapq.heappush(heap, (_size(rule.symbols, least, terminals), rule.origin))
    return least


def _size(symbols: Sequence[int], least: dict[int, int], terminals: Sequence[int]) -> int:
    return min(FAR, sum(terminals[~one] if one < 0 else least.get(one, FAR) for one in symbols))


class Finishing:
    """Costs of one parser, memoised for pieces of stacks that lie on the same things."""

    def __init__(self, stacks: Stacks, terminals: Sequence[int]) -> None:
        """
        Args:
            terminals: the size of a shortest text of each terminal.

        Attribute `tails`: the size of a shortest text for what is behind the dot of each item of the automaton.
        """
        self._stacks = stacks
        self._automaton: Automaton = stacks.automaton
        self.terminals = terminals
        least = shortest_derivations(self._automaton.rules, terminals)
        self.tails = [
            _size(rule.symbols[dot:], least, terminals) for _, dot, _, rule in self._automaton.items
        ]  # fmt: skip
        self._ways: dict[int, tuple[tuple[int, int, int], ...]] = {}

    def ways(self, state: int) -> tuple[tuple[int, int, int], ...]:
        """How the items of a state are finished: (text that is missing, symbols already read, nonterminal)."""
        found = self._ways.get(state)
        if found is None:
            best: dict[tuple[int, int], int] = {}
            here = self._automaton.states[state]
            kernel = [item for item, _ in here.kernel]
            for item in kernel:
                _, dot, _, rule = self._automaton.items[item]
                key = (dot, rule.origin)
                best[key] = min(best.get(key, FAR), self.tails[item])
            found = tuple((cost, dot, origin) for (dot, origin), cost in best.items() if cost < FAR)
            self._ways[state] = found
        return found

    def on_top(self, node: int, pend: Pend) -> int:
        """What the stacks with `node` on top need; `pend` says what reductions cost that look below the graph."""
        table: dict[tuple[int, int], int] = {}
        best = FAR
        if self._automaton.empty and self._stacks.state[node] == 0:
            best = 0
        for cost, dot, origin in self.ways(self._stacks.state[node]):
            best = min(best, cost + self.completed(node, origin, dot, pend, table))
        return best

    def completed(self, node: int, origin: int, more: int, pend: Pend, table: dict[tuple[int, int], int]) -> int:
        """What is needed where `origin` is complete once `more` nodes are taken off from `node`.

        Args:
            table: what is known of the graph of `node` with this `pend`: (node, nonterminal) -> cost.
        """
        nodes, left = self._stacks.popped(node, more)
        costs = [pend(origin, count) for count in left]
        costs += [self._at(base, origin, pend, table) for base in nodes]
        return min(costs, default=FAR)

    def _at(self, base: int, origin: int, pend: Pend, table: dict[tuple[int, int], int]) -> int:
        """What is needed where `origin` is complete on `base`: Dijkstra's algorithm over (base, nonterminal)."""
        if (base, origin) in table:
            return table[base, origin]
        automaton, stacks = self._automaton, self._stacks
        start = (base, origin)
        queue: list[tuple[int, tuple[int, int]]] = [(0, start)]
        seen: set[tuple[int, int]] = set()
        best = FAR
        while queue:
            spent, (on, symbol) = heapq.heappop(queue)
            if spent >= best:
                break
            if (on, symbol) in seen:
                continue
            seen.add((on, symbol))
            known = table.get((on, symbol))
            if known is not None:
                best = min(best, spent + known)
                continue
            if symbol == automaton.goal:
                best = min(best, spent)
                continue
            target = automaton.target(stacks.state[on], symbol)
            if target < 0:
                continue
            for cost, dot, completed in self.ways(target):
                if dot == 1 and completed == automaton.goal:
                    best = min(best, spent + cost)
                    continue
                nodes, left = stacks.popped(on, dot - 1)
                for count in left:
                    best = min(best, spent + cost + pend(completed, count))
                for node in nodes:
                    if (node, completed) not in seen:
                        heapq.heappush(queue, (spent + cost, (node, completed)))
        table[start] = best
        return best


def nothing_below(origin: int, more: int) -> int:
    """The `Pend` of a graph that reaches the bottom."""
    return FAR


__all__ = ["BASE", "FAR", "Finishing", "nothing_below", "shortest_derivations"]
