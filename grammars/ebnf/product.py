"""The sentences of a context-free grammar that are in a regular language too (Bar-Hillel, Perles and Shamir 1961).

A symbol becomes one for each pair of states of the regular language's automaton between which its texts lead.  Only
pairs that some sentence uses get rules, so what was prefix-live stays so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

from grammars.context_free import ContextFree, Embedded, Rule, Terminal
from grammars.errors import LimitExceeded
from grammars.regular import NONE, Rx, intersect, moves
from grammars.regular.charset import meet
from grammars.regular.unfold import Unfolding, unfold

STATE_LIMIT = 50_000
"""Pairs of a state of a terminal and a state of the regular language."""

RULE_LIMIT = 200_000
"""Productions of the product."""


@dataclass(frozen=True, slots=True)
class Between(Unfolding):
    """The texts that lead from a state of an automaton to another; states are languages, steps their derivatives."""

    live: ClassVar[bool] = False

    state: Rx
    target: Rx

    @property
    def nullable(self) -> bool:
        """Whether the target is reached."""
        return self.state is self.target

    @property
    def order(self) -> int:
        """A structural hash, the same in every process."""
        return hash((4, self.state.order, self.target.order))

    def moves(self) -> Iterable[tuple[int, int, Rx]]:
        """The moves by ranges of code points."""
        return [(lo, hi, target) for chars, target in self.set_moves() for lo, hi in chars.a]

    def set_moves(self) -> list[tuple[Rx, Rx]]:
        """Disjoint sets of characters, each with the language that follows."""
        return [(chars, unfold(Between(state, self.target))) for chars, state in moves(self.state)]


class _Product:
    def __init__(self, grammar: ContextFree) -> None:
        self.grammar = grammar
        self.options: dict[int, list[tuple[tuple[int, ...], int | None]]] = {}
        for rule in grammar.rules:
            self.options.setdefault(rule.origin, []).append((rule.symbols, rule.line))
        self.ends: dict[tuple[int, Rx], set[Rx]] = {}
        self.numbers: dict[tuple[tuple[int, ...], Rx, Rx], int] = {}
        self.names: list[str] = []
        self.terminals: dict[Terminal, int] = {}
        self.rules: dict[tuple[int, tuple[int, ...]], Rule] = {}
        self.waiting: list[tuple[tuple[int, ...], Rx, Rx]] = []

    def made(self, condition: Rx) -> ContextFree:
        """The product for the texts of a language."""
        start = (self.grammar.start,)
        self._close(start[0], condition)
        first = self._number((), NONE, NONE, "start")
        for end in sorted(self._after(start, condition), key=lambda one: one.serial):
            if end.nullable:
                self._produce(first, (self._symbol(start[0], condition, end),), None)
        while self.waiting:
            self._define(*self.waiting.pop())
        return ContextFree(tuple(self.names), tuple(self.terminals), tuple(self.rules.values()), first)

    # --- from which state to which the texts of a symbol lead -------------------------------------------------------------

    def _close(self, start: int, condition: Rx) -> None:
        """Fill `ends` for all that a sentence may need: the least fixpoint."""
        self.ends[start, condition] = set()
        changed = True
        while changed:
            before = len(self.ends), sum(map(len, self.ends.values()))
            for symbol, state in list(self.ends):
                if symbol >= 0:
                    for symbols, _ in self.options.get(symbol, ()):
                        self.ends[symbol, state] |= self._after(symbols, state)
            changed = before != (len(self.ends), sum(map(len, self.ends.values())))

    def _after(self, symbols: tuple[int, ...], state: Rx) -> set[Rx]:
        states = {state}
        for symbol in symbols:
            following: set[Rx] = set()
            for one in states:
                if (symbol, one) not in self.ends:
                    self.ends[symbol, one] = _read(self.grammar.terminals[~symbol], one) if symbol < 0 else set()
                following |= self.ends[symbol, one]
            states = following
        return states

    # --- rules ----------------------------------------------------------------------------------------------------------

    def _number(self, symbols: tuple[int, ...], state: Rx, end: Rx, name: str) -> int:
        key = (symbols, state, end)
        if key not in self.numbers:
            self.numbers[key] = len(self.names)
            self.names.append(name)
            if symbols:
                self.waiting.append(key)
        return self.numbers[key]

    def _symbol(self, symbol: int, state: Rx, end: Rx) -> int:
        if symbol >= 0:
            return self._number((symbol,), state, end, self.grammar.nonterminals[symbol])
        terminal = self.grammar.terminals[~symbol]
        if isinstance(terminal.language, Rx):
            between = unfold(Between(state, end))
            terminal = replace(terminal, language=intersect(terminal.language, between))
        return ~self.terminals.setdefault(terminal, len(self.terminals))

    def _produce(self, origin: int, symbols: tuple[int, ...], line: int | None) -> None:
        self.rules.setdefault((origin, symbols), Rule(origin, symbols, line))
        if len(self.rules) > RULE_LIMIT:
            raise LimitExceeded(f"the grammar and the phrases need more than {RULE_LIMIT} rules together")

    def _define(self, symbols: tuple[int, ...], state: Rx, end: Rx) -> None:
        """Rules of a nonterminal, or of the rest of a rule, between two states."""
        origin = self.numbers[symbols, state, end]
        if len(symbols) > 1:
            self._split(origin, symbols, state, end, None)
            return
        for option, line in self.options.get(symbols[0], ()):
            if not option:
                if state is end:
                    self._produce(origin, (), line)
            else:
                self._split(origin, option, state, end, line)

    def _split(self, origin: int, symbols: tuple[int, ...], state: Rx, end: Rx, line: int | None) -> None:
        first, rest = symbols[0], symbols[1:]
        for middle in sorted(self.ends.get((first, state), ()), key=lambda one: one.serial):
            if not rest:
                if middle is end:
                    self._produce(origin, (self._symbol(first, state, end),), line)
            elif end in self._after(rest, middle):
                name = "rest of " + self.names[origin].removeprefix("rest of ")
                tail = self._symbol(rest[0], middle, end) if len(rest) == 1 else self._number(rest, middle, end, name)
                self._produce(origin, (self._symbol(first, state, middle), tail), line)


def _read(terminal: Terminal, state: Rx) -> set[Rx]:
    """The states that the texts of a terminal lead to."""
    if not isinstance(terminal.language, Rx):
        return {state}
    ends: set[Rx] = set()
    seen = {(terminal.language, state)}
    stack = list(seen)
    while stack:
        language, here = stack.pop()
        for chars, rest in moves(language):
            for others, after in moves(here):
                if meet(chars, others) is not NONE and (rest, after) not in seen:
                    seen.add((rest, after))
                    stack.append((rest, after))
                    if rest.nullable:
                        ends.add(after)
                    if len(seen) > STATE_LIMIT:
                        raise LimitExceeded(
                            f"a terminal of the grammar and the phrases have more than {STATE_LIMIT} states together"
                        )
    return ends


def has_product(grammar: ContextFree) -> bool:
    """Whether `product` can be made: no terminal is a grammar itself or looks ahead, none is ignored, lexing is not contextual."""
    plain = all(not isinstance(one.language, Embedded) and not one.conditional for one in grammar.terminals)
    return plain and grammar.lexing != "contextual" and not grammar.ignored


def product(grammar: ContextFree, condition: Rx) -> ContextFree:
    """The grammar of the sentences that are in a regular language; special tokens count as no text.

    Args:
        grammar: one that `has_product`.

    Raises:
        LimitExceeded: the product is too large.
    """
    return _Product(grammar).made(condition)
