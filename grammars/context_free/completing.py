"""Whether stacks of a grammar, a scan and a condition on the rest of the text have a completion: decided, not searched for.

Conditions on the rest form a deterministic automaton (a terminal that is read moves on in it, one that ends under a
condition meets it with its own).  What a symbol does to a condition is the least fixpoint of the rules, as in the product
of a grammar with an automaton (Bar-Hillel, Perles and Shamir 1961), made for those conditions that are asked for; what the
stacks still have to read is then followed from their tops to the start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from grammars.context_free.letters import Letters, letters, split
from grammars.context_free.lr import Automaton
from grammars.context_free.scans import Entry, EveryLexer, Scan, not_longer
from grammars.context_free.stacks import Stacks
from grammars.effort import spend
from grammars.errors import LimitExceeded
from grammars.regular import ALL, EPSILON, NONE, Rx, intersect, is_empty, moves

MOST_KNOWN = 200_000
"""Conditions behind symbols that are kept of one grammar."""

_NOTHING = -2
"""In place of the nonterminal that has been completed on a node: nothing has been read on it."""

Tail = tuple[int, Rx]
"""An item of the automaton, of which what is behind the dot is still to be read, under a condition."""


class Completing:
    """What completes the stacks of one grammar whose terminals are cut in every way."""

    def __init__(
        self, automaton: Automaton, stacks: Stacks, lexer: EveryLexer, enters: Callable[[int, Rx], bool]
    ) -> None:
        """
        Args:
            enters: whether a terminal that is a grammar of its own may be read under a condition.
        """
        self._automaton = automaton
        self._stacks = stacks
        self._lexer = lexer
        self._enters = enters
        self._ends: dict[Tail, set[Rx]] = {}
        self._users: dict[Tail, set[tuple[Tail, int]]] = {}
        self._fresh: list[tuple[Tail, Rx]] = []
        self._size = 0
        self._words: dict[tuple[Rx, Rx], tuple[tuple[Rx, Rx], ...]] = {}
        self._read: dict[tuple[int, Rx], frozenset[Rx]] = {}
        self._skipped: dict[Rx, frozenset[Rx]] = {}
        self._entries: dict[int, list[Entry]] = {}
        for entry in lexer.entries():
            self._entries.setdefault(-1 if entry[3] else entry[0], []).append(entry)
        self._live: dict[tuple[int, int, Rx], bool] = {}

    def lives(self, node: int, scan: Scan, rest: Rx) -> bool:
        """Whether some text completes these stacks, where `scan` is being read and the text must be in `rest`.

        Raises:
            LimitExceeded: there are too many conditions.
        """
        for terminal, dropped, left in self._behind(scan, rest):
            tops = [node] if dropped else self._stacks.advance(terminal, (node,)).tops
            if any(self._goes_on(top, left) for top in tops):
                return True
        return scan.may_end and rest.nullable and self._stacks.advance(self._automaton.end_number, (node,)).accepted

    # --- terminals --------------------------------------------------------------------------------------------------------

    def _behind(self, scan: Scan, rest: Rx) -> Iterator[tuple[int, bool, Rx]]:
        """The terminals that a scan may become: (number, dropped, condition on what follows)."""
        for cut in scan.cuts:
            yield from ((cut.terminal, cut.dropped, one) for one in _met(rest, cut.rest))
        entries: frozenset[Entry] = scan.key[0] if scan.key else frozenset()  # type: ignore[assignment]
        for entry in entries:
            yield from ((entry[0], entry[3], one) for one in self._taken(entry, rest))
        for number in scan.embedded:
            if self._enters(number, rest):
                yield number, False, ALL

    def _taken(self, entry: Entry, rest: Rx) -> set[Rx]:
        """The conditions behind a terminal that is read to its end, at least one character more."""
        _, rx, own, dropped = entry
        if rest is ALL and not dropped:
            return {own} if rx is not EPSILON else set()
        found: set[Rx] = set()
        for to, left in self._words_of(rx, rest):
            found.update(_met(left, not_longer(to) if dropped and own is ALL else own))
        return found

    def _words_of(self, rx: Rx, rest: Rx) -> tuple[tuple[Rx, Rx], ...]:
        """What is left of `rx` and of `rest` behind the words of `rx` that begin texts of `rest`."""
        known = self._words.get((rx, rest))
        if known is None:
            seen = {(rx, rest)}
            queue = [(rx, rest)]
            ends: dict[tuple[Rx, Rx], None] = {}
            while queue:
                spend()
                one, left = queue.pop()
                for to, after in _joint(one, left):
                    if to.nullable:
                        ends[to, after] = None
                    if (to, after) not in seen and to is not EPSILON:
                        seen.add((to, after))
                        queue.append((to, after))
                        self._count()
            known = self._words[rx, rest] = tuple(ends)
        return known

    def _skips(self, rest: Rx) -> frozenset[Rx]:
        """The conditions behind any number of ignored terminals."""
        known = self._skipped.get(rest)
        if known is None:
            seen = {rest}
            queue = [rest]
            while queue:
                one = queue.pop()
                for entry in self._entries.get(-1, ()):
                    fresh = self._taken(entry, one) - seen
                    seen |= fresh
                    queue += fresh
            known = self._skipped[rest] = frozenset(seen)
        return known

    def _reads(self, terminal: int, rest: Rx) -> frozenset[Rx]:
        """The conditions behind a terminal and the ignored ones before it."""
        known = self._read.get((terminal, rest))
        if known is None:
            found: set[Rx] = set()
            for before in self._skips(rest):
                for entry in self._entries.get(terminal, ()):
                    found |= self._taken(entry, before)
                if self._lexer.is_embedded(terminal) and self._enters(terminal, before):
                    found.add(ALL)
            known = self._read[terminal, rest] = frozenset(found)
        return known

    # --- rules ------------------------------------------------------------------------------------------------------------

    def _behind_tail(self, item: int, rest: Rx) -> frozenset[Rx]:
        """The conditions behind what follows the dot of an item."""
        known = self._ends.get((item, rest))
        if known is None:
            self._ask((item, rest))
            while self._fresh:
                spend()
                tail, end = self._fresh.pop()
                for user, further in list(self._users.get(tail, ())):
                    self._pass(user, further, end)
            known = self._ends[item, rest]
        return frozenset(known)

    def _ask(self, tail: Tail) -> None:
        """Put a tail, and all that it needs, among those that the fixpoint knows."""
        waiting = [tail]
        while waiting:
            one = waiting.pop()
            if one in self._ends:
                continue
            self._ends[one] = set()
            self._count()
            item, rest = one
            _, dot, symbol, rule = self._automaton.items[item]
            if dot == len(rule.symbols):
                self._add(one, rest)
            elif symbol < 0:
                for end in self._reads(~symbol, rest):
                    self._use((item + 1, end), one, -1, waiting)
            else:
                for start in self._automaton.starts(symbol):
                    self._use((start, rest), one, item + 1, waiting)

    def _use(self, needed: Tail, user: Tail, further: int, waiting: list[Tail]) -> None:
        """Ends of `needed` are ends of `user`, or (`further` >= 0) the conditions under which that item's tail is read."""
        users = self._users.setdefault(needed, set())
        if (user, further) not in users:
            users.add((user, further))
            if needed not in self._ends:
                waiting.append(needed)
            else:
                self._fresh += [(needed, end) for end in self._ends[needed]]

    def _pass(self, user: Tail, further: int, end: Rx) -> None:
        if further < 0:
            self._add(user, end)
            return
        waiting: list[Tail] = []
        self._use((further, end), user, -1, waiting)
        for one in waiting:
            self._ask(one)

    def _add(self, tail: Tail, end: Rx) -> None:
        if end not in self._ends[tail]:
            self._ends[tail].add(end)
            self._fresh.append((tail, end))
            self._count()

    def _count(self) -> None:
        self._size += 1
        if self._size > MOST_KNOWN:
            raise LimitExceeded(f"whether a sentence goes on takes more than {MOST_KNOWN} conditions to tell")

    # --- stacks -----------------------------------------------------------------------------------------------------------

    def _goes_on(self, node: int, rest: Rx) -> bool:
        """Whether stacks can be completed before whose next terminal the text must be in `rest`."""
        automaton, stacks = self._automaton, self._stacks
        start = (node, _NOTHING, rest)
        came: dict[tuple[int, int, Rx], tuple[int, int, Rx] | None] = {start: None}
        queue = [start]
        while queue:
            spend()
            here = queue.pop()
            on, origin, left = here
            if self._live.get(here) or self._accepts(*here):
                step: tuple[int, int, Rx] | None = here
                while step is not None:
                    self._live[step] = True
                    step = came[step]
                return True
            if origin == automaton.goal or here in self._live:
                continue
            state = stacks.state[on] if origin == _NOTHING else automaton.target(stacks.state[on], origin)
            if state < 0:
                continue
            for item, _ in automaton.states[state].kernel:
                _, dot, _, rule = automaton.items[item]
                for end in self._behind_tail(item, left):
                    for base in stacks.popped(on, dot if origin == _NOTHING else dot - 1)[0]:
                        after = (base, rule.origin, end)
                        if after not in came:
                            came[after] = here
                            queue.append(after)
        for one in came:
            self._live[one] = False
        return False

    def _accepts(self, node: int, origin: int, rest: Rx) -> bool:
        """Whether the text may end where `origin` has been completed on a node, or before anything was read on it."""
        whole = origin == self._automaton.goal
        if origin == _NOTHING:
            whole = self._automaton.empty and self._stacks.state[node] == 0
        return whole and any(one.nullable for one in self._skips(rest))


def _met(rest: Rx, own: Rx) -> tuple[Rx, ...]:
    """Both conditions as one; nothing if no text is in both."""
    both = intersect(rest, own)
    return () if both is NONE or is_empty(both) else (both,)


def _joint(rx: Rx, rest: Rx) -> list[tuple[Rx, Rx]]:
    """What single characters leave of both, where they leave anything."""
    if rest is ALL:
        return [(to, ALL) for _, to in moves(rx)]
    items: list[tuple[Letters, tuple[bool, Rx]]] = [(letters(characters), (True, to)) for characters, to in moves(rx)]
    items += [(letters(characters), (False, to)) for characters, to in moves(rest)]
    return [(values[0][1], values[1][1]) for _, values in split(items) if len(values) == 2]
