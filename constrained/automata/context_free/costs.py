"""How many tokens of one byte are enough to leave a frame of a context-free grammar: upper bounds, one for each state.

They add up over a stack: a frame's share covers whatever nonterminal the frames above it turn out to have completed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from constrained.automata.code_points import expand_continuation, expand_led, expand_rest, spelling
from constrained.automata.configurations import COSTS
from constrained.automata.context_free.embedded import embedded_start, expand_leave
from constrained.automata.context_free.hypotheses import Hypothesis, Outcome
from constrained.automata.context_free.parser import Parser
from constrained.automata.context_free.special import expand_special, tokens_left
from constrained.automata.context_free.states import (
    expand_enter,
    expand_hypotheses,
    expand_scan,
    pass_on,
    resolve_node,
    resolve_special,
)
from constrained.automata.machine import Machine
from grammars.context_free.finishing import FAR, Finishing
from grammars.context_free.scans import Cut, Scan
from grammars.regular import ALL, Rx, shortest

Spelled = Callable[[bytes], int]
"""How many tokens of one byte a text takes; far too many where a byte is none."""

_LINE = 64
"""Columns that the line after a break is taken to have at most; blocks further in are looked at one by one."""


class FrameCosts:
    """Upper bounds for the states of one machine."""

    def __init__(self, machine: Machine, spelled: Spelled, cost: Callable[[int], int]) -> None:
        """
        Args:
            cost: tokens of one byte that leave the frame of any state of the machine.
        """
        self._cost = cost
        self._machine = machine
        self._spelled = spelled
        self._finishing: dict[Parser, Finishing] = {}
        self._after: dict[tuple[Parser, int], int] = {}

    def of(self, state: int) -> int | None:
        """Tokens of one byte that leave the frame of `state`; None for states of no context-free grammar."""
        cost = self._cost
        key = self._machine.key(state)
        kind = key[0]
        if kind is expand_scan:
            return self._scan(key[1], key[2])
        if kind is resolve_node:
            return self._node(key[1], key[2])
        if kind is expand_hypotheses:
            if key[1].separation is None:
                return FAR
            return min(self._hypothesis(key[1], one) for one in key[2])
        if kind is expand_special:
            return tokens_left(key[1]) or FAR
        if kind is pass_on:
            return max(self._after_terminal(key[1], number) for number in key[1].special)
        if kind is resolve_special:
            return self._after_special(key[1], key[2])
        if kind is expand_enter:
            return self._node(key[1], key[2]) + cost(key[3])
        if kind is expand_leave:
            return 0 if len(key) < 3 else self._outcome(key[2], key[2].value(key[1]))
        if kind is expand_rest and self._machine.key(key[3])[0] in _KINDS:
            return self._rest(key[1], key[3])
        if kind is expand_led and self._machine.key(key[2])[0] in _KINDS:
            return self._rest(spelling(key[1]).leads[key[3]][2], key[2])
        if kind is expand_continuation and self._machine.key(key[2][0][2])[0] in _KINDS:
            return FAR
        return None

    def _rest(self, size: int, state: int) -> int:
        """The same for the rest of a character, of which `size` are still possible, that leads to `state`."""
        return _BYTES[size] + self._cost(state) if self._spelled(bytes(range(0x80, 0x100))) < FAR else FAR

    def _finishing_of(self, parser: Parser) -> Finishing:
        found = self._finishing.get(parser)
        if found is None:
            sizes = [self._size(parser, number) for number in range(parser.end)]
            found = self._finishing[parser] = Finishing(parser.stacks, sizes)
        return found

    def _size(self, parser: Parser, number: int) -> int:
        """Tokens for a terminal, and for what may have to stand before it so that the lexer tells it from the last."""
        if number in (parser.indent, parser.dedent):
            return 0
        terminal = parser.grammar.terminals[number]
        if number in parser.special:
            return min(FAR, 1 + self._spelled_separator(parser))
        if number in parser.embedded:
            return self._cost(embedded_start(self._machine, parser, number))
        if not isinstance(terminal.language, Rx):
            return FAR
        words = [shortest(rx) for rx in (terminal.language, *(rx for rx, _ in terminal.conditional))]
        sizes = [self._spelled(word.encode()) for word in words if word is not None]
        size = min(sizes, default=FAR)
        return min(FAR, size + self._spelled_separator(parser) + (_LINE if number == parser.newline else 0))

    def _spelled_separator(self, parser: Parser) -> int:
        separation = parser.separation
        return FAR if separation is None else self._spelled(separation.text.encode())

    def _scan(self, parser: Parser, scan: Scan) -> int:
        """Of a scan on top of a frame, whose own share covers what comes once the scan has ended."""
        if scan.start and not scan.line_break:
            return 0
        line_left = parser.lexer.line_left(scan)
        if line_left is not None:
            return line_left
        return min(
            (
                self._left(parser, terminal, left) + (0 if dropped else self._after_terminal(parser, terminal))
                for terminal, dropped, left in parser.lexer.left(scan)
            ),
            default=FAR,
        )

    def _left(self, parser: Parser, terminal: int, left: int) -> int:
        if terminal == parser.newline:
            left += _LINE + 1
        # characters, of which each may take four bytes that are tokens by themselves
        wide = self._spelled(bytes(range(0x100))) < FAR
        return 4 * left if wide or not left else FAR

    def _after_terminal(self, parser: Parser, terminal: int) -> int:
        """Tokens that finish any rule from behind `terminal`, the cheapest of the rules at hand left open."""
        found = self._after.get((parser, terminal))
        if found is None:
            found = 0
            if terminal < parser.end:
                tails = self._finishing_of(parser).tails
                found = max(
                    (tails[item + 1] for item, one in enumerate(parser.automaton.items)
                     if one[2] == ~terminal and one[1] < len(one[3].symbols)), default=0,
                )  # fmt: skip
            self._after[parser, terminal] = found
        return found

    def _node(self, parser: Parser, node: int) -> int:
        """Of a frame that waits: the dearest of all that may be completed on top of it."""
        finishing = self._finishing_of(parser)
        table: dict[tuple[int, int], int] = {}
        worst = finishing.on_top(node, _free)
        seen = {node}
        queue = [node]
        while queue:
            one = queue.pop()
            state = parser.automaton.states[parser.stacks.state[one]]
            if state.blocks and state.blocks[-1].column > _LINE:
                return FAR
            for origin in parser.automaton.completed(state.number):
                found = finishing.completed(one, origin, 0, _free, table)
                if found < FAR:
                    worst = max(worst, found)
            for under in parser.stacks.below[one]:
                if under >= 0 and under not in seen:
                    seen.add(under)
                    queue.append(under)
        return worst

    def _hypothesis(self, parser: Parser, one: Hypothesis) -> int:
        node, scan, rest = one
        if rest is not ALL:
            return FAR
        finishing = self._finishing_of(parser)
        if scan.start and not scan.line_break:
            return finishing.on_top(node, _free)
        line_left = parser.lexer.line_left(scan)
        if line_left is not None:
            return line_left + finishing.on_top(node, _free)
        costs = [FAR]
        for terminal, dropped, left in parser.lexer.left(scan):
            size = self._left(parser, terminal, left)
            if dropped:
                costs.append(size + finishing.on_top(node, _free))
                continue
            made = parser.advanced(node, terminal)
            costs += [size + finishing.on_top(top, _free) for top in made.tops]
            costs += [size + self._after_terminal(parser, terminal) for _ in made.pending]
        return min(costs)

    def _after_special(self, parser: Parser, hypotheses: Iterable[Hypothesis]) -> int:
        """Of a frame on which any of the special tokens has been read that some hypotheses name."""
        if parser.separation is None:
            return FAR
        return max(
            self._hypothesis(parser, Hypothesis(one.node, parser.lexer.scan((), (Cut(number),)), ALL))
            for one in hypotheses
            for number in one.scan.embedded
            if number in parser.special
        )

    def _outcome(self, parser: Parser, value: Outcome) -> int:
        """Of a frame that is about to be left."""
        if value.ends:
            return 0
        costs = [self._scan(parser, value.scan)] if value.scan is not None else []
        costs += [0 if cut.dropped else self._after_terminal(parser, cut.terminal) for cut in value.cuts]
        costs += [self._hypothesis(parser, one) for one in value.hypotheses]
        costs += [self._after_terminal(parser, last.terminal) for last, _ in value.ended]
        return min(costs, default=FAR)


def _free(origin: int, more: int) -> int:
    """Whatever goes on below is the frame's below to pay for."""
    return 0


_KINDS: tuple[Any, ...] = (expand_scan, expand_hypotheses, expand_enter, expand_leave)
_BYTES = {64: 1, 4096: 2, 262144: 3}
COSTS.append(lambda machine, spelled, cost: FrameCosts(machine, spelled, cost).of)
