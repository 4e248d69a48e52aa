"""One context-free grammar, ready to be parsed: its automaton, its sets of stacks, its lexer, and what they come to.

A *hypothesis* is one way to have read the text so far: the top of the stacks, what is being scanned since the last
terminal, and what the rest of the text has to be in.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from grammars.context_free.contextual import ContextualLexer
from grammars.context_free.grammar import ContextFree
from grammars.context_free.keywords import tried_terminals
from grammars.context_free.letters import letters, split
from grammars.context_free.lr import Automaton
from grammars.context_free.nullable import nullable_symbols, without_empty_rules
from grammars.context_free.scans import Cut, EveryLexer, Lexer, Scan
from grammars.context_free.stacks import BASE, Pending, Stacks
from grammars.context_free.trim import useful_rules
from grammars.errors import GrammarError
from grammars.regular import ALL, NONE, Rx, intersect, is_empty, moves


class Hypothesis(NamedTuple):
    """One way to have read the text: a node of the stacks, a scan, and what the rest of the text must be in."""

    node: int
    scan: Scan
    rest: Rx


class Ended(NamedTuple):
    """A terminal that has ended (`terminal` may be the end of the text) and asks for a reduction further below."""

    terminal: int
    rest: Rx
    reduction: Pending


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a frame is left with.

    Attributes:
        going_on: of a frame that is a scan: what it goes on to read, if it may.
        cuts: and the terminals that have ended.
        hypotheses: of a frame of several hypotheses: those that stand on the node below.
        ended: terminals whose reductions go on below.
        accepts: the text may end as far as the frame can tell.
    """

    going_on: Scan | None = None
    cuts: tuple[Cut, ...] = ()
    hypotheses: frozenset[Hypothesis] = frozenset()
    ended: frozenset[Ended] = frozenset()
    accepts: bool = False


AT_END = Outcome()
"""The text ends, and nothing has been read since the last terminal."""
_FIRST_OUTCOME = 2
"""Outcomes are numbered from here; below it are those of frames of other kinds."""


