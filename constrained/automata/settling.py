"""Open states: those that stand for several until a text is looked at.

Walks look at no text.  Where an item of an array of different items ends, or an undeclared key, they go on in a state that
only knows that there was one.  A commit puts the state in its place that knows which one it was.
"""

from __future__ import annotations

import json

from typing import Any, cast

from constrained.automata import arrays, objects, strings
from constrained.automata.constants import key_of
from constrained.automata.machine import Machine
from grammars.errors import LimitExceeded
from grammars.regular import NONE, longest_length

_AFTER_VALUE = b",] \t\r\n"


def settled(machine: Machine, state: int, then: int, text: bytes) -> int:
    """The state that `state`, which is open, stands for.

    Args:
        then: the return state (or -1 - wait state) of the frame that has been left.
        text: what that frame has read, and possibly the byte before which it was left.
    """
    key = machine.key(state)
    if key[0] is objects.expand_colon:
        _, frame, progress = machine.key(-1 - then)
        return objects.known_key(machine, frame, progress, json.loads(text))
    function, gap, frame, progress = key
    try:
        item = key_of(text[:-1] if text[-1] in _AFTER_VALUE and not _is_whole(text) else text)
    except RecursionError:
        raise LimitExceeded("an item is nested too deeply to be compared with others") from None
    after = arrays.known(frame, progress, item)
    if function is arrays.expand_item and not frame.extended(after)[0]:
        return 0  # there is no other item, so the comma should not have come
    return machine.state((function, gap, frame, after))


def _is_whole(text: bytes) -> bool:
    """Whether the last byte belongs to the value: a number is left before the byte that ends it, an array after its own."""
    return text[-1] == 0x5D and text[0] == 0x5B


def records(machine: Machine, then: int) -> bool:
    """Whether the text of a frame that returns to `then` (-1 - wait state, or a state) may have to be looked at."""
    if then >= 0:
        return machine.is_open(then)
    key = machine.key(-1 - then)
    return key[0] is objects.resolve_key or (key[0] is arrays.resolve_item and key[1].linked)


def forgetful(machine: Machine, state: int) -> int | None:
    """The state of an array that takes what is not known for different from everything; None if `state` is another."""
    key = machine.key(state)
    if key[0] is not arrays.expand_next and key[0] is not arrays.expand_item:
        return None
    function, gap, frame, progress = key
    return machine.state((function, gap, frame, arrays.forgotten(frame, progress)))


def doubted(machine: Machine, state: int, completion: bytes) -> list[int]:
    """Where an array that can be finished by `completion` would be if one of the items in there had come before."""
    function, gap, frame, progress = machine.key(state)
    items = key_of((b"[0" if function is arrays.expand_next else b"[0,") + completion)
    return [
        machine.state((function, gap, frame, arrays.noted(frame, progress, item)))
        for item in set(cast("tuple[Any, ...]", items)[2:])
    ]


def indifferent(machine: Machine, state: int, then: int | None) -> bool:
    """Whether the texts that tell the open states on the way to `state` apart leave it with a way to the end in any case.

    Args:
        then: the return state of the frame in use if that frame and the one below it are all that was entered since.
    """
    key = machine.key(state)
    if key[0] is arrays.expand_item:
        return arrays.indifferent(key[2], key[3], ended=0)
    if key[0] is strings.expand_string and then is not None and then >= 0:
        below = machine.key(then)
        return (
            below[0] is arrays.expand_next
            and any(longest_length(rx) is None for rx in key[2] if rx is not NONE)
            and arrays.indifferent(below[2], below[3], ended=1)
        )
    return False
