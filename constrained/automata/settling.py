"""Open states: those that stand for several until a text is looked at.

Walks look at no text.  Where an item of an array of different items ends, or an undeclared key, they go on in a state that
only knows that there was one.  A commit puts the state in its place that knows which one it was.
"""

from __future__ import annotations

import json
from typing import Any, cast

from constrained.automata import a_labels, arrays, keys, object_frames, objects, strings
from constrained.automata.children import at_best
from constrained.automata.constants import key_of, parsed
from constrained.automata.machine import Machine
from constrained.automata.outcomes import DECLARED
from constrained.automata.pending import Pending
from constrained.automata.phrases.keys import inside, plain, plain_return
from grammars.errors import LimitExceeded
from grammars.regular import NONE, Rx, is_endless

_IN_ARRAYS = {arrays.expand_next: b"[0", arrays.expand_item: b"[0,"}
_IN_OBJECTS = {
    objects.expand_colon: b'{"?"', objects.expand_next: b'{"?":0', objects.expand_comma: b'{"?":0,',
}  # fmt: skip
"""States that may know that there was something, with a text that leads to one."""
_IN_KEYS = (strings.expand_string, keys.expand_beside, keys.expand_one_beside)
_KEYS_ONLY = json.JSONDecoder(parse_float=len, parse_int=len)
_AFTER_VALUE = b",] \t\r\n"


def settled(machine: Machine, state: int, then: int, text: bytes) -> int:
    """The state that `state`, which is open, stands for.

    Args:
        then: the return state (or -1 - wait state) of the frame that has been left.
        text: what that frame has read, and possibly the byte before which it was left; what the frame of `state` itself has
            read if `looks_back`.
    """
    within = inside(machine, state)
    if within is not None:
        (_, phrased, _, read, context), state = within
        known: int = phrased.settled(settled(machine, state, plain_return(machine, then), text), read, context)
        return known
    key = machine.key(state)
    if key[0] in a_labels.OPEN_STATES:
        return a_labels.settled(machine, state, text)
    if key[0] is objects.expand_comma:
        _, gap, frame, progress = key
        left = frame.continuing(object_frames.looked_up(frame, progress, _names(text[text.index(b"{") : -1] + b"}")))
        return machine.state((objects.expand_comma, gap, frame, left)) if any(left) else 0
    if key[0] is objects.expand_colon:
        _, frame, progress = machine.key(-1 - then)
        return objects.known_key(machine, frame, progress, json.loads(text))
    function, gap, frame, progress = key
    item = key_of(_parsed(text[:-1] if text[-1] in _AFTER_VALUE and not _is_whole(text) else text))
    after = arrays.known(frame, progress, item)
    if function is arrays.expand_item and not frame.extended(after)[0]:
        return 0  # there is no other item, so the comma should not have come
    return machine.state((function, gap, frame, after))


def _parsed(text: bytes) -> Any:
    try:
        return parsed(text)
    except RecursionError:
        raise LimitExceeded("a value is nested too deeply to be looked at again") from None


def _names(text: bytes) -> dict[str, Any]:
    """An object of which the keys matter only."""
    try:
        return cast("dict[str, Any]", _KEYS_ONLY.decode(text.decode()))
    except RecursionError:
        raise LimitExceeded("an object is nested too deeply to be looked at again") from None


def _is_whole(text: bytes) -> bool:
    """Whether the last byte belongs to the value: a number is left before the byte that ends it, an array after its own."""
    return text[-1] == 0x5D and text[0] == 0x5B


def looks_back(machine: Machine, state: int) -> bool:
    """Whether it takes the text of its own frame to tell what the open `state` stands for."""
    return reads_keys(machine, state) or machine.key(plain(machine, state))[0] in a_labels.OPEN_STATES


def reads_keys(machine: Machine, state: int) -> bool:
    """Whether the open `state` depends on nothing but the keys of its object."""
    return machine.key(plain(machine, state))[0] is objects.expand_comma


def is_doubtful(machine: Machine, state: int) -> bool:
    """Whether it takes a text that is not known to tell whether there is a way on.

    Another item has to come that may have to differ from one that is not known, or a label has been read or has ended.
    """
    if not machine.is_open(state):
        return False
    function = machine.key(plain(machine, state))[0]
    return function is arrays.expand_item or function in a_labels.OPEN_STATES


def wants_new_key(machine: Machine, state: int) -> bool:
    """Whether another key has to come, and which ones have come is not known."""
    key = machine.key(plain(machine, state))
    return key[0] is objects.expand_comma and bool(object_frames.loose(key[3]))


