"""Whether a sentence is to be had from a state of a grammar with phrases: a search for a way out of its frame.

Frames that are entered on the way are looked at once each, whatever calls them, as in the reachability of pushdown systems
(Bouajjani, Esparza and Maler 1997); so a search ends wherever there are finitely many states, however deep they may nest.
It goes first where lower bounds say that the end is near.
"""

from __future__ import annotations

import heapq
from itertools import count
from typing import TYPE_CHECKING

from constrained.automata.configurations import ConfigurationBounds
from constrained.automata.lower_bounds import LowerBounds
from constrained.automata.machine import Machine
from constrained.automata.phrases.borders import is_doubtful
from constrained.kernels import tables as t
from grammars.effort import spend
from grammars.errors import LimitExceeded

if TYPE_CHECKING:
    from constrained.automata.phrases.product import Phrased
    from constrained.automata.stacks import Stack

Edge = tuple[int, int, int, int, int]
EVERY = (1 << (t.END_OF_TEXT + 1)) - 1
"""All symbols, the bytes and the end of the text, as a bit set."""

MOST_STEPS = 50_000
_REMEMBERED = 5_000
"""Searches after which the bounds forget the stacks that they have seen."""
_MOST_KNOWN = 400_000
"""Places that are remembered; then all are forgotten, to be looked at again where they are met."""
_EAGERNESS = 4
"""What a byte that is still missing weighs, against one that has been read."""

Place = tuple[int, int, int]
"""A state of the grammar, what has been read, and the symbols that may be next."""
Exit = tuple[int, int, int]
"""What a frame is left with, what has been read, and the symbols that may be next."""


class _Frame:
    """A frame in a search: where it has been, how it is left, and who waits for it.

    Attributes:
        start: the place that it is entered in, None for the frame that is asked about and those below it.
        context: of those the context, else None.
        stack: the return states of the grammar below it, of the first caller.
    """

    __slots__ = ("callers", "context", "exits", "seen", "stack", "start")

    def __init__(self, start: Place | None, context: int | None, stack: Stack) -> None:
        self.start = start
        self.context = context
        self.stack = stack
        self.seen: set[Place] = set()
        self.exits: dict[Exit, None] = {}
        self.callers: list[tuple[_Item, int]] = []


class _Item:
    """A place in a frame, and the one that led to it, in the same frame or in one that it waits for."""

    __slots__ = ("before", "frame", "place", "size")

    def __init__(self, frame: _Frame, place: Place, before: _Item | None, size: int) -> None:
        self.frame = frame
        self.place = place
        self.before = before
        self.size = size


class Ways:
    """What is known of the states of one grammar with phrases."""

    def __init__(self, machine: Machine, phrased: Phrased) -> None:
        self.machine = machine
        self.phrased = phrased
        self._bounds = LowerBounds(machine)
        self._of_configurations = ConfigurationBounds(self._bounds)
        self._searches = 0
        self.known: dict[tuple[int, int, int, int], bool] = {}
        self.exits: dict[Place, dict[Exit, None]] = {}
        self.complete: set[Place] = set()
        self._doubtful: dict[int, bool] = {}

    def live(self, state: int, read: int, context: int, symbols: int) -> bool:
        """Whether the frame can be left from `state`, in a way that its context admits.

        Raises:
            LimitExceeded: the search takes too many steps, or cannot tell without texts that are not known.
        """
        found = self.known.get((state, read, context, symbols))
        return _Search(self, (state, read, symbols), context).found() if found is None else found

    def bounds(self) -> ConfigurationBounds:
        """Lower bounds for a search; what they remember is let go from time to time."""
        self._searches += 1
        if self._searches % _REMEMBERED == 0:
            self._of_configurations = ConfigurationBounds(self._bounds)
        if len(self.known) > _MOST_KNOWN:
            self.known.clear()
            self.exits.clear()
            self.complete.clear()
            self.phrased.forget()
        return self._of_configurations

    def is_doubtful(self, state: int) -> bool:
        """`borders.is_doubtful`, remembered."""
        found = self._doubtful.get(state)
        if found is None:
            found = self._doubtful[state] = is_doubtful(self.machine, state)
        return found


