"""Canonical LR(1) automata (Knuth 1965), made state by state as a parser reaches them.

A state knows exactly which terminals may come next after the stack that led to it: its lookaheads are those of this
stack, not merged with others'.  So a parser never reads a terminal that no sentence continues, whether it follows one
stack (with the actions of a given LALR table) or all of them (GLR).
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace

from grammars.context_free.cores import Core, Item, core_of
from grammars.context_free.grammar import Indentation, LalrTable, Rule
from grammars.context_free.layout import Block, Blocks
from grammars.errors import LimitExceeded

Mask = int
"""A set of terminals: bit t for terminal t; the bit after the last terminal stands for the end of the text."""

Kernel = tuple[tuple[int, Mask], ...]
"""Items with their lookaheads, sorted; an item is its rule's offset plus the place of the dot.

With an indenter, the bit after the end stands for a parenthesis that was open where the item's rule began.
"""

STATE_LIMIT = 200_000

SHIFT, ERROR, UNDECIDED = -1, -2, -3
"""In place of the length of a reduction: the terminal is read, it cannot come, there are several ways to go on."""


_NO_CORE = Core((), {}, 0, ())


@dataclass(slots=True, eq=False, repr=False)
class State:
    """A state of the automaton.

    Attributes:
        number: its number.
        kernel: its items.
        table: the state of the given table that it refines; -1 without one.
        blocks: of the state in which a block or a line has just been opened, and of the start: the blocks that are open.
        enclosed: with an indenter: whether a parenthesis is open.
        viable: the terminals that may come next, the end included.
        shifts: terminals that it reads itself.
        reductions: (rule, length, origin, lookaheads).
        stuck: whether the table takes one of the reductions on none of its lookaheads.
        choices: what it does on a terminal, as far as asked for; see `Automaton.choice`.
        targets: numbers of the states after each symbol (and with which open blocks, where one is opened), as far as made.
        core: what it shares with states of other lookaheads.
        aheads: the lookaheads of each source of the core.
    """

    number: int
    kernel: Kernel
    table: int
    blocks: Blocks | None
    enclosed: bool = False
    viable: Mask = 0
    shifts: Mask = 0
    reductions: tuple[tuple[int, int, int, Mask], ...] = ()
    stuck: bool = False
    choices: dict[int, tuple[int, int]] = field(default_factory=dict)
    targets: dict[tuple[int, Blocks | None], int] = field(default_factory=dict)
    core: Core = _NO_CORE
    aheads: tuple[Mask, ...] = ()

    def after(self, symbol: int) -> Kernel:
        """The items behind a symbol; none if the state does not go on with it."""
        aheads = self.aheads
        return tuple([(item, aheads[source]) for item, source in self.core.after.get(symbol, ())])


class Automaton:
    """The automaton of a set of rules, all of whose symbols derive texts.

    Attributes:
        states: the states made so far; number 0 is the start.
        end: the bit of the end of the text; `end_number`: its number, the one after the last terminal.
        goal: the number that stands for the whole sentence; reducing to it is accepting.
        is_tabled: whether a table says what to do where rules leave a choice: each stack goes one way.
        empty: whether the empty text is a sentence although no rule says so.
        rules: the rules that it is made of.
        items: of every item: its rule's number, the place of the dot, the symbol behind it, and the rule.
    """

    def __init__(
        self,
        rules: Sequence[tuple[int, Rule]],
        start: int,
        terminals: int,
        table: LalrTable | None = None,
        indentation: Indentation | None = None,
        *,
        empty: bool = False,
        firsts: Firsts | None = None,
    ) -> None:
        """
        Args:
            rules: the rules, each with the number by which `table` knows it.
            start: the start symbol.
            terminals: how many there are.
            table: actions to follow where rules leave a choice.
            indentation: terminals that open and close blocks and parentheses.
            empty: whether the empty text is a sentence although no rule says so.
            firsts: what `firsts` gave for the same rules.
        """
        self.end: Mask = 1 << terminals
        self.goal = -1
        self.end_number = terminals
        self._table = table
        self.is_tabled = table is not None
        self._indentation = indentation
        self._enclosed: Mask = self.end << 1
        self.empty = empty
        self.rules = [rule for _, rule in rules]
        self.items: list[Item] = []
        self._starts: dict[int, list[int]] = {}
        for name, rule in (*rules, (-1, Rule(self.goal, (start,)))):
            self._starts.setdefault(rule.origin, []).append(len(self.items))
            self.items += [(name, dot, symbol, rule) for dot, symbol in enumerate((*rule.symbols, 0))]
        self._first, self._nullable = first_terminals([rule for _, rule in rules]) if firsts is None else firsts
        self._tails: list[tuple[Mask, bool] | None] = [None] * len(self.items)
        self._cores: dict[tuple[int, tuple[int, ...]], Core] = {}
        self.states: list[State] = []
        self._open = [False] * len(self.items)
        if indentation is not None:
            self._open = [self._is_open(rule.symbols[:dot]) for _, dot, _, rule in self.items]
        self._numbers: dict[tuple[int, Kernel, Blocks | None], int] = {}
        first = self._starts[self.goal][0]
        self._state(((first, self.end),), -1 if table is None else table.start, ())

    def target(self, state: int, symbol: int, blocks: Blocks | None = None) -> int:
        """The state after `symbol`; -1 if `state` does not go on with it.

        Args:
            blocks: of a symbol that opens a block: the blocks that are open then.
        """
        here = self.states[state]
        found = here.targets.get((symbol, blocks))
        if found is None:
            kernel = here.after(symbol)
            found = self._state(kernel, self._table_target(here.table, symbol), blocks) if kernel else -1
            here.targets[symbol, blocks] = found
        return found

    @staticmethod
    def choice(state: State, terminal: int) -> tuple[int, int]:
        """What a state does on a terminal: (length of a reduction, nonterminal), or one of `SHIFT`, `ERROR`, `UNDECIDED`."""
        bit = 1 << terminal
        found = [(length, origin) for _, length, origin, ahead in state.reductions if ahead & bit]
        if state.shifts & bit:
            found.append((SHIFT, 0))
        if len(found) > 1:
            return (UNDECIDED, 0)
        return found[0] if found else (ERROR, 0)

    def symbols(self, state: int) -> list[int]:
        """The symbols that a state goes on with."""
        return list(self.states[state].core.after)

    def starts(self, origin: int) -> Sequence[int]:
        """The items of a nonterminal's rules with the dot in front."""
        return self._starts.get(origin, ())

    def completed(self, state: int) -> list[int]:
        """The nonterminals that may be completed on top of a state."""
        return [symbol for symbol in self.states[state].core.after if symbol >= 0]

    def knowing(self, state: int, blocks: Blocks) -> int:
        """The state that is like `state` and knows the blocks that are open."""
        here = self.states[state]
        number = self._numbers.get((here.table, here.kernel, blocks))
        if number is None:
            number = len(self.states)
            self._numbers[here.table, here.kernel, blocks] = number
            self.states.append(replace(here, number=number, blocks=blocks))
        return number

    def opened(self, state: int, outer: Blocks, column: int) -> Blocks:
        """The blocks that are open when `state` opens one at `column`."""
        assert self._indentation is not None
        indent, dedent = ~self._indentation.indent, ~self._indentation.dedent
        mask = 0
        for item, ahead in self.states[state].after(indent):
            _, dot, _, rule = self.items[item]
            open_ = 1
            for place in range(dot, len(rule.symbols)):
                open_ += rule.symbols[place] == indent
                open_ -= rule.symbols[place] == dedent
                if not open_:
                    first, empty = self._first_of(rule.symbols[place + 1 :])
                    mask |= first | ahead & ~self._enclosed if empty else first
                    break
        return (*outer, Block(column, mask))

    def _is_open(self, symbols: Sequence[int]) -> bool:
        """Whether more parentheses open than close."""
        if self._indentation is None:
            return False
        opening, closing = self._indentation.open_parens, self._indentation.close_parens
        return sum((~one in opening) - (~one in closing) for one in symbols if one < 0) > 0

    def _state(self, kernel: Kernel, table: int, blocks: Blocks | None) -> int:
        number = self._numbers.get((table, kernel, blocks))
        if number is None:
            number = len(self.states)
            if number >= STATE_LIMIT:
                raise LimitExceeded(f"the grammar needs more than {STATE_LIMIT} states of its LR(1) automaton")
            self._numbers[table, kernel, blocks] = number
            made = State(number, kernel, table, blocks)
            made.enclosed = any(ahead & self._enclosed or self._open[item] for item, ahead in kernel)
            self.states.append(made)
            self._close(made)
        return number

    def _close(self, state: State) -> None:
        """Lookaheads of the closure, then what the state does; where there is a table, only what the table does."""
        key = (state.table, tuple([item for item, _ in state.kernel]))
        core = self._cores.get(key)
        if core is None:
            actions = None if self._table is None else self._table.actions[state.table]
            core = core_of(key[1], self.items, self._starts, self._tail, actions, self.end_number)
            self._cores[key] = core
        aheads = [ahead for _, ahead in state.kernel]
        enclosed = self._enclosed if state.enclosed else 0
        for mask, places in core.follow:
            for place in places:
                mask |= state.kernel[place][1]
            aheads.append(mask & ~self._enclosed | enclosed)
        state.core, state.aheads = core, tuple(aheads)
        reductions = []
        viable = core.shifts
        for name, length, origin, source, taken in core.reductions:
            wanted = aheads[source] & ~self._enclosed
            ahead = wanted & taken
            if ahead:
                reductions.append((name, length, origin, ahead))
                viable |= ahead
            elif wanted:
                state.stuck = True
        if self.empty and state.number == 0:
            reductions.append((-1, 0, self.goal, self.end))
            viable |= self.end
        state.shifts, state.reductions, state.viable = core.shifts, tuple(reductions), viable

    def _table_target(self, table: int, symbol: int) -> int:
        if self._table is None:
            return -1
        return self._table.gotos[table][symbol] if symbol >= 0 else self._table.actions[table][~symbol][1]

    def _tail(self, item: int) -> tuple[Mask, bool]:
        """What may follow the symbol behind the dot within the rule, and whether nothing may."""
        found = self._tails[item]
        if found is None:
            _, dot, _, rule = self.items[item]
            found = self._tails[item] = self._first_of(rule.symbols[dot + 1 :])
        return found

    def _first_of(self, symbols: Sequence[int]) -> tuple[Mask, bool]:
        return _first_of(symbols, self._first, self._nullable)


Firsts = tuple[dict[int, Mask], frozenset[int]]
"""The terminals that the texts of each nonterminal may begin with, and the nonterminals that derive the empty text."""


def first_terminals(rules: Sequence[Rule]) -> Firsts:
    """FIRST sets and nullable nonterminals (Aho, Lam, Sethi and Ullman, section 4.4)."""
    firsts: dict[int, Mask] = {}
    nullable: set[int] = set()
    changed = True
    while changed:
        changed = False
        for rule in rules:
            first, empty = _first_of(rule.symbols, firsts, nullable)
            if first & ~firsts.get(rule.origin, 0):
                firsts[rule.origin] = firsts.get(rule.origin, 0) | first
                changed = True
            if empty and rule.origin not in nullable:
                nullable.add(rule.origin)
                changed = True
    return firsts, frozenset(nullable)


def _first_of(symbols: Sequence[int], firsts: dict[int, Mask], nullable: Set[int]) -> tuple[Mask, bool]:
    """The terminals that a text of `symbols` may begin with, and whether it may be empty."""
    first = 0
    for symbol in symbols:
        if symbol < 0:
            return first | 1 << ~symbol, False
        first |= firsts.get(symbol, 0)
        if symbol not in nullable:
            return first, False
    return first, True
