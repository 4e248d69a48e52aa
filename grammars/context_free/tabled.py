"""What a table-driven parser makes of texts, summed up: whether its stacks have a completion, decided and not searched for.

The parser is a pushdown system with one stack.  The summary of a state, with a terminal to be read there (or with none
yet, the rest of the text under a condition), is with which reductions it may be taken off again; summaries are the least
fixpoint of the table (Finkel, Willems and Wolper 1997), made for those states that are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from grammars.context_free.contextual import ContextualLexer
from grammars.context_free.grammar import END_MARK, LalrTable
from grammars.context_free.lr import ERROR, SHIFT, UNDECIDED, Automaton
from grammars.context_free.scans import Scan
from grammars.context_free.stacks import Stacks
from grammars.effort import spend
from grammars.errors import LimitExceeded
from grammars.regular import ALL, NONE, Rx, intersect, is_empty

MOST_KNOWN = 100_000
"""Reductions in the summaries of one grammar."""
_MOST_SCANS = 50_000
"""Pairs of a scan and a condition that are looked at for one grammar."""
_MOST_STATES = 300
"""States of an automaton that are made at once to prove that each of their terminals leads to an end."""
_MOST_IN_PROOFS = 20_000

ACCEPT = -4
_LEX = -2

Left = tuple[int, Rx, int, int]
"""How a state is taken off: the terminal to be read, the condition behind it, the nonterminal that is complete, and how
many states below are taken off as well."""


class Place(NamedTuple):
    """What a summary is of.

    Attributes:
        state: the state that is taken off.
        terminal: what is to be read; `_LEX` before the next terminal is known.
        rest: what the text behind the terminal (or, before it is known, from there on) must be in.
        above: a state that stands on `state` and reads the terminal; -1 where it is `state` itself.
    """

    state: int
    terminal: int
    rest: Rx
    above: int = -1


class Actions(Protocol):
    """What the parser does in its states."""

    def action(self, state: int, terminal: int) -> tuple[int, int]:
        """(`SHIFT`, next state), (length, nonterminal) of a reduction, (`ACCEPT`, 0) or (`ERROR`, 0)."""

    def goto(self, state: int, origin: int) -> int:
        """The state after a nonterminal; -1 if there is none."""


class Summaries:
    """The summaries of one parser; None among the ways to leave stands for a sentence that has come to its end."""

    def __init__(
        self, actions: Actions, lexed: Callable[[int, Rx], Iterable[tuple[int, bool, Rx]]], most: int = MOST_KNOWN
    ) -> None:
        """
        Args:
            lexed: the terminals that may be read in a state under a condition: (number, dropped, condition behind it).
            most: ways that are kept at most.
        """
        self._most = most
        self.actions = actions
        self._lexed = lexed
        self._ways: dict[Place, set[Left | None]] = {}
        self._users: dict[Place, set[tuple[Place, bool]]] = {}
        self._fresh: list[tuple[Place, Left | None]] = []
        self._size = 0

    def of(self, place: Place) -> set[Left | None]:
        """The ways in which the state is taken off.

        Raises:
            LimitExceeded: there are too many.
        """
        if place not in self._ways:
            waiting = [place]
            while waiting or self._fresh:
                spend()
                if waiting:
                    self._expand(waiting.pop(), waiting)
                    continue
                one, way = self._fresh.pop()
                for user, stands_on in list(self._users.get(one, ())):
                    self._deliver(user, stands_on, way, waiting)
        return self._ways[place]

    def _expand(self, place: Place, waiting: list[Place]) -> None:
        if place in self._ways:
            return
        self._ways[place] = set()
        state, terminal, rest, above = place
        if above >= 0:
            self._use(Place(above, terminal, rest), place, True, waiting)
            return
        if terminal == _LEX:
            for number, dropped, left in self._lexed(state, rest):
                self._use(Place(state, _LEX if dropped else number, left), place, False, waiting)
            return
        length, what = self.actions.action(state, terminal)
        if length == SHIFT:
            self._use(Place(what, _LEX, rest), place, True, waiting)
        elif length == ACCEPT:
            self._add(place, None)
        elif length == 0:
            self._go(place, terminal, rest, what, waiting)
        elif length > 0:
            self._add(place, (terminal, rest, what, length - 1))

    def _go(self, place: Place, terminal: int, rest: Rx, origin: int, waiting: list[Place]) -> None:
        target = self.actions.goto(place.state, origin)
        if target >= 0:
            self._use(Place(target, terminal, rest), place, True, waiting)

    def _use(self, needed: Place, user: Place, stands_on: bool, waiting: list[Place]) -> None:
        users = self._users.setdefault(needed, set())
        if (user, stands_on) not in users:
            users.add((user, stands_on))
            if needed not in self._ways:
                waiting.append(needed)
            for way in list(self._ways.get(needed, ())):
                self._deliver(user, stands_on, way, waiting)

    def _deliver(self, user: Place, stands_on: bool, way: Left | None, waiting: list[Place]) -> None:
        if way is None or not stands_on:
            self._add(user, way)
            return
        terminal, rest, origin, more = way
        if more:
            self._add(user, (terminal, rest, origin, more - 1))
        else:
            self._go(user, terminal, rest, origin, waiting)

    def _add(self, place: Place, way: Left | None) -> None:
        ways = self._ways[place]
        if way not in ways:
            ways.add(way)
            self._fresh.append((place, way))
            self._size += 1
            if self._size > self._most:
                raise LimitExceeded(f"whether a sentence goes on takes more than {self._most} reductions to tell")


class _Canonical:
    """The actions of an automaton that follows a table."""

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton

    def action(self, state: int, terminal: int) -> tuple[int, int]:
        automaton = self._automaton
        length, origin = automaton.choice(automaton.states[state], terminal)
        if length == SHIFT:
            return SHIFT, automaton.target(state, ~terminal)
        if length in (ERROR, UNDECIDED):
            return ERROR, 0
        return (ACCEPT, 0) if origin == automaton.goal else (length, origin)

    def goto(self, state: int, origin: int) -> int:
        return self._automaton.target(state, origin)


def every_terminal_leads_on(automaton: Automaton) -> bool | None:
    """Whether the parser can finish a sentence (of terminals) whatever it reads of what its states offer; None: not told.

    The proof is by the height of the stack: whatever a state on top of another reads, the other is taken off sooner or
    later.  A state none of whose reductions is ever taken disproves it at once.
    """

    def viable(state: int) -> list[int]:
        mask = automaton.states[state].viable
        return [number for number in range(automaton.end_number + 1) if mask >> number & 1]

    pairs = []
    number = 0
    while number < len(automaton.states):
        if automaton.states[number].stuck:
            return False
        if number >= _MOST_STATES:
            return None
        pairs += [(number, automaton.target(number, symbol)) for symbol in automaton.symbols(number)]
        number += 1
    summaries = Summaries(
        _Canonical(automaton), lambda state, rest: [(one, False, rest) for one in viable(state)], _MOST_IN_PROOFS
    )
    try:
        return all(summaries.of(Place(0, one, ALL)) for one in viable(0)) and all(
            summaries.of(Place(number, one, ALL, target)) for number, target in pairs for one in viable(target)
        )
    except LimitExceeded:
        return None


class _Table:
    """The actions of a table."""

    def __init__(self, table: LalrTable, rules: dict[int, tuple[int, int]]) -> None:
        self._table = table
        self._rules = rules

    def action(self, state: int, terminal: int) -> tuple[int, int]:
        if terminal == END_MARK and state == self._table.end:
            return ACCEPT, 0
        found = self._table.actions[state].get(terminal)
        if found is None:
            return ERROR, 0
        what, number = found
        return (SHIFT, number) if what == "shift" else self._rules.get(number, (ERROR, 0))

    def goto(self, state: int, origin: int) -> int:
        return self._table.gotos[state].get(origin, -1)


class TableCompleting:
    """What completes the stacks of a grammar with contextual lexing."""

    def __init__(
        self, table: LalrTable, rules: dict[int, tuple[int, int]], stacks: Stacks, lexer: ContextualLexer
    ) -> None:
        """
        Args:
            rules: of every rule, by its number in the table: its length and its nonterminal.
        """
        self._table = table
        self._stacks = stacks
        self._lexer = lexer
        self._actions = _Table(table, rules)
        self._summaries = Summaries(self._actions, self._lexed)
        self._looked_at = 0

    def lives(self, node: int, scan: Scan, rest: Rx) -> bool:
        """Whether some text completes these stacks, where `scan` is being read and the text must be in `rest`.

        Raises:
            LimitExceeded: that takes too many steps to tell.
        """
        queue: list[tuple[int, Left]] = []
        seen: set[tuple[int, Left]] = set()

        def leave(on: int, way: Left) -> None:
            terminal, left, origin, more = way
            for base in self._stacks.popped(on, more)[0]:
                one = (base, (terminal, left, origin, 0))
                if one not in seen:
                    seen.add(one)
                    queue.append(one)

        top = self._table_state(node)
        for terminal, dropped, left in self._ends(scan, rest):
            for way in self._summaries.of(Place(top, _LEX if dropped else terminal, left)):
                if way is None:
                    return True
                leave(node, (*way[:3], way[3] + 1))
        while queue:
            spend()
            base, (terminal, left, origin, _) = queue.pop()
            target = self._actions.goto(self._table_state(base), origin)
            for way in self._summaries.of(Place(target, terminal, left)) if target >= 0 else ():
                if way is None:
                    return True
                leave(base, way)
        return False

    def _table_state(self, node: int) -> int:
        return self._stacks.automaton.states[self._stacks.state[node]].table

    def _lexed(self, state: int, rest: Rx) -> list[tuple[int, bool, Rx]]:
        """The terminals that may be read in a state of the table."""
        return self._ends(self._lexer.start_in(state, self._table.actions[state]), rest)

    def _ends(self, scan: Scan, rest: Rx) -> list[tuple[int, bool, Rx]]:
        """The terminals that a scan may become: (number, dropped, condition on what follows)."""
        found: dict[tuple[int, bool, Rx], None] = {}
        seen = {(scan, rest)}
        queue = [(scan, rest)]
        while queue:
            spend()
            one, left = queue.pop()
            if one.may_end and left.nullable:
                found[END_MARK, False, ALL] = None
            for cut in one.cuts:
                both = intersect(left, cut.rest)
                if both is not NONE and not is_empty(both):
                    found[cut.terminal, cut.dropped, both] = None
            for after in self._lexer.joint_moves(one, left):
                if after[1] is not NONE and after not in seen:
                    seen.add(after)
                    queue.append(after)
            self._looked_at += 1
            if self._looked_at > _MOST_SCANS:
                raise LimitExceeded(
                    f"whether a sentence goes on takes more than {_MOST_SCANS} steps of the lexer to tell"
                )
        return list(found)