class _Search:
    """One search, from a place in a frame of some context."""

    def __init__(self, ways: Ways, start: Place, context: int) -> None:
        self._ways = ways
        self._phrased = ways.phrased
        self._start = start
        self._bounds = ways.bounds()
        self._entered: dict[Place, _Frame] = {}
        self._below: dict[int, _Frame] = {}
        self._queue: list[tuple[int, int, _Item]] = []
        self._order = count()
        self._doubts = False
        self._won: _Item | None = None
        self._add(self._frame_of(context), start, None, 0)

    def found(self) -> bool:
        """Whether there is a way; what the search has seen is noted."""
        steps = 0
        while self._queue and self._won is None:
            _, _, item = heapq.heappop(self._queue)
            steps += 1
            if steps > MOST_STEPS:
                raise LimitExceeded(
                    f"{MOST_STEPS:,} steps do not tell whether a text of the grammar goes on here with the phrases that are "
                    "required and without those that are banned"
                )
            spend()
            self._take(item)
        return self._noted()

    def _noted(self) -> bool:
        ways, item = self._ways, self._won
        if item is not None:
            while item is not None:
                state, read, symbols = item.place
                if item.frame.context is not None:
                    ways.known[state, read, item.frame.context, symbols] = True
                item = item.before
            return True
        if self._doubts:
            raise LimitExceeded(
                "whether a text goes on here with these phrases depends on which items or keys are left that are different "
                "(uniqueItems, patternProperties beside minProperties or maxProperties, idn-hostname), which is not followed"
            )
        ways.complete.update(self._entered)
        for context, frame in self._below.items():
            ways.known.update(((state, read, context, symbols), False) for state, read, symbols in frame.seen)
        return False

    def _frame_of(self, context: int) -> _Frame:
        """The frame that is asked about, or one below it."""
        found = self._below.get(context)
        if found is None:
            found = self._below[context] = _Frame(None, context, self._phrased.below(context))
        return found

    def _add(self, frame: _Frame, place: Place, before: _Item | None, size: int) -> None:
        if place in frame.seen:
            return
        frame.seen.add(place)
        state, read, symbols = place
        item = _Item(frame, place, before, size)
        if frame.context is not None:
            known = self._ways.known.get((state, read, frame.context, symbols))
            if known is not None:
                self._won = item if known else self._won
                return
        if self._ways.is_doubtful(state) and place != self._start:
            self._doubts = True
            return
        far = 0  # of the first place, which is alone
        if before is not None:
            far = self._bounds.of(state, frame.stack) + self._phrased.follower.distance(read)
        heapq.heappush(self._queue, (size + _EAGERNESS * far, next(self._order), item))

    def _take(self, item: _Item) -> None:
        """Follow the edges of one place."""
        frame = item.frame
        state, read, symbols = item.place
        for here, kind, operand, then, after in self._phrased.edges(state, read):
            able = here & symbols
            if not able:
                continue
            if kind == t.GOTO:
                self._add(frame, (operand, after, EVERY), item, item.size + 1)
            elif kind in (t.PUSH, t.PUSH_AFTER):
                self._enter(item, then, (operand, after, able if kind == t.PUSH else EVERY), kind == t.PUSH_AFTER)
            elif kind in (t.POP_AFTER, t.POP_BEFORE):
                self._leave(item, (operand, after, EVERY if kind == t.POP_AFTER else able))
            if self._won is not None:
                return

    def _enter(self, item: _Item, then: int, place: Place, size: int) -> None:
        ways = self._ways
        child = self._entered.get(place)
        if child is None:
            child = self._entered[place] = _Frame(place, None, (then, item.frame.stack))
            child.exits.update(ways.exits.get(place, {}))
            if place not in ways.complete:
                self._add(child, place, item, item.size + size)
        child.callers.append((item, then))
        for left in list(child.exits):
            self._go_on(item, then, left, item.size + 1)

    def _leave(self, item: _Item, left: Exit) -> None:
        frame = item.frame
        if left in frame.exits:
            return
        frame.exits[left] = None
        if frame.start is not None:
            self._ways.exits.setdefault(frame.start, {})[left] = None
            for caller, then in frame.callers:
                self._go_on(caller, then, left, item.size + 1)
            return
        assert frame.context is not None
        below = self._phrased.context_below(frame.context)
        if below is None:
            if self._phrased.may_end(frame.context, left[1]):
                self._won = item
            return
        then, context = below
        outcome, read, symbols = left
        after = then if then >= 0 else self._ways.machine.resolve(-1 - then, outcome)
        if after:
            self._add(self._frame_of(context), (after, read, symbols), item, item.size + 1)

    def _go_on(self, item: _Item, then: int, left: Exit, size: int) -> None:
        """The frame of `item` goes on, since the one that it waited for has been left."""
        outcome, read, symbols = left
        after = then if then >= 0 else self._ways.machine.resolve(-1 - then, outcome)
        if after:
            self._add(item.frame, (after, read, symbols), item, max(size, item.size))
