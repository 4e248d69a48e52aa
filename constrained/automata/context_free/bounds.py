"""How many bytes a configuration takes at least to its end, where it stands in a context-free grammar.

What a frame takes depends on those below it: a reduction may go on through any number of them.  So bounds are of whole
configurations here, not of states.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from constrained.automata import code_points
from constrained.automata.configurations import BOUNDS, ConfigurationBounds, frames_above
from constrained.automata.context_free.embedded import expand_leave
from constrained.automata.context_free.hypotheses import Outcome
from constrained.automata.context_free.parser import Parser
from constrained.automata.context_free.states import (
    expand_enter,
    expand_hypotheses,
    expand_scan,
    resolve_node,
)
from grammars.context_free.finishing import FAR, Pend
from grammars.context_free.scans import Scan
from grammars.regular import Rx

if TYPE_CHECKING:
    from constrained.automata.stacks import Stack

_EAGER = 50
"""At every so many frames all costs are computed at once, so that they do not recur through the whole stack."""


class ContextFreeBounds:
    """What the bounds of one search know of the frames of context-free grammars."""

    def __init__(self, bounds: ConfigurationBounds) -> None:
        self.bounds = bounds
        self.machine = bounds.machine
        self._pends: dict[Stack, Pend] = {None: _nothing}

    def pend(self, stack: Stack) -> Pend:
        """What reductions cost that go on at the top of `stack`."""
        for number, one in enumerate(frames_above(stack, self._pends), 1):
            made = self._made(one)
            self._pends[one] = made
            if not number % _EAGER:
                made.fill()
        return self._pends[stack]

    def _made(self, stack: Any) -> _Piece:
        then = stack[0]
        key = self.machine.key(-1 - then) if then < 0 else ()
        if not key or key[0] is not resolve_node:
            return _Piece(None, 0, _nothing, 0)
        _, parser, node = key
        outer = self.bounds.below(stack[1]) if not parser.stacks.below[node] else 0
        return _Piece(parser, node, self._pends[stack[1]], outer)

    def scan(self, parser: Parser, node: int, scan: Scan, pend: Pend) -> int:
        """Bytes where `scan` is read with `node` on top; `pend` is of what its graph stands on."""
        finishing = parser.finishing
        if scan.start and not scan.line_break:
            return finishing.on_top(node, pend)
        if scan.line_break:
            return 0
        line_left = parser.lexer.line_left(scan)
        if line_left is not None:
            return line_left + finishing.on_top(node, pend)
        least = FAR
        for terminal, dropped, left in parser.lexer.left(scan):
            after = finishing.on_top(node, pend) if dropped else self._after(parser, node, terminal, pend)
            least = min(least, left + after)
        return least

    @staticmethod
    def _after(parser: Parser, node: int, terminal: int, pend: Pend) -> int:
        """Bytes once `terminal` has been read on top of `node`."""
        finishing = parser.finishing
        made = parser.advanced(node, terminal)
        costs = [finishing.on_top(top, pend) for top in made.tops]
        costs += [max(0, pend(*one) - finishing.terminals[terminal]) for one in made.pending]
        return min(costs, default=FAR)

    def outcome(self, stack: Any, number: int) -> int:
        """Bytes where the frame above `stack` has been left."""
        then = stack[0]
        key = self.machine.key(-1 - then) if then < 0 else ()
        if not key or key[0] is not resolve_node:
            return self.bounds.below(stack)
        _, parser, node = key
        value: Outcome = parser.value(number)
        if value.ends:
            return 0
        scans = [value.scan] if value.scan is not None else []
        if value.cuts:
            scans.append(parser.lexer.scan((), value.cuts))
        costs = [self.scan(parser, node, scan, self.pend(stack[1])) for scan in scans]
        pend = self.pend(stack)
        costs += [self.scan(parser, one.node, one.scan, pend) for one in value.hypotheses]
        for last, reduction in value.ended:
            size = parser.finishing.terminals[last.terminal]
            inserted = last.column >= 0 or last.closes or last.line is not None
            costs.append(0 if inserted else max(0, pend(*reduction) - size))
        return min(costs, default=FAR)


class _Piece:
    """The costs of reductions at one frame."""

    __slots__ = ("_below", "_known", "_node", "_outer", "_parser", "_table")

    def __init__(self, parser: Parser | None, node: int, below: Pend, outer: int) -> None:
        self._parser = parser
        self._node = node
        self._below = below
        self._outer = outer
        self._known: dict[tuple[int, int], int] = {}
        self._table: dict[tuple[int, int], int] = {}

    def __call__(self, origin: int, more: int) -> int:
        found = self._known.get((origin, more))
        if found is None:
            found = FAR
            if self._parser is not None:
                finishing = self._parser.finishing
                found = finishing.completed(self._node, origin, more, self._below, self._table) + self._outer
            self._known[origin, more] = found
        return found

    def fill(self) -> None:
        """Compute what can be asked for without taking anything off."""
        if self._parser is not None:
            for origin in self._parser.automaton.completed(self._parser.stacks.state[self._node]):
                self(origin, 0)


def _nothing(origin: int, more: int) -> int:
    return FAR


def _scan(bounds: ConfigurationBounds, stack: Any, parser: Parser, scan: Scan) -> int:
    own = bounds.part(ContextFreeBounds)
    node = bounds.machine.key(-1 - stack[0])[2]
    outer = bounds.below(stack[1]) if not parser.stacks.below[node] else 0
    return own.scan(parser, node, scan, own.pend(stack[1])) + outer


def _hypotheses(
    bounds: ConfigurationBounds, stack: Any, parser: Parser, hypotheses: Iterable[Any], _before: int
) -> int:
    own = bounds.part(ContextFreeBounds)
    pend = own.pend(stack)
    return min(own.scan(parser, one.node, one.scan, pend) for one in hypotheses)


def _enter(bounds: ConfigurationBounds, stack: Any, parser: Parser, node: int, state: int) -> int:
    return bounds.of(state, (-1 - bounds.machine.state((resolve_node, parser, node)), stack))


def _leave(bounds: ConfigurationBounds, stack: Any, outcome: int, _parser: Parser | None = None) -> int:
    return 0 if stack is None else bounds.part(ContextFreeBounds).outcome(stack, outcome)


def _rest(bounds: ConfigurationBounds, stack: Any, size: int, _ranges: code_points.Ranges, state: int) -> int:
    return _BYTES[size] + bounds.of(state, stack)


def _led(bounds: ConfigurationBounds, stack: Any, characters: Rx, state: int, number: int) -> int:
    return _rest(bounds, stack, code_points.spelling(characters).leads[number][2], (), state)


def _continuation(bounds: ConfigurationBounds, stack: Any, size: int, pieces: code_points.Pieces) -> int:
    return _BYTES[size] + min(bounds.of(state, stack) for _, _, state in pieces)


_BYTES = {64: 1, 4096: 2, 262144: 3}
BOUNDS.update(
    {
        expand_scan: _scan,
        expand_hypotheses: _hypotheses,
        expand_enter: _enter,
        expand_leave: _leave,
        code_points.expand_led: _led,
        code_points.expand_rest: _rest,
        code_points.expand_continuation: _continuation,
    }
)
