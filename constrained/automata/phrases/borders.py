"""What the product with phrases has to know of the kinds of states that JSON is read with."""

from __future__ import annotations

from collections.abc import Iterable

from constrained.automata import arrays, keys, objects, strings, values
from constrained.automata.item_plans import Items, LinkedItems
from constrained.automata.machine import Machine
from constrained.automata.object_frames import any_key_follows, loose
from constrained.automata.pending import Pending
from constrained.automata.state_keys import Key
from grammars.json_schema.shapes import Alternatives
from grammars.regular import ALL, NONE
from grammars.regular.rx import REPEAT

_QUOTED = frozenset(b'"')
_DIGITS = frozenset(b"0123456789")
_LAST_OF_NAMES = {"null": ord("l"), "true": ord("e"), "false": ord("e")}
_IN_KEYS = (keys.expand_beside, keys.expand_one_beside, strings.expand_string)


def last_bytes(machine: Machine, child: int) -> frozenset[int] | None:
    """The bytes that a frame may end with that is entered in `child`; None where that is not known."""
    key = machine.key(child)
    if key[0] in _IN_KEYS:
        return _QUOTED
    if key[0] in (values.expand_value, values.expand_spaced):
        return _last_of(value.alternatives() for value in key[-1])
    if key[0] in (values.expand_alternatives, values.expand_spaced_alternatives):
        return _last_of(key[-1])
    return None


def _last_of(each: Iterable[Alternatives]) -> frozenset[int]:
    found: set[int] = set()
    for one in each:
        if one.string is not NONE:
            found |= _QUOTED
        if one.number is not NONE:
            found |= _DIGITS
        if one.arrays:
            found.add(arrays.CLOSE)
        if one.objects:
            found.add(objects.CLOSE)
        found.update(_LAST_OF_NAMES[name] for name in one.literals)
    return frozenset(found)


def looks_alike(key: Key, slack: int) -> bool:
    """Whether a string in the state of `key` may end at any character for the next `slack` ones, as its base may."""
    _, _, languages = key
    return slack > 0 and len(languages) == 1 and languages[0].kind == REPEAT and languages[0].least == 0


def is_doubtful(machine: Machine, state: int) -> bool:
    """Whether it takes a text that is not known to tell whether there is a way on with phrases.

    States that stand for several until a text is looked at are plain where another key, or another item, can always be one that
    has not come: no list of phrases bans all characters.
    """
    if not machine.is_open(state):
        return False
    key = machine.key(state)
    if key[0].__module__ == objects.__name__:
        progress = key[-1]
        if any(isinstance(one, Pending) for one in progress):
            return True
        return not loose(progress) and not any_key_follows(key[2], progress)
    if key[0] is arrays.expand_next:
        return False
    if key[0] is arrays.expand_item:
        _, _, frame, progress = key
        return not all(_endless(plan, one) for plan, one in zip(frame.plans, progress, strict=True) if one is not None)
    return True


def _endless(plan: object, progress: object) -> bool:
    if not isinstance(plan, LinkedItems) or not isinstance(progress, Items):
        return True
    shape = plan.shape
    items = (*shape.prefix, shape.rest)
    return not shape.counts and not progress.agree and all(one.alternatives().string is ALL for one in items)
