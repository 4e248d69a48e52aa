"""What a set of hypotheses comes to when the terminals that end there are taken."""

from __future__ import annotations

from collections.abc import Iterable

from constrained.automata.context_free.hypotheses import Ended, Finish, Hypothesis, Terminated
from constrained.automata.context_free.parser import Parser
from grammars.context_free.layout import Blocks, column_of
from grammars.context_free.scans import BREAK_BEGINS, BREAK_READ, Scan
from grammars.regular import ALL, NONE, Rx, intersect

Waiting = dict[Terminated, tuple[set[int], set[tuple[int, int]]]]
"""Terminals to be read: the nodes that read them, and nonterminals that have been completed before on other nodes."""


class Closing:
    """The closing of one set of hypotheses.

    Attributes:
        found: hypotheses with nothing left to take.
        below: terminals whose reductions go on below the graphs at hand.
    """

    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._stacks = parser.stacks
        self._lexer = parser.lexer
        self._states = parser.automaton.states
        self._waiting: Waiting = {}
        self._fresh: list[Hypothesis] = []
        self.found: set[Hypothesis] = set()
        self.below: set[Ended] = set()

    def close(self, hypotheses: Iterable[Hypothesis], ended: Iterable[tuple[Ended, int]] = ()) -> None:
        """Take every terminal that ends with the hypotheses.

        A single hypothesis that only a line break has made is left as it is: what ends with it is decided later.

        Args:
            ended: terminals that have ended, with the node that they stand on.
        """
        for hypothesis in hypotheses:
            self._take(hypothesis)
        for one, node in ended:
            self._reduce(one, node)
        while True:
            while self._waiting:
                self._read_next()
            fresh, self._fresh = self._fresh, []
            lazy = len(fresh) == 1 and not self.found and not self.below and fresh[0].rest is ALL
            if lazy and self._parser.separation is not None:
                self.found.update(fresh)
                return
            if not fresh:
                return
            for hypothesis in fresh:
                self._take(hypothesis)

    def finish(self, nodes: Iterable[int], ended: Iterable[tuple[Ended, int]] = ()) -> Finish:
        """What the end of the text comes to: open blocks are closed, and then the parser has to accept."""
        result = Finish()
        for node in nodes:
            self._wait(self._at_end_of(node))[0].add(node)
        for one, node in ended:
            self._reduce(one, node)
        while self._waiting:
            last, (tops, reduced) = self._waiting.popitem()
            made = self._stacks.advance(last.terminal, tops, reduced)
            self.below.update(Ended(last, pending) for pending in made.pending)
            result.accepted |= made.accepted
            result.below |= made.below
            for top in made.tops:
                self._wait(self._at_end_of(top))[0].add(top)
        result.ended = frozenset(self.below)
        return result

    def _read_next(self) -> None:
        last, (nodes, reduced) = self._waiting.popitem()
        opens = (last.blocks, last.column) if last.terminal == self._parser.indent else None
        made = self._stacks.advance(last.terminal, nodes, reduced, opens)
        self.below.update(Ended(last, pending) for pending in made.pending)
        for top in made.tops:
            self._go_on(last, top)

    def _take(self, one: Hypothesis) -> None:
        """Add what a hypothesis comes to: what it goes on to read, and the terminals that end."""
        node, scan, rest = one
        if scan.line_break == BREAK_READ:
            self._line(node, scan, rest)
            return
        if scan.line_break == BREAK_BEGINS:
            other = self._lexer.other_than_line(scan)
            if other is not None:
                self._take(Hypothesis(node, other, rest))
            self._wait(Terminated(self._parser.newline, rest, line=scan))[0].add(node)
            return
        going_on = self._lexer.going_on(scan)
        if going_on is not None:
            self._add(node, going_on, rest)
        for cut in scan.cuts:
            left = intersect(rest, cut.rest)
            if cut.column >= 0:
                blocks = self._stacks.blocks(node)
                assert blocks is not None  # the parser read the line break in a state that knows them
                self._indent(node, left, cut.column, blocks)
            elif cut.dropped:
                self._begin(node, left)
            else:
                self._wait(Terminated(cut.terminal, left))[0].add(node)

    def _line(self, node: int, scan: Scan, rest: Rx) -> None:
        """Go on with a line break that the parser has read; not yet, where the open blocks are further below."""
        stacks = self._stacks
        blocks = stacks.blocks(node)
        if blocks is None:
            self.found.add(Hypothesis(node, self._lexer.scan(scan.key, line_break=BREAK_READ), rest))
            return
        line = self._lexer.line(scan, stacks.state[node], blocks)
        if line is not None:
            knowing = self._parser.automaton.knowing(stacks.state[node], blocks)
            self._fresh.append(Hypothesis(stacks.node(knowing, stacks.below[node]), line, rest))

    def _wait(self, last: Terminated) -> tuple[set[int], set[tuple[int, int]]]:
        return self._waiting.setdefault(last, (set(), set()))

    def _reduce(self, last: Ended, node: int) -> None:
        """Go on with a reduction that looks at `node`."""
        origin, more = last.reduction
        nodes, left = self._stacks.popped(node, more)
        if nodes:
            self._wait(last.last)[1].update((origin, base) for base in nodes)
        self.below.update(Ended(last.last, (origin, count)) for count in left)

    def _go_on(self, last: Terminated, top: int) -> None:
        """What follows a terminal that has been read."""
        if last.line is not None:
            self._line(top, last.line, last.rest)
        elif last.closes:
            self._wait(last._replace(closes=last.closes - 1))[0].add(top)
        else:
            self._begin(top, last.rest)

    def _indent(self, node: int, rest: Rx, column: int, blocks: Blocks) -> None:
        """What the indenter puts in before a line that begins at `column`, where `blocks` are open."""
        if column > column_of(blocks):
            self._wait(Terminated(self._parser.indent, rest, column, blocks))[0].add(node)
            return
        deeper = sum(block.column > column for block in blocks)
        if deeper:
            self._wait(Terminated(self._parser.dedent, rest, closes=deeper - 1))[0].add(node)
        else:
            self._begin(node, rest)

    def _at_end_of(self, node: int) -> Terminated:
        """The end of the text, or what the indenter puts in before it: a block that is open has to be closed."""
        parser = self._parser
        viable = self._states[self._stacks.state[node]].viable
        return Terminated(parser.end if viable & parser.automaton.end or parser.dedent < 0 else parser.dedent)

    def _begin(self, node: int, rest: Rx) -> None:
        """Add the hypothesis that the next terminal comes now, if what the rest has to be in lets any."""
        self._add(node, self._lexer.start(self._stacks.state[node]), rest)

    def _add(self, node: int, scan: Scan, rest: Rx) -> None:
        """Add a hypothesis, if some text goes on from it."""
        fitting = rest if rest is ALL else self._parser.fitting(scan, rest)
        if fitting is not NONE:
            self.found.add(Hypothesis(node, scan, fitting))

    def joined(self) -> list[Hypothesis]:
        """The hypotheses found, those that differ in one thing only as one."""
        found, lexer, stacks = self.found, self._lexer, self._stacks
        if len(found) < 2:
            return list(found)
        by_node: dict[tuple[int, Rx], list[Scan]] = {}
        for node, scan, rest in found:
            by_node.setdefault((node, rest), []).append(scan)
        by_scan: dict[tuple[int, Scan, Rx], list[int]] = {}
        for (node, rest), scans in by_node.items():
            whole = lexer.joined(sorted(scans, key=lambda scan: scan.number))
            for scan in scans if whole is None else [whole]:
                by_scan.setdefault((stacks.state[node], scan, rest), []).append(node)
        return [
            Hypothesis(node, scan, rest) for (_, scan, rest), nodes in by_scan.items() for node in stacks.union(nodes)
        ]
