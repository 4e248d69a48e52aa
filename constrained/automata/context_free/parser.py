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
from grammars.context_free.layout import Blocks, check_pairs, column_of
from grammars.context_free.letters import letters, split
from grammars.context_free.lr import Automaton
from grammars.context_free.nullable import nullable_symbols, without_empty_rules
from grammars.context_free.scans import BREAK_BEGINS, BREAK_READ, Cut, EveryLexer, Lexer, Scan
from grammars.context_free.stacks import Pending, Stacks
from grammars.context_free.trim import useful_rules
from grammars.errors import GrammarError
from grammars.regular import ALL, NONE, Rx, intersect, moves


class Hypothesis(NamedTuple):
    """One way to have read the text: a node of the stacks, a scan, and what the rest of the text must be in."""

    node: int
    scan: Scan
    rest: Rx


class Terminated(NamedTuple):
    """A terminal that has ended.

    Attributes:
        terminal: its number; the number after the last is the end of the text.
        rest: what the text after it must be in.
        column: of what an indenter puts in behind a line break: the column of the next line; else -1.
        blocks: of what an indenter puts in: the blocks that are open before it.
        line: of a line break that has only begun: the scan that goes on.
    """

    terminal: int
    rest: Rx = ALL
    column: int = -1
    blocks: Blocks = ()
    line: Scan | None = None


