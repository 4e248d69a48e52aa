"""One context-free grammar, ready to be parsed: its automaton, its sets of stacks, its lexer, and the outcomes of its frames."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property

from constrained.automata.context_free.hypotheses import AT_END, FIRST_OUTCOME, Hypothesis, Outcome
from grammars.context_free.contextual import ContextualLexer
from grammars.context_free.finishing import FAR, Finishing
from grammars.context_free.grammar import ContextFree
from grammars.context_free.keywords import tried_terminals
from grammars.context_free.layout import check_pairs
from grammars.context_free.letters import letters, split
from grammars.context_free.lr import Automaton
from grammars.context_free.nullable import nullable_symbols, without_empty_rules
from grammars.context_free.scans import EveryLexer, Lexer, Scan
from grammars.context_free.separators import separator_of
from grammars.context_free.stacks import Advanced, Stacks
from grammars.context_free.trim import useful_rules
from grammars.errors import GrammarError
from grammars.regular import ALL, NONE, Rx, moves, shortest_length


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
        if grammar.indentation is not None:
            check_pairs(grammar)
        self.automaton = Automaton(rules, grammar.start, self.end, grammar.lalr, grammar.indentation, empty=empty)
        self.stacks = Stacks(self.automaton)
        self.ignored = grammar.ignored
        self.newline = self.indent = self.dedent = -1
        if grammar.indentation is not None:
            self.newline = grammar.indentation.newline
            self.indent, self.dedent = grammar.indentation.indent, grammar.indentation.dedent
        self.lexer = self._lexer()
        self.outcomes: list[Outcome] = []
        self._numbers: dict[Hashable, int] = {}
        self._fits: dict[tuple[Scan, Rx], Rx] = {}
        self._advanced: dict[tuple[int, int], Advanced] = {}
        self.at_end = self.outcome(AT_END)

    def _lexer(self) -> Lexer:
        grammar, automaton = self.grammar, self.automaton
        if grammar.lexing == "contextual":
            if grammar.lalr is None:
                raise GrammarError("contextual lexing needs the parse table of the grammar")
            ignored = sum(1 << number for number in grammar.ignored)
            return ContextualLexer(
                tried_terminals(grammar), automaton.states, ignored, automaton.end, grammar.indentation
            )
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
            number = self._numbers[value] = FIRST_OUTCOME + len(self.outcomes)
            self.outcomes.append(value)
        return number

    def value(self, number: int) -> Outcome:
        """The outcome of this number."""
        return self.outcomes[number - FIRST_OUTCOME]

    @cached_property
    def finishing(self) -> Finishing:
        """What stacks need at least to be finished."""
        sizes = []
        for number, one in enumerate(self.grammar.terminals):
            assert isinstance(one.language, Rx)
            languages = [one.language, *(rx for rx, _ in one.conditional)]
            lengths = [length for rx in languages if (length := shortest_length(rx)) is not None]
            inserted = number in (self.indent, self.dedent)
            sizes.append(0 if inserted else min(lengths, default=FAR))
        return Finishing(self.stacks, sizes)

    @cached_property
    def separator(self) -> str | None:
        """A text that may stand between any two terminals and keeps the lexer from taking them for another; None if none
        is known."""
        if self.grammar.lexing != "contextual":
            return ""
        return separator_of(self.grammar)

    def advanced(self, node: int, terminal: int) -> Advanced:
        """What a terminal leads to from one node, remembered."""
        found = self._advanced.get((node, terminal))
        if found is None:
            found = self._advanced[node, terminal] = self.stacks.advance(terminal, (node,))
        return found

    def first(self) -> Hypothesis:
        """Before the first character."""
        return Hypothesis(self.stacks.node(0, ()), self.lexer.start(0), ALL)

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
