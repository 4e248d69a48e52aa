"""Keys of objects: declared names, alone or beside a language of undeclared ones.

Keys are written with canonical escapes only, so that a name has one spelling: a trie of spellings then tells declared
names, and names that may not come, from all others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np

from constrained.automata.machine import Machine
from constrained.automata.strings import Languages, string_start
from constrained.automata.transitions import Transitions
from constrained.kernels import tables as t
from constrained.kernels.tables import goto, pop_after

Word = tuple[bytes, int]
"""The bytes of a name up to and including the closing quote, and the state or outcome that it leads to."""

DECLARED = 1 << 22
"""Outcomes of a key frame from here on are numbers of names (`name_number`); below, bit sets of languages."""
BARRED = -1
"""The outcome of a name that may not come."""


def encoded_key(name: str) -> bytes:
    """A name as JSON printers write it, without the opening quote."""
    try:
        return json.dumps(name, ensure_ascii=False)[1:].encode()
    except UnicodeEncodeError:  # half a surrogate pair, which only an escape can write
        return json.dumps(name)[1:].encode()


def name_number(machine: Machine, name: str) -> int:
    """The number of a name among all that the machine has met."""
    names: dict[str, int] = machine.kept("numbers of names", dict)
    return names.setdefault(name, len(names))


def name_of(machine: Machine, number: int) -> str:
    """The name with a number."""
    names: dict[str, int] = machine.kept("numbers of names", dict)
    spelled: list[str] = machine.kept("names by number", list)
    if len(spelled) <= number:
        spelled[:] = names
    return spelled[number]


def branches(words: tuple[Word, ...], first: int, end: int, depth: int) -> Iterator[tuple[int, int, int]]:
    """(byte, first, end): how the sorted words[first:end], which agree on `depth` bytes, go on."""
    while first < end:
        byte = words[first][0][depth]
        stop = first + 1
        while stop < end and words[stop][0][depth] == byte:
            stop += 1
        yield byte, first, stop
        first = stop


def expand_words(machine: Machine, words: tuple[Word, ...], first: int, end: int, depth: int) -> Transitions | int:
    """Inside one of words[first:end], which agree on `depth` bytes; each leads to its state."""
    if end - first == 1:
        word, then = words[first]
        return machine.literal(word[depth:], then)
    made = Transitions()
    for byte, low, high in branches(words, first, end, depth):
        if high - low == 1:
            word, then = words[low]
            made.on(byte, byte, goto(machine.literal(word[depth + 1 :], then)))
        else:
            made.on(byte, byte, goto(machine.state((expand_words, words, low, high, depth + 1))))
    return made


def key_start(machine: Machine, words: tuple[Word, ...], languages: Languages) -> int:
    """The start of a frame that reads a key: one of the sorted `words`, which takes precedence, or a word of `languages`."""
    inside = string_start(machine, languages, canonical=True)
    return _beside(machine, words, inside) if words else inside


def _beside(machine: Machine, words: tuple[Word, ...], inside: int) -> int:
    """The state in which both `words` (the rests of names) and the string state `inside` are possible."""
    if len(words) == 1:
        return _one_beside(machine, *words[0], inside)
    known = machine.state_count
    state = machine.state((expand_beside, words, inside))
    if state == known and inside:
        _rest_on_string(machine, state, inside)
    return state


def _rest_on_string(machine: Machine, state: int, inside: int) -> None:
    base = int(machine.states[inside, t.S_BASE])
    machine.rest_on(state, base if base >= 0 else inside, 0)


def expand_beside(machine: Machine, words: tuple[Word, ...], inside: int) -> Transitions:
    """Where the rest of a name may be one of `words`, or whatever the string state `inside` lets follow."""
    made = machine.transitions(inside)
    follows = _followers(made)
    for byte, low, high in branches(words, 0, len(words), 0):
        rest = words[low][0]
        if len(rest) == 1:
            _end_word(made, byte, words[low][1])
        else:
            inner = tuple((word[1:], outcome) for word, outcome in words[low:high])
            made.on(byte, byte, goto(_beside(machine, inner, follows[byte])))
    return made


def _followers(made: Transitions) -> list[int]:
    """The state after each byte, 0 where there is none."""
    after = [
        action & t.OPERAND_MASK if number and action >> t.KIND_SHIFT == t.GOTO else 0
        for number, action in enumerate(made.actions)
    ]
    return [after[group] for group in made.groups]


def _end_word(made: Transitions, byte: int, outcome: int) -> None:
    if outcome == BARRED:
        made.off(byte)
    else:
        made.on(byte, byte, pop_after(outcome))


def _one_beside(machine: Machine, rest: bytes, outcome: int, inside: int) -> int:
    """`_beside` for a single word: a run of states, made at once where `inside` comes back to itself on its bytes."""
    key = (expand_one_beside, rest, outcome, inside, 0)
    known = machine.known(key)
    if known is not None:
        return known
    if inside:
        made = machine.transitions(inside)
        follows = _followers(made)
        if all(follows[byte] == inside for byte in rest[:-1]):
            return _run_beside(machine, rest, outcome, inside, made, key)
    state = machine.state(key)
    if inside:
        _rest_on_string(machine, state, inside)
    return state


def expand_one_beside(machine: Machine, rest: bytes, outcome: int, inside: int, offset: int) -> Transitions:
    """Where the rest of a name may be `rest[offset:]`, or whatever the string state `inside` lets follow."""
    made = machine.transitions(inside)
    byte = rest[offset]
    if offset == len(rest) - 1:
        _end_word(made, byte, outcome)
    else:
        made.on(byte, byte, goto(_one_beside(machine, rest[offset + 1 :], outcome, _followers(made)[byte])))
    return made


def _run_beside(
    machine: Machine, rest: bytes, outcome: int, inside: int, made: Transitions, key: tuple[object, ...]
) -> int:
    first = machine.new_run(key, len(rest))
    width = len(made.actions) + 1
    actions = np.empty((len(rest), width), dtype=np.int64)
    actions[:, : width - 1] = made.actions
    actions[:, width - 1] = np.arange(first + 1, first + len(rest) + 1) | goto(0)
    if outcome != BARRED:
        actions[-1, width - 1] = pop_after(outcome)
    groups = bytes(made.groups)
    maps: dict[int, int] = machine.kept(("maps beside", groups), dict)
    numbers = []
    for offset, byte in enumerate(rest):
        barred = outcome == BARRED and offset == len(rest) - 1
        number = maps.get(-1 - byte if barred else byte)
        if number is None:
            changed = groups[:byte] + bytes([0 if barred else width - 1]) + groups[byte + 1 :]
            number = maps[-1 - byte if barred else byte] = machine.map_number(changed)
        numbers.append(number)
    base = int(machine.states[inside, t.S_BASE])
    machine.define_run(first, numbers, actions, base if base >= 0 else inside)
    return first
