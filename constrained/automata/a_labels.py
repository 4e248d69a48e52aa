"""Strings in the middle of an A-label (`xn--`, RFC 5890), of which every character matters to whether it may end there.

A state for every text would be a state for every token of letters.  So walks go on in states that know how many characters
were read, and not which: those are open.  A commit looks at the text and puts the state in its place that knows it.  Where a
label that is not known ends, the state is open ahead of the walk, so that the few tokens with a label's end in them are tried
one by one.
"""

from __future__ import annotations

from typing import cast

from constrained.automata import strings
from constrained.automata.code_points import add_code_points
from constrained.automata.machine import Machine
from constrained.automata.transitions import Transitions
from constrained.kernels.tables import OPEN_AHEAD, OPEN_HERE, goto, pop_after, pop_before
from grammars.json_schema.cheapest import cheapest_string
from grammars.json_schema.formats.alabels import (
    MAX_ASCII,
    PREFIX,
    Digits,
    EndedLabel,
    UnknownLabel,
    label_state,
    with_label,
)
from grammars.regular import NONE, Rx, derivative, derivatives, is_empty

_LETTERS = (0x30, 0x39), (0x61, 0x7A)
_HYPHEN = 0x2D


def expand_known(machine: Machine, canonical: bool, rx: Rx) -> Transitions:
    """Inside a label of which the text is known."""
    text = cast(Digits, label_state(rx)).text
    made = Transitions()
    ended = with_label(rx, EndedLabel(text))
    pieces = [(low, high, strings.string_state(machine, canonical, (to,))) for low, high, to in derivatives(ended)]
    _add(machine, made, canonical, ended, pieces)
    if ended.nullable:
        made.on(strings.QUOTE, strings.QUOTE, pop_after(1))
    _add_letters(machine, made, canonical, rx, len(text))
    return made


def expand_unknown(machine: Machine, canonical: bool, rx: Rx, length: int) -> Transitions:
    """Inside a label of which so many characters have been read."""
    made = Transitions()
    pieces = _after_unknown(machine, canonical, rx)
    _add(machine, made, canonical, rx, pieces)
    if rx.nullable:
        made.on(strings.QUOTE, strings.QUOTE, goto(_open(machine, (expand_quote, canonical, rx))))
    _add_letters(machine, made, canonical, rx, length)
    return made


def _after_unknown(machine: Machine, canonical: bool, rx: Rx) -> list[tuple[int, int, int]]:
    pieces = []
    for low, high, to in derivatives(rx):
        function = expand_hyphen if low <= _HYPHEN <= high else expand_end
        pieces.append((low, high, _open(machine, (function, canonical, rx, low, to))))
    return pieces


def expand_unknown_escape(machine: Machine, canonical: bool, rx: Rx) -> Transitions:
    """After a backslash behind a label that is not known."""
    return strings.escape(machine, canonical, _after_unknown(machine, canonical, rx))


def _add(machine: Machine, made: Transitions, canonical: bool, rx: Rx, pieces: list[tuple[int, int, int]]) -> None:
    add_code_points(machine, made, strings.raw(pieces))
    if strings.escapable(pieces, canonical):
        known = isinstance(label_state(rx), EndedLabel)
        key = (strings.expand_escape, canonical, (rx,)) if known else (expand_unknown_escape, canonical, rx)
        made.on(strings.BACKSLASH, strings.BACKSLASH, goto(machine.state(key)))


def _add_letters(machine: Machine, made: Transitions, canonical: bool, rx: Rx, length: int) -> None:
    if length < MAX_ASCII:
        then = machine.state((expand_unknown, canonical, with_label(rx, UnknownLabel(length + 1)), length + 1))
        machine.open(then, OPEN_HERE)
        for low, high in _LETTERS:
            made.on(low, high, goto(then))


def _open(machine: Machine, key: tuple[object, ...]) -> int:
    state = machine.state(key)
    machine.open(state, OPEN_AHEAD)
    return state


def expand_end(machine: Machine, canonical: bool, _rx: Rx, _code: int, to: Rx) -> Transitions:
    """Behind the separator after a label that is not known."""
    return machine.transitions(strings.string_state(machine, canonical, (to,)))


def expand_hyphen(machine: Machine, canonical: bool, _rx: Rx, _code: int, to: Rx) -> Transitions:
    """Behind the hyphen after characters that are not known."""
    return machine.transitions(strings.string_state(machine, canonical, (to,)))


def expand_quote(machine: Machine, _canonical: bool, _rx: Rx) -> Transitions:
    """Behind the closing quote after a label that is not known."""
    return expand_left(machine)


def expand_left(_machine: Machine) -> Transitions:
    """Behind the closing quote of a string that holds."""
    made = Transitions()
    made.otherwise(pop_before(1))
    made.at_end(pop_before(1))
    return made


OPEN_STATES = (expand_unknown, expand_end, expand_quote, expand_hyphen)


def certain(machine: Machine, state: int, doubtful: int, byte: int) -> int:
    """What `byte` in `state` leads to instead of `doubtful`, one of `OPEN_STATES`, whatever was read before; 0: nothing."""
    function, canonical, rx, *_ = machine.key(doubtful)
    if function is expand_unknown:
        key = machine.key(state)
        if key[0] is not strings.expand_string or not strings.in_label(*key[1:]):
            return 0
        rx = key[2][0]
    elif function is expand_hyphen:  # whatever the characters are, one more can be inserted among them
        rx = with_label(rx, UnknownLabel(cast(UnknownLabel, label_state(rx)).length, dots=False))
    else:
        return 0
    to = derivative(rx, byte)
    return 0 if to is NONE else strings.string_state(machine, canonical, (to,))


def is_label(machine: Machine, state: int) -> bool:
    """Whether a state is inside an A-label or right behind one."""
    key = machine.key(state)
    if key[0] is strings.expand_string:
        return strings.in_label(*key[1:])
    return key[0] in OPEN_STATES


def ending(rx: Rx) -> str | None:
    """A short rest of a text in the middle of a label that is known or not, the label's rest included; None: it is not seen."""
    label = label_state(rx)
    if isinstance(label, Digits) and rx.nullable:
        return ""
    length = label.length if isinstance(label, UnknownLabel) else len(cast(Digits, label).text)
    letter = "" if length else "a"
    to = derivative(with_label(rx, UnknownLabel(length or 1, dots=False)), _HYPHEN)
    return None if to is NONE else f"{letter}-{cheapest_string(to)}"


def settled(machine: Machine, state: int, text: bytes) -> int:
    """The state that `state`, one of `OPEN_STATES`, stands for where its frame has read `text`."""
    function, canonical, rx, *rest = machine.key(state)
    label = _label(text)
    if function is expand_unknown:
        known = with_label(rx, Digits(label))
        return strings.string_state(machine, canonical, (known,))
    ended = with_label(rx, EndedLabel(label))
    if function is expand_quote:
        return machine.state((expand_left,)) if ended.nullable else 0
    to = derivative(ended, rest[0])
    return 0 if to is NONE or is_empty(to) else strings.string_state(machine, canonical, (to,))


def _label(text: bytes) -> str:
    """The letters and digits behind the last `xn--` of a text."""
    rest = text[text.rindex(PREFIX.encode()) + len(PREFIX) :]
    length = next((at for at, byte in enumerate(rest) if not chr(byte).isalnum()), len(rest))
    return rest[:length].decode()
