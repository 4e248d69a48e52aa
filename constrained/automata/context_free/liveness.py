"""Whether a sentence goes on from a hypothesis, in grammars in which terminals cannot be kept apart.

Where a terminal has just ended, what may follow may be just what would have made it longer, or what its lookahead forbids;
and a parse table in which conflicts were decided reads less than its rules say.  Then the stacks are not cut into frames,
and a hypothesis counts only if it has a completion: one that a short search finds (best first, by what the stacks need at
least), or one that is there by `grammars.context_free.completing` and `grammars.context_free.tabled`, which decide it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from constrained.automata.context_free.closing import Closing
from constrained.automata.context_free.hypotheses import Hypothesis
from constrained.automata.context_free.parser import Parser
from grammars.context_free.finishing import FAR, nothing_below
from grammars.context_free.letters import Letters, letters, split
from grammars.context_free.scans import Scan
from grammars.effort import spend
from grammars.errors import LimitExceeded
from grammars.regular import ALL, Rx, moves

_MOST_LOOKED_AT = 1_000
_FEW = 60
"""Steps of the search before the question is decided instead."""


def lives(parser: Parser, start: Hypothesis) -> bool:
    """Whether some text completes the hypothesis to a sentence.

    Raises:
        LimitExceeded: that takes too many steps to tell.
    """
    known = parser.live.get(start)
    if known is not None:
        return known
    decide = parser.decide
    if parser.grammar.lexing != "contextual":
        assert decide is not None
        found: bool | None = decide(*start)
    else:
        found = _searched(parser, start, _FEW if decide is not None else _MOST_LOOKED_AT)
        if found is None and decide is not None:
            found = decide(*start)
    if found is None:
        raise LimitExceeded(f"whether a sentence goes on from here takes more than {_MOST_LOOKED_AT} steps to tell")
    parser.live[start] = found
    return found


def _searched(parser: Parser, start: Hypothesis, most: int) -> bool | None:
    """Whether a search finds a completion; None where `most` steps do not tell."""
    came: dict[Hypothesis, Hypothesis | None] = {start: None}
    queue = [(_needed(parser, start), 0, 0, start)]
    order = 0
    looked_at = 0
    while queue:
        _, _, spent, one = heapq.heappop(queue)
        if parser.live.get(one) or _may_end(parser, one):
            step: Hypothesis | None = one
            while step is not None:
                parser.live[step] = True
                step = came[step]
            return True
        spend()
        looked_at += 1
        if looked_at > most:
            return None
        for after in following(parser, one):
            if after not in came and parser.live.get(after) is not False:
                needed = _needed(parser, after)
                if needed < FAR:
                    came[after] = one
                    order += 1
                    heapq.heappush(queue, (spent + 1 + needed, -order, spent + 1, after))
    for one in came:
        parser.live[one] = False
    return False


def _needed(parser: Parser, one: Hypothesis) -> int:
    """Characters to the end, at least."""
    finishing = parser.finishing
    if one.scan.start or one.scan.line_break:
        return finishing.on_top(one.node, nothing_below)
    return min((left for _, _, left in parser.lexer.left(one.scan)), default=0)


def _may_end(parser: Parser, one: Hypothesis) -> bool:
    return one.scan.may_end and one.rest.nullable and Closing(parser).finish([one.node]).accepted


def following(parser: Parser, one: Hypothesis) -> Iterator[Hypothesis]:
    """The hypotheses after one more character."""
    items: list[tuple[Letters, Scan | Rx]] = list(parser.lexer.moves(one.scan))
    if one.rest is not ALL:
        items += [(letters(characters), to) for characters, to in moves(one.rest)]
    for _, values in split(items):
        scan = values[0]
        if not isinstance(scan, Scan) or (one.rest is not ALL and len(values) < 2):
            continue
        rest = ALL if one.rest is ALL else values[1]
        assert isinstance(rest, Rx)
        closing = Closing(parser)
        closing.close([Hypothesis(one.node, scan, rest)])
        yield from closing.joined()