def is_known(machine: Machine, then: int, outcome: int) -> bool:
    """Whether a frame that returns to `then` with `outcome` has not read a key that may have come before."""
    within = inside(machine, -1 - then) if then < 0 else None
    if within is not None:
        (_, phrased, _, _), then = within
        outcome = phrased.unpaired(outcome)
    key = machine.key(-1 - then) if then < 0 else ()
    return (
        not key
        or key[0] is not objects.resolve_key
        or outcome >= DECLARED
        or not (object_frames.loose(key[2]) or object_frames.is_open(key[2]))
    )


def records(machine: Machine, then: int) -> bool:
    """Whether the text of a frame that returns to `then` (-1 - wait state, or a state) may have to be looked at."""
    then = plain_return(machine, then)
    if then >= 0:
        return machine.is_open(then)
    key = machine.key(-1 - then)
    return (key[0] is objects.resolve_key and not key[1].is_loose()) or (
        key[0] is arrays.resolve_item and key[1].linked
    )


def textless(machine: Machine, state: int) -> Any:
    """What identifies a state but for the texts that it knows; None if it knows none."""
    within = inside(machine, state)
    if within is not None:
        (function, phrased, _, *others), then = within
        kind = textless(machine, then if then >= 0 else -1 - then)
        return None if kind is None else (function, phrased, kind, *others)
    key = machine.key(state)
    if key[0].__module__ == arrays.__name__:
        strip = arrays.textless
    elif key[0].__module__ == objects.__name__:
        strip = object_frames.textless
    else:
        return None
    parts = [strip(part) if type(part) is tuple else part for part in key]
    return tuple(parts) if any(new is not old for new, old in zip(parts, key, strict=True)) else None


def forgetful(machine: Machine, state: int) -> int | None:
    """The state that takes what is not known for different from everything; None where that is not easy to say."""
    key = machine.key(state)
    if key[0] in _IN_ARRAYS:
        function, gap, frame, progress = key
        return (
            machine.state((function, gap, frame, arrays.forgotten(frame, progress)))
            if machine.is_open(state)
            else state
        )
    if key[0] in _IN_OBJECTS and object_frames.is_open(key[-1]):
        if any(isinstance(one, Pending) for one in key[-1]):
            return None
        return machine.state((*key[:-1], object_frames.forgotten(key[-1])))
    return state


def doubted(machine: Machine, state: int, completion: bytes) -> list[int]:
    """Where a frame that can be finished by `completion` would be if one of the items or keys in there had come before."""
    key = machine.key(state)
    if key[0] in _IN_ARRAYS:
        items = key_of(parsed(_IN_ARRAYS[key[0]] + completion))
        texts = set(cast("tuple[Any, ...]", items)[2:])
        return [machine.state((*key[:-1], arrays.noted(key[2], key[3], item))) for item in texts]
    pairs = json.loads(_IN_OBJECTS[key[0]] + completion, object_pairs_hook=list)
    return [machine.state((*key[:-1], object_frames.noted(key[2], key[-1], name))) for name, _ in pairs[1:]]


def indifferent(machine: Machine, state: int, then: int | None) -> bool:
    """Whether the texts that tell the open states on the way to `state` apart leave it with a way to the end in any case.

    All of them are states of the frame in use or of the one below it, where that was there before.

    Args:
        then: the return state of the frame in use if that frame and the one below it are all that was entered since.
    """
    key = machine.key(state)
    if key[0] is arrays.expand_item:
        return arrays.indifferent(key[2], key[3], 0, [True] * len(key[3]))
    if key[0] is objects.expand_comma:
        return object_frames.any_key_follows(key[2], key[3])
    if then is None or key[0] not in _IN_KEYS:
        return False
    below = machine.key(then if then >= 0 else -1 - then)
    if below[0] is objects.resolve_key:
        return object_frames.any_key_follows(below[1], below[2])
    return key[0] is strings.expand_string and _item_indifferent(below, key[2])


def _item_indifferent(below: tuple[Any, ...], languages: tuple[Rx, ...]) -> bool:
    """`indifferent` inside a string that is an item, above the state or wait `below`; with what may follow in it."""
    endless = [rx is not NONE and is_endless(rx) for rx in languages]
    if below[0] is arrays.expand_next:
        return arrays.indifferent(below[2], below[3], 1, [any(endless)] * len(below[3]))
    if below[0] is arrays.resolve_item:
        own = [
            any([endless[at] for at in (index if type(index) is tuple else (index,)) if at >= 0]) for index in below[3]
        ]
        return arrays.indifferent(below[1], at_best(below[2]), 1, own)
    return False