class Ended(NamedTuple):
    """A terminal that has ended and asks for a reduction further below."""

    last: Terminated
    reduction: Pending


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a frame is left with.

    Attributes:
        scan: of a frame that is a scan: what it is, if it may go on; all terminals that end with it are to be taken.
        cuts: of a frame that is a scan and does not go on: the terminals that have ended.
        hypotheses: of a frame of several hypotheses: those that stand on the node below.
        ended: terminals whose reductions go on below.
        ends: whether the text ends; then `accepts` says whether it is a sentence if the node below is the start.
    """

    scan: Scan | None = None
    cuts: tuple[Cut, ...] = ()
    hypotheses: frozenset[Hypothesis] = frozenset()
    ended: frozenset[Ended] = frozenset()
    ends: bool = False
    accepts: bool = False


@dataclass(slots=True)
class Finish:
    """What the end of the text comes to.

    Attributes:
        accepted: the text is a sentence; `below`: it is one if the node below the graph is the start.
        ended: reductions that go on below.
    """

    accepted: bool = False
    below: bool = False
    ended: frozenset[Ended] = frozenset()


AT_END = Outcome(ends=True)
"""The text ends, and nothing has been read since the last terminal."""
_FIRST_OUTCOME = 2
"""Outcomes are numbered from here; below it are those of frames of other kinds."""


Waiting = dict[Terminated, tuple[set[int], set[tuple[int, int]]]]
"""Terminals to be read: the nodes that read them, and nonterminals that have been completed before on other nodes."""


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
        self._newline = self._indent_terminal = self._dedent = -1
        if grammar.indentation is not None:
            self._newline = grammar.indentation.newline
            self._indent_terminal, self._dedent = grammar.indentation.indent, grammar.indentation.dedent
        self.lexer = self._lexer()
        self.outcomes: list[Outcome] = []
        self._numbers: dict[Hashable, int] = {}
        self._fits: dict[tuple[Scan, Rx], Rx] = {}
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
        found: set[Hypothesis] = set()
        waiting: Waiting = {}
        below: set[Ended] = set()
        for hypothesis in hypotheses:
            self._take(hypothesis, found, waiting)
        for one, node in ended:
            self._reduce(one, node, waiting, below)
        while waiting:
            last, (nodes, reduced) = waiting.popitem()
            opens = (last.blocks, last.column) if last.terminal == self._indent_terminal else None
            made = self.stacks.advance(last.terminal, nodes, reduced, opens)
            below.update(Ended(last, pending) for pending in made.pending)
            for top in made.tops:
                self._go_on(last, top, found, waiting)
        return self._joined(found), frozenset(below)

    def _take(self, one: Hypothesis, found: set[Hypothesis], waiting: Waiting) -> None:
        """Add what a hypothesis comes to: what it goes on to read, and the terminals that end."""
        lexer = self.lexer
        node, scan, rest = one
        if scan.line_break == BREAK_READ:
            self._line(node, scan, rest, found, waiting)
            return
        if scan.line_break == BREAK_BEGINS:
            other = lexer.other_than_line(scan)
            if other is not None:
                self._take(Hypothesis(node, other, rest), found, waiting)
            self._waiting(waiting, Terminated(self._newline, rest, line=scan))[0].add(node)
            return
        going_on = lexer.going_on(scan)
        if going_on is not None:
            found.add(Hypothesis(node, going_on, rest))
        for cut in scan.cuts:
            left = intersect(rest, cut.rest)
            if cut.column >= 0:
                blocks = self.stacks.blocks(node)
                assert blocks is not None  # the parser read the line break in a state that knows them
                self._indent(node, left, cut.column, blocks, found, waiting)
            elif cut.terminal in self.ignored or self._is_dropped(cut.terminal, node):
                self._add(found, node, left)
            else:
                self._waiting(waiting, Terminated(cut.terminal, left))[0].add(node)

    def _is_dropped(self, terminal: int, node: int) -> bool:
        """Whether the terminal is a line break between parentheses."""
        return terminal == self._newline and self.automaton.states[self.stacks.state[node]].enclosed

    def _line(self, node: int, scan: Scan, rest: Rx, found: set[Hypothesis], waiting: Waiting) -> None:
        """Go on with a line break that the parser has read; not yet, where the open blocks are further below."""
        blocks = self.stacks.blocks(node)
        if blocks is None:
            found.add(Hypothesis(node, self.lexer.scan(scan.key, line_break=BREAK_READ), rest))
            return
        stacks = self.stacks
        line = self.lexer.line(scan, stacks.state[node], blocks)
        if line is not None:
            knowing = stacks.node(self.automaton.knowing(stacks.state[node], blocks), stacks.below[node])
            self._take(Hypothesis(knowing, line, rest), found, waiting)

    @staticmethod
    def _waiting(waiting: Waiting, last: Terminated) -> tuple[set[int], set[tuple[int, int]]]:
        return waiting.setdefault(last, (set(), set()))

    def _reduce(self, last: Ended, node: int, waiting: Waiting, below: set[Ended]) -> None:
        """Go on with a reduction that looks at `node`."""
        origin, more = last.reduction
        nodes, left = self.stacks.popped(node, more)
        if nodes:
            self._waiting(waiting, last.last)[1].update((origin, base) for base in nodes)
        below.update(Ended(last.last, (origin, count)) for count in left)

    def _go_on(self, last: Terminated, top: int, found: set[Hypothesis], waiting: Waiting) -> None:
        """What follows a terminal that has been read."""
        if last.line is not None:
            self._line(top, last.line, last.rest, found, waiting)
        elif last.column >= 0 and last.terminal == self._dedent:
            self._indent(top, last.rest, last.column, last.blocks[:-1], found, waiting)
        else:
            self._add(found, top, last.rest)

    def _indent(
        self, node: int, rest: Rx, column: int, blocks: Blocks, found: set[Hypothesis], waiting: Waiting
    ) -> None:
        """What the indenter puts in before a line that begins at `column`, where `blocks` are open."""
        if column == column_of(blocks):
            self._add(found, node, rest)
        else:
            inserted = self._indent_terminal if column > column_of(blocks) else self._dedent
            self._waiting(waiting, Terminated(inserted, rest, column, blocks))[0].add(node)

    def finished(self, nodes: Iterable[int], ended: Iterable[tuple[Ended, int]] = ()) -> Finish:
        """What the end of the text comes to: open blocks are closed, and then the parser has to accept."""
        waiting: Waiting = {}
        below: set[Ended] = set()
        result = Finish()
        for node in nodes:
            self._waiting(waiting, self._at_end_of(node))[0].add(node)
        for one, node in ended:
            self._reduce(one, node, waiting, below)
        while waiting:
            last, (tops, reduced) = waiting.popitem()
            made = self.stacks.advance(last.terminal, tops, reduced)
            below.update(Ended(last, pending) for pending in made.pending)
            result.accepted |= made.accepted
            result.below |= made.below
            for top in made.tops:
                self._waiting(waiting, self._at_end_of(top))[0].add(top)
        result.ended = frozenset(below)
        return result

    def _at_end_of(self, node: int) -> Terminated:
        """The end of the text, or what the indenter puts in before it: a block that is open has to be closed."""
        viable = self.automaton.states[self.stacks.state[node]].viable
        return Terminated(self.end if viable & self.automaton.end or self._dedent < 0 else self._dedent)

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
