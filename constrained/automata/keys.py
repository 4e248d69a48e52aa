"""Keys of objects: declared names, alone or beside a language of undeclared ones.

Keys are written with canonical escapes only, so that a name has one spelling: a trie of spellings then tells declared
names, and names that may not come, from all others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

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


@lru_cache(maxsize=8192)
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


class WordList:
    """Sorted words that states are made for; compared by identity."""

    __slots__ = ("words",)

    def __init__(self, words: tuple[Word, ...]) -> None:
        self.words = words


class Inside(NamedTuple):
    """The transitions of a string state, as names beside it need them.

    Attributes:
        groups: the class of each byte.
        actions: the actions of the classes.
        follows: the state after each byte, 0 where there is none.
    """

    groups: bytes
    actions: tuple[int, ...]
    follows: tuple[int, ...]


def _inside(machine: Machine, state: int) -> Inside:
    """The transitions of the string state `state`, looked up once."""
    kept: dict[int, Inside] = machine.kept("strings beside names", dict)
    found = kept.get(state)
    if found is None:
        made = machine.transitions(state)
        after = [
            action & t.OPERAND_MASK if number and action >> t.KIND_SHIFT == t.GOTO else 0
            for number, action in enumerate(made.actions)
        ]
        found = Inside(bytes(made.groups), tuple(made.actions), tuple([after[group] for group in made.groups]))
        kept[state] = found
    return found


def key_start(machine: Machine, words: tuple[Word, ...], languages: Languages) -> int:
    """The start of a frame that reads a key: one of the sorted `words`, which takes precedence, or a word of `languages`."""
    inside = string_start(machine, languages, canonical=True)
    if not words:
        return inside
    names = machine.kept((WordList, words), lambda: WordList(words))
    return _beside(machine, names, 0, len(words), 0, inside)


def _beside(machine: Machine, names: WordList, first: int, end: int, depth: int, inside: int) -> int:
    """The state in which both what is left of words[first:end] after `depth` bytes and the string state `inside` are possible."""
    if end - first == 1:
        word, outcome = names.words[first]
        return _one_beside(machine, word[depth:], outcome, inside)
    known = machine.state_count
    state = machine.state((expand_beside, names, first, end, depth, inside))
    if state == known and inside:
        _rest_on_string(machine, state, inside)
    return state


def _rest_on_string(machine: Machine, state: int, inside: int) -> None:
    base = int(machine.states[inside, t.S_BASE])
    machine.rest_on(state, base if base >= 0 else inside, 0)


def expand_beside(machine: Machine, names: WordList, first: int, end: int, depth: int, inside: int) -> Transitions:
    """Where the rest of a name may be one of words[first:end], or whatever the string state `inside` lets follow."""
    groups, actions, follows = _inside(machine, inside)
    made = Transitions.copied(groups, list(actions))
    for byte, low, high in branches(names.words, first, end, depth):
        word, outcome = names.words[low]
        if len(word) == depth + 1:
            _end_word(made, byte, outcome)
        else:
            made.on(byte, byte, goto(_beside(machine, names, low, high, depth + 1, follows[byte])))
    return made


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
        follows = _inside(machine, inside).follows
        if all([follows[byte] == inside for byte in rest[:-1]]):
            return _run_beside(machine, rest, outcome, inside, key)
    state = machine.state(key)
    if inside:
        _rest_on_string(machine, state, inside)
    return state


def expand_one_beside(machine: Machine, rest: bytes, outcome: int, inside: int, offset: int) -> Transitions:
    """Where the rest of a name may be `rest[offset:]`, or whatever the string state `inside` lets follow."""
    groups, actions, follows = _inside(machine, inside)
    made = Transitions.copied(groups, list(actions))
    byte = rest[offset]
    if offset == len(rest) - 1:
        _end_word(made, byte, outcome)
    else:
        made.on(byte, byte, goto(_one_beside(machine, rest[offset + 1 :], outcome, follows[byte])))
    return made


def _run_beside(machine: Machine, rest: bytes, outcome: int, inside: int, key: tuple[object, ...]) -> int:
    groups, shared, _ = _inside(machine, inside)
    first = machine.new_run(key, len(rest))
    width = len(shared) + 1
    actions = np.empty((len(rest), width), dtype=np.int64)
    actions[:, : width - 1] = shared
    actions[:, width - 1] = np.arange(first + 1, first + len(rest) + 1) | goto(0)
    if outcome != BARRED:
        actions[-1, width - 1] = pop_after(outcome)
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