class Parser:
    """What the states of one grammar share; compared by identity."""

    def __init__(self, grammar: ContextFree) -> None:
        """
        Raises:
            EmptyLanguage: the grammar has no sentence.
            LimitExceeded: its automaton is too large.
        """
        self.grammar = grammar
        self.end = len(grammar.terminals)
        useful = useful_rules(grammar)
        rules = [(number, grammar.rules[number]) for number in useful]
        empty = False
        if grammar.lexing != "contextual":
            plain = [rule for _, rule in rules]
            empty = grammar.start in nullable_symbols(plain)
            rules = list(enumerate(without_empty_rules(plain, len(grammar.nonterminals))[0]))
        self.automaton = Automaton(rules, grammar.start, self.end, grammar.lalr, empty=empty)
        self.stacks = Stacks(self.automaton)
        self.ignored = grammar.ignored
        self.lexer = self._lexer()
        self.outcomes: list[Outcome] = []
        self._numbers: dict[Hashable, int] = {}
        self._fits: dict[tuple[Scan, Rx], Rx] = {}
        self.at_end = self.outcome(AT_END)
        self.accepts = self.outcome(Outcome(accepts=True))

    def _lexer(self) -> Lexer:
        grammar, automaton = self.grammar, self.automaton
        if grammar.lexing == "contextual":
            if grammar.lalr is None:
                raise GrammarError("contextual lexing needs the parse table of the grammar")
            ignored = sum(1 << number for number in grammar.ignored)
            return ContextualLexer(tried_terminals(grammar), automaton.states, ignored, automaton.end)
        entries = []
        for number, one in enumerate(grammar.terminals):
            assert isinstance(one.language, Rx)
            own = [(number, one.language, ALL)] if one.language is not NONE else []
            entries.append((*own, *[(number, rx, rests) for rx, rests in one.conditional]))
        ignored_terminals = grammar.ignored if grammar.lexing == "every" else frozenset[int]()
        return EveryLexer(entries, ignored_terminals, automaton)

    def outcome(self, value: Outcome) -> int:
        """The number of an outcome."""
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = _FIRST_OUTCOME + len(self.outcomes)
            self.outcomes.append(value)
        return number

    def value(self, number: int) -> Outcome:
        """The outcome of this number."""
        return self.outcomes[number - _FIRST_OUTCOME]

    def first(self) -> Hypothesis:
        """Before the first character."""
        return Hypothesis(self.stacks.node(0, ()), self.lexer.start(0), ALL)

    def closed(
        self, hypotheses: Iterable[Hypothesis], ended: Iterable[tuple[Ended, int]] = ()
    ) -> tuple[frozenset[Hypothesis], frozenset[Ended]]:
        """The hypotheses with every terminal that ends here taken, and those whose reductions go on below.

        Args:
            ended: terminals that have ended, with the node that they stand on.
        """
        stacks, lexer = self.stacks, self.lexer
        found: set[Hypothesis] = set()
        below: set[Ended] = set()
        tops: dict[tuple[int, Rx], set[int]] = {}
        reduced: dict[tuple[int, Rx], set[tuple[int, int]]] = {}
        for one in hypotheses:
            if not one.scan.cuts:
                found.add(one)
                continue
            going_on = lexer.going_on(one.scan)
            if going_on is not None:
                found.add(Hypothesis(one.node, going_on, one.rest))
            for cut in one.scan.cuts:
                rest = intersect(one.rest, cut.rest)
                if cut.terminal in self.ignored:
                    self._add(found, one.node, rest)
                else:
                    tops.setdefault((cut.terminal, rest), set()).add(one.node)
        for last, node in ended:
            origin, more = last.reduction
            nodes, left = stacks.popped(node, more)
            reduced.setdefault((last.terminal, last.rest), set()).update((origin, base) for base in nodes)
            below.update(Ended(last.terminal, last.rest, (origin, count)) for count in left)
        for terminal, rest in {**tops, **reduced}:
            made = stacks.advance(terminal, tops.get((terminal, rest), ()), reduced.get((terminal, rest), ()))
            below.update(Ended(terminal, rest, one) for one in made.pending)
            for top in made.tops:
                self._add(found, top, rest)
        return self._joined(found), frozenset(below)

    def _add(self, found: set[Hypothesis], node: int, rest: Rx) -> None:
        """Add the hypothesis that the next terminal comes now, if what the rest has to be in lets any."""
        scan = self.lexer.start(self.stacks.state[node])
        fitting = rest if rest is ALL else self.fitting(scan, rest)
        if fitting is not NONE:
            found.add(Hypothesis(node, scan, fitting))

    def fitting(self, scan: Scan, rest: Rx) -> Rx:
        """`rest`, or ALL where it forbids nothing that the scan can read, or NONE where it forbids everything."""
        known = self._fits.get((scan, rest))
        if known is None:
            free, some = True, False
            after = [(letters(characters), to) for characters, to in moves(rest)]
            items = [((bits, wide), (True, ALL)) for (bits, wide), _ in self.lexer.moves(scan)]
            items += [(one, (False, to)) for one, to in after]
            for _, values in split(items):
                if values[0][0]:
                    some |= len(values) > 1
                    free &= len(values) > 1 and values[1][1] is ALL
            if scan.may_end:
                some |= rest.nullable
                free &= rest.nullable
            known = self._fits[scan, rest] = NONE if not some else ALL if free else rest
        return known

    def _joined(self, found: set[Hypothesis]) -> frozenset[Hypothesis]:
        """Hypotheses that differ in one thing only as one."""
        if len(found) < 2:
            return frozenset(found)
        by_node: dict[tuple[int, Rx], list[Scan]] = {}
        for node, scan, rest in found:
            by_node.setdefault((node, rest), []).append(scan)
        by_scan: dict[tuple[int, Scan, Rx], list[int]] = {}
        for (node, rest), scans in by_node.items():
            whole = self.lexer.joined(sorted(scans, key=lambda scan: scan.number))
            for scan in scans if whole is None else [whole]:
                by_scan.setdefault((self.stacks.state[node], scan, rest), []).append(node)
        return frozenset(
            Hypothesis(node, scan, rest)
            for (_, scan, rest), nodes in by_scan.items()
            for node in self.stacks.union(nodes)
        )


__all__ = ["BASE", "Ended", "Hypothesis", "Outcome", "Parser", "is_empty"]
