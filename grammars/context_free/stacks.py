"""Sets of parser stacks as hash-consed graphs, and what a terminal does to them (Tomita 1985; Scott and Johnstone 2006).

A node is a state of the automaton and the nodes that may lie below it, at most one for each state: read from the top, a
set of stacks is a deterministic automaton, so equal sets are equal nodes.  A graph need not reach to the bottom:
`BASE` stands for the node that it was cut from (`cut`), and what would have to look below it is returned as pending.
Rules are never empty here but where one stack is followed by a table, so that graphs have no cycles.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from grammars.context_free.layout import Blocks
from grammars.context_free.lr import ERROR, SHIFT, UNDECIDED, Automaton
from grammars.errors import LimitExceeded

BASE = -1
"""In place of a node: whatever the graph stands on."""

_ON_BASE = (BASE,)
NODE_LIMIT = 4_000_000
_MOST_REDUCTIONS = 1_000_000

Pending = tuple[int, int]
"""A reduction that has to go on below: the nonterminal, and how many nodes are to be taken off from the one that
the graph stands on (0: it is the one to go on from)."""


@dataclass(slots=True)
class Advanced:
    """What a terminal leads to.

    Attributes:
        tops: nodes of the stacks that have read it, one for each state.
        pending: reductions that have to look below the graph first.
        accepted: at the end of the text: whether some stack is a sentence; `below`: if it stands on the start alone.
    """

    tops: list[int] = field(default_factory=list)
    pending: frozenset[Pending] = frozenset()
    accepted: bool = False
    below: bool = False


class Stacks:
    """The nodes of one automaton."""

    def __init__(self, automaton: Automaton) -> None:
        self.automaton = automaton
        self.state: list[int] = []
        self.below: list[tuple[int, ...]] = []
        self.height: list[int] = []
        self._numbers: dict[tuple[int, tuple[int, ...]], int] = {}
        self._pops: dict[tuple[int, int], tuple[frozenset[int], frozenset[int]]] = {}
        self._unions: dict[tuple[int, ...], int] = {}
        self._attached: dict[tuple[int, int], int] = {}
        self._cuts: dict[tuple[int, int], int] = {}
        self._chains: dict[int, tuple[int, ...]] = {}

    def node(self, state: int, below: Iterable[int]) -> int:
        """The node of `state` on any of `below`; stacks that begin alike are joined."""
        under = self._joined(below)
        number = self._numbers.get((state, under))
        if number is None:
            number = len(self.state)
            if number >= NODE_LIMIT:
                raise LimitExceeded(f"the grammar's sets of stacks need more than {NODE_LIMIT} nodes")
            self._numbers[state, under] = number
            self.state.append(state)
            self.below.append(under)
            self.height.append(1 + max((self.height[one] for one in under if one != BASE), default=0))
        return number

    def union(self, nodes: Iterable[int]) -> list[int]:
        """The nodes with those of one state joined, sorted."""
        return list(self._joined(nodes))

    def _joined(self, nodes: Iterable[int]) -> tuple[int, ...]:
        if isinstance(nodes, tuple) and len(nodes) == 1:
            return nodes
        found = sorted(set(nodes))
        if len(found) < 2:
            return tuple(found)
        by_state: dict[int, list[int]] = {}
        for one in found:
            by_state.setdefault(BASE if one == BASE else self.state[one], []).append(one)
        if len(by_state) == len(found):
            return tuple(found)
        return tuple(sorted([self._union(tuple(same)) if len(same) > 1 else same[0] for same in by_state.values()]))

    def _union(self, same: tuple[int, ...]) -> int:
        """One node for several of one state; iterative, as stacks may be deep."""
        unions = self._unions
        waiting = [same]
        while waiting:
            group = waiting[-1]
            if group in unions:
                waiting.pop()
                continue
            by_state: dict[int, set[int]] = {}
            for one in group:
                for under in self.below[one]:
                    by_state.setdefault(BASE if under == BASE else self.state[under], set()).add(under)
            parts = [tuple(sorted(one)) for one in by_state.values()]
            missing = [part for part in parts if len(part) > 1 and part not in unions]
            if missing:
                waiting += missing
                continue
            unions[group] = self.node(
                self.state[group[0]], [unions[part] if len(part) > 1 else part[0] for part in parts]
            )
            waiting.pop()
        return unions[same]

    def popped(self, node: int, count: int) -> tuple[frozenset[int], frozenset[int]]:
        """What lies `count` nodes below `node`: nodes, and how many are still to be taken off where the graph ends."""
        if count == 0:
            return (frozenset(), frozenset((0,))) if node == BASE else (frozenset((node,)), frozenset())
        if node == BASE:
            return frozenset(), frozenset((count,))
        found = self._pops.get((node, count))
        if found is None:
            nodes: set[int] = set()
            rest: set[int] = set()
            for under in self.below[node]:
                more, left = self.popped(under, count - 1)
                nodes |= more
                rest |= left
            found = self._pops[node, count] = (frozenset(nodes), frozenset(rest))
        return found

    def advance(
        self,
        terminal: int,
        nodes: Iterable[int],
        reduced: Iterable[tuple[int, int]] = (),
        opens: tuple[Blocks, int] | None = None,
    ) -> Advanced:
        """Read a terminal (or the end, the number after the last): all reductions that it asks for, then the shift.

        Args:
            nodes: the tops of the stacks.
            reduced: nonterminals that have been completed on top of further nodes: (nonterminal, node).
            opens: of a terminal that opens a block: the blocks around it, and its column.
        """
        nodes, reduced = tuple(nodes), tuple(reduced)
        if len(nodes) + len(reduced) == 1 and opens is None:
            found = self._follow(terminal, nodes[0]) if nodes else self._follow(terminal, reduced[0][1], reduced[0][0])
            if found is not None:
                return found
        elif opens is None and self.automaton.is_tabled:
            apart = [self._follow(terminal, node) for node in nodes]
            apart += [self._follow(terminal, node, origin) for origin, node in reduced]
            each = [one for one in apart if one is not None]
            if len(each) == len(apart):
                tops = self.union(top for one in each for top in one.tops)
                return Advanced(tops, frozenset().union(*(one.pending for one in each)))
        automaton = self.automaton
        bit = 1 << terminal
        level: dict[int, set[int]] = {}
        queue: list[tuple[int, int]] = []
        pending: set[Pending] = set()
        accepted = accepted_below = False
        steps = 0

        def add(state: int, under: int) -> None:
            known = level.setdefault(state, set())
            if under not in known:
                known.add(under)
                queue.append((state, under))

        def complete(origin: int, node: int) -> None:
            state = automaton.target(self.state[node], origin)
            if state >= 0:
                add(state, node)

        bottoms: set[int] = set()
        for node in nodes:
            if not self.below[node]:
                bottoms.add(node)
            for under in self.below[node]:
                add(self.state[node], under)
        for origin, node in reduced:
            complete(origin, node)
        for node in bottoms:
            for _, length, origin, ahead in automaton.states[self.state[node]].reductions:
                if ahead & bit:
                    if origin == automaton.goal:
                        accepted = True
                    elif length == 0:
                        complete(origin, node)
        while queue:
            state, under = queue.pop()
            steps += 1
            if steps > _MOST_REDUCTIONS:
                raise LimitExceeded(f"one terminal asks for more than {_MOST_REDUCTIONS} reductions")
            for _, length, origin, ahead in automaton.states[state].reductions:
                if not ahead & bit:
                    continue
                if origin == automaton.goal:
                    accepted |= under != BASE
                    accepted_below |= under == BASE
                    continue
                if length == 0:
                    complete(origin, self.node(state, (under,)))
                    continue
                bases, left = self.popped(under, length - 1)
                for node in bases:
                    complete(origin, node)
                for more in left:
                    pending.add((origin, more))
        made: dict[int, list[int]] = {}

        def shift(state: int, node: int) -> None:
            blocks = None if opens is None else automaton.opened(state, *opens)
            made.setdefault(automaton.target(state, ~terminal, blocks), []).append(node)

        for state, unders in level.items():
            if automaton.states[state].shifts & bit:
                shift(state, self.node(state, unders))
        for node in bottoms:
            state = self.state[node]
            if automaton.states[state].shifts & bit:
                shift(state, node)
        tops = [self.node(state, unders) for state, unders in made.items()]
        return Advanced(tops, frozenset(pending), accepted, accepted_below)

    def blocks(self, node: int) -> Blocks | None:
        """The blocks that are open with `node` as the top of one stack; None where its graph ends before they are known."""
        while node != BASE:
            found = self.automaton.states[self.state[node]].blocks
            if found is not None:
                return found
            node = self.below[node][0]
        return None

    def _follow(self, terminal: int, node: int, origin: int | None = None) -> Advanced | None:
        """`advance` of one stack, or of one nonterminal completed on it; None where it comes to more than one."""
        automaton = self.automaton
        if origin is None:
            state, unders = self.state[node], self.below[node]
            if len(unders) != 1:
                return None
            under = unders[0]
        else:
            state, under = automaton.target(self.state[node], origin), node
            if state < 0:
                return Advanced()
        # Reductions may go on for ever: the stack is what it was a while ago, or it grows from a state to the same state.
        known, marked, mark, floor = (-1, BASE), 1, -1, 0
        for count in range(_MOST_REDUCTIONS):
            if count == marked:
                known, marked, mark, floor = (state, under), 2 * marked, state, self._height_of(under) + 1
            here = automaton.states[state]
            found = here.choices.get(terminal)
            if found is None:
                found = here.choices[terminal] = automaton.choice(here, terminal)
            length, completed = found
            if length == SHIFT:
                return Advanced([self.node(automaton.target(state, ~terminal), (self.node(state, (under,)),))])
            if length == ERROR:
                return Advanced()
            if length == UNDECIDED or completed == automaton.goal:
                return None
            if length == 0:
                under = self.node(state, (under,))
            for left in range(length - 1, -1, -1):
                if under == BASE:
                    return Advanced([], frozenset(((completed, left),)))
                if left:
                    unders = self.below[under]
                    if len(unders) != 1:
                        return None
                    under = unders[0]
            state = automaton.target(self.state[under], completed)
            height = self.height[under]
            if (state, under) == known or (height >= floor and state == mark):
                return Advanced()
            if height < floor:
                mark, floor = state, height + 1
            if state < 0:
                return Advanced()
        return None

    def _height_of(self, node: int) -> int:
        return 0 if node == BASE else self.height[node]

    def attached(self, node: int, base: int) -> int:
        """`node` with its graph standing on `base`."""
        if node == BASE:
            return base
        found = self._attached.get((node, base))
        if found is not None:
            return found
        waiting = [node]
        while waiting:
            one = waiting[-1]
            if (one, base) in self._attached:
                waiting.pop()
                continue
            missing = [under for under in self.below[one] if under != BASE and (under, base) not in self._attached]
            if missing:
                waiting += missing
                continue
            unders = [base if under == BASE else self._attached[under, base] for under in self.below[one]]
            self._attached[one, base] = self.node(self.state[one], unders)
            waiting.pop()
        return self._attached[node, base]

    def cut(self, node: int, at: int) -> int:
        """`node` with `BASE` in place of `at`, through which all its stacks go."""
        if node == at:
            return BASE
        found = self._cuts.get((node, at))
        if found is not None:
            return found
        waiting = [node]
        while waiting:
            one = waiting[-1]
            if (one, at) in self._cuts:
                waiting.pop()
                continue
            missing = [under for under in self.below[one] if under != at and (under, at) not in self._cuts]
            if missing:
                waiting += missing
                continue
            unders = [BASE if under == at else self._cuts[under, at] for under in self.below[one]]
            self._cuts[one, at] = self.node(self.state[one], unders)
            waiting.pop()
        return self._cuts[node, at]

    def has_base(self, node: int) -> bool:
        """Whether the graph of `node` stands on `BASE`, not on the start."""
        while node != BASE:
            if not self.below[node]:
                return False
            node = self.below[node][0]
        return True

    def joint(self, nodes: Iterable[int]) -> int:
        """The nearest node below all of `nodes` through which all their stacks go; `BASE` if there is none."""
        frontier = {under for node in nodes for under in self.below[node]}
        if any(not self.below[node] for node in nodes):
            return BASE
        while len(frontier) > 1:
            if BASE in frontier:
                return BASE
            highest = max(frontier, key=lambda node: self.height[node])
            frontier.discard(highest)
            if not self.below[highest]:
                return BASE
            frontier.update(self.below[highest])
        return frontier.pop()

    def chain(self, node: int) -> tuple[int, ...]:
        """The graph of `node` cut at every joint: the pieces from the bottom to the top, each standing on the one before."""
        if node == BASE:
            return ()
        found = self._chains.get(node)
        if found is None:
            pieces: list[int] = []
            one = node
            while one != BASE:
                unders = self.below[one]
                if len(unders) == 1:
                    (below,) = unders
                    pieces.append(one if below == BASE else self.node(self.state[one], _ON_BASE))
                else:
                    below = self.joint((one,)) if unders else BASE
                    pieces.append(one if below == BASE else self.cut(one, below))
                one = below
            found = self._chains[node] = tuple(reversed(pieces))
        return found
