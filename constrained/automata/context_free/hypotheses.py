"""Ways to have read a text so far, and what frames of the machine are left with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from grammars.context_free.layout import Blocks
from grammars.context_free.scans import Cut, Scan
from grammars.context_free.stacks import Pending
from grammars.regular import ALL, Rx


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
        column: of a terminal that opens a block: the column of its lines; else -1.
        blocks: of a terminal that opens a block: the blocks around it.
        closes: of a terminal that closes a block: how many more have to be closed before the next line; else 0.
        line: of a line break that has only begun: the scan that goes on.
    """

    terminal: int
    rest: Rx = ALL
    column: int = -1
    blocks: Blocks = ()
    closes: int = 0
    line: Scan | None = None


class Ended(NamedTuple):
    """A terminal that has ended and asks for a reduction further below."""

    last: Terminated
    reduction: Pending


class Plain(NamedTuple):
    """An outcome of one terminal that has ended for good, whatever follows it.

    Attributes:
        reduction: what it asks for further below; None where nothing has been done yet.
        dropped: the parser never sees the terminal.
    """

    last: Terminated
    reduction: Pending | None
    dropped: bool = False


class Outcome(NamedTuple):
    """What a frame is left with.

    Attributes:
        scan: of a frame that is a scan: what it is, if it may go on; all terminals that end with it are to be taken.
        cuts: of a frame that is a scan and does not go on: the terminals that have ended.
        hypotheses: of a frame of several hypotheses: those that stand on the node below.
        ended: terminals whose reductions go on below.
        ends: whether the text ends; then `accepts` says whether it is a sentence if the node below is the start.
        before: the ASCII characters before one of which the frame is left, as bits; 0 where it may be anything.  What is
            made of several hypotheses then need not know any other.
    """

    scan: Scan | None = None
    cuts: tuple[Cut, ...] = ()
    hypotheses: frozenset[Hypothesis] = frozenset()
    ended: frozenset[Ended] = frozenset()
    ends: bool = False
    accepts: bool = False
    before: int = 0


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
FIRST_OUTCOME = 2
"""Outcomes are numbered from here; below it are those of frames of other kinds."""
