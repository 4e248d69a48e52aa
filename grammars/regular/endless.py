"""Languages with words of any length: told by a loop, where a search for one long word would count its characters."""

from __future__ import annotations

import heapq

from grammars.regular.booleans import intersect
from grammars.regular.charset import ANY
from grammars.regular.derive import raw_moves
from grammars.regular.rx import BOOLEAN, COMPLEMENT, INTERSECT, NONE, REPEAT, Rx

LONG = 64
"""From so many characters on it is worth to look for a loop first."""

_MOST_STATES = 2_000
_PLACES = 8
_MOST_ROUND = 100


def less_length(rx: Rx) -> Rx | None:
    """What an intersection asks for besides being long, if it asks for `LONG` characters or more; else None."""
    if rx.kind != INTERSECT:
        return None
    for child in rx.a:
        if child.kind == REPEAT and child.a is ANY and child.most is None and child.least >= LONG:
            if rx._shorter is None:  # kept, and with it what is learnt about its derivatives
                rx._shorter = intersect(*[other for other in rx.a if other is not child])
            return rx._shorter
    return None


def is_endless(rx: Rx) -> bool:
    """Whether there are words of any length; a sufficient test, which gives up early.

    A shortest word is looked for, and then a way from a state on its path back to that state (the pumping lemma).  The
    states before it on the path are endless too, which later questions run into.
    """
    if rx._endless is None:
        if rx.high is not None or rx is NONE:
            rx._endless = False
        elif not rx.flags & BOOLEAN or (rx.kind == COMPLEMENT and rx.a.high is not None):
            rx._endless = True
        else:
            rx._endless = _goes_round(rx)
    return rx._endless


def _goes_round(rx: Rx) -> bool:
    path = _word(rx)
    last = len(path) - 1
    if last > 0 and path[last]._endless:
        place = last
    else:
        places = range(last, -1, -max(1, len(path) // _PLACES))
        place = next((place for place in places if _returns(path[place])), -1)
    for state in path[: place + 1]:
        state._empty, state._endless = False, True
    return place >= 0


def _word(start: Rx) -> list[Rx]:
    """The states on a way to the end of a word, or to one that is known to be endless; none if none was found."""
    before: dict[Rx, Rx | None] = {start: None}
    heap = [(start.low, 0, 0, start)]
    number = 0
    while heap and len(before) < _MOST_STATES:
        _, minus_depth, _, node = heapq.heappop(heap)
        if node.nullable or (node._endless and node is not start):
            path = []
            state: Rx | None = node
            while state is not None:
                path.append(state)
                state = before[state]
            return path[::-1]
        depth = 1 - minus_depth
        for _, target in raw_moves(node):
            if target not in before and not target._empty:
                before[target] = node
                number += 1
                heapq.heappush(heap, (depth + target.low, -depth, number, target))
    return []


def _returns(state: Rx) -> bool:
    """Whether some text leads from `state` to itself, as far as a short look can tell."""
    seen: dict[Rx, None] = {}
    level = [state]
    while level and len(seen) < _MOST_ROUND:
        found: dict[Rx, None] = {}
        for node in level:
            for _, target in raw_moves(node):
                if target is state:
                    return True
                if target not in seen:
                    seen[target] = None
                    found[target] = None
        level = list(found)
    return False
