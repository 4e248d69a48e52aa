"""Keys of objects: declared names, alone or beside a language of undeclared ones.

Keys are written with canonical escapes only, so that a name has one spelling: a trie of spellings then tells declared
names, and names that may not come, from all others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from constrained.automata.character_classes import is_bare
from constrained.automata.machine import Machine
from constrained.automata.strings import Languages, string_start
from constrained.automata.transitions import Transitions
from constrained.kernels import tables as t
from constrained.kernels.runs import write_beside
from constrained.kernels.tables import goto, pop_after
from grammars.memory import remembered

Word = tuple[bytes, int]
"""The bytes of a name up to and including the closing quote, and the state or outcome that it leads to."""

BARRED = -1
"""The outcome of a name that may not come."""


@remembered(8192)
def encoded_key(name: str) -> bytes:
    """A name as JSON printers write it, without the opening quote."""
    if is_bare(name):
        return name.encode() + b'"'
    try:
        return json.dumps(name, ensure_ascii=False)[1:].encode()
    except UnicodeEncodeError:  # half a surrogate pair, which only an escape can write
        return json.dumps(name)[1:].encode()


def name_numbers(machine: Machine, names: Iterable[str]) -> list[int]:
    """The numbers of names among all that the machine has met."""
    numbers, spelled = _names(machine)
    found = []
    for name in names:
        number = numbers.get(name)
        if number is None:
            number = numbers[name] = len(spelled)
            spelled.append(name)
        found.append(number)
    return found


def name_number(machine: Machine, name: str) -> int:
    """`name_numbers` of one name."""
    return name_numbers(machine, (name,))[0]


def name_of(machine: Machine, number: int) -> str:
    """The name with a number."""
    return _names(machine)[1][number]


def _names(machine: Machine) -> tuple[dict[str, int], list[str]]:
    found: tuple[dict[str, int], list[str]] = machine.kept("names", lambda: ({}, []))
    return found


class WordList:
    """Sorted words that states are made for; compared by identity."""

    __slots__ = ("words",)

    def __init__(self, words: tuple[Word, ...]) -> None:
        self.words = words


def branches(words: tuple[Word, ...], first: int, end: int, depth: int) -> Iterator[tuple[int, int, int]]:
    """(byte, first, end): how the sorted words[first:end], which agree on `depth` bytes, go on."""
    while first < end:
        byte = words[first][0][depth]
        stop = first + 1
        while stop < end and words[stop][0][depth] == byte:
            stop += 1
        yield byte, first, stop
        first = stop


def words_start(machine: Machine, words: tuple[Word, ...]) -> int:
    """The state before one of the sorted `words`, each of which leads to its state."""
    return _among(machine, WordList(words), 0, len(words), 0)


def _among(machine: Machine, names: WordList, first: int, end: int, depth: int) -> int:
    """The state inside one of words[first:end], which agree on `depth` bytes."""
    if end - first == 1:
        word, then = names.words[first]
        return machine.literal(word, then) + depth
    return machine.state((expand_words, names, first, end, depth))


def expand_words(machine: Machine, names: WordList, first: int, end: int, depth: int) -> Transitions:
    """Inside one of words[first:end], which agree on `depth` bytes; each leads to its state."""
    groups = bytearray(256)
    actions = [0]
    for byte, low, high in branches(names.words, first, end, depth):
        groups[byte] = len(actions)
        word, then = names.words[low]
        ends = high - low == 1 and len(word) == depth + 1
        actions.append(goto(then if ends else _among(machine, names, low, high, depth + 1)))
    return Transitions(groups, actions)


class Inside(NamedTuple):
    """The transitions of a string state, as names beside it need them.

    Attributes:
        groups: the class of each byte.
        actions: the actions of the classes.
        follows: the state after each byte, 0 where there is none.
        shared: the actions as an array, int64[classes].
        maps: class maps in which one byte (-1 - byte: a byte that may not come) is in a class of its own.
        base: the state that names beside it rest on.
    """

    groups: bytes
    actions: list[int]
    follows: tuple[int, ...]
    shared: NDArray[np.int64]
    maps: dict[int, int]
    base: int


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
        groups = bytes(made.groups)
        base = int(machine.states[state, t.S_BASE])
        found = kept[state] = Inside(
            groups, made.actions, tuple([after[group] for group in groups]), np.array(made.actions, dtype=np.int64),
            machine.kept(("maps beside", groups), dict), base if base >= 0 else state,
        )  # fmt: skip
    return found


def key_start(machine: Machine, words: tuple[Word, ...], languages: Languages) -> int:
    """The start of a frame that reads a key: one of the sorted `words`, which takes precedence, or a word of `languages`."""
    return key_beside(machine, words, string_start(machine, languages, canonical=True))


def key_beside(machine: Machine, words: tuple[Word, ...], inside: int) -> int:
    """`key_start` for the start of the string that reads the languages."""
    return _beside(machine, words, inside) if words else inside


def _beside(machine: Machine, words: tuple[Word, ...], inside: int) -> int:
    """The state in which both the sorted `words` and what the string state `inside` reads are possible.

    It is known by the words alone, so that objects with names in common share it.
    """
    if len(words) == 1:
        return _one_beside(machine, *words[0], inside)
    known = machine.state_count
    state = machine.state((expand_beside, words, inside))
    if state == known and inside:
        machine.rest_on(state, _inside(machine, inside).base, 0)
    return state


def expand_beside(machine: Machine, words: tuple[Word, ...], inside: int) -> Transitions:
    """Where what comes may be one of the words, or whatever the string state `inside` lets follow."""
    string = _inside(machine, inside)
    groups, actions, follows = bytearray(string.groups), list(string.actions), string.follows
    rests: dict[int, list[Word]] = {}
    for word, outcome in words:
        rests.setdefault(word[0], []).append((word[1:], outcome))
    for byte, rest in rests.items():
        if rest[0][0]:
            action = goto(_beside(machine, tuple(rest), follows[byte]))
        elif rest[0][1] == BARRED:
            groups[byte] = 0
            continue
        else:
            action = pop_after(rest[0][1])
        groups[byte] = len(actions)
        actions.append(action)
    return Transitions(groups, actions)


def _one_beside(machine: Machine, rest: bytes, outcome: int, inside: int) -> int:
    """`_beside` for a single word: a run of states, made at once where `inside` comes back to itself on its bytes."""
    key = (expand_one_beside, rest, outcome, inside, 0)
    known = machine.known(key)
    if known is not None:
        return known
    if inside:
        string = _inside(machine, inside)
        follows = string.follows
        if all([follows[byte] == inside for byte in rest[:-1]]):
            return _run_beside(machine, rest, outcome, string, key)
    state = machine.state(key)
    if inside:
        machine.rest_on(state, string.base, 0)
    return state


def expand_one_beside(machine: Machine, rest: bytes, outcome: int, inside: int, offset: int) -> Transitions:
    """Where the rest of a name may be `rest[offset:]`, or whatever the string state `inside` lets follow."""
    return expand_beside(machine, ((rest[offset:], outcome),), inside)


def _run_beside(machine: Machine, rest: bytes, outcome: int, string: Inside, key: tuple[object, ...]) -> int:
    length, width = len(rest), len(string.actions)
    first = machine.new_run(key, length)
    maps = string.maps
    codes = list(rest)
    if outcome == BARRED:
        codes[-1] = -1 - codes[-1]
    numbers = []
    for code in codes:
        number = maps.get(code)
        if number is None:
            groups = bytearray(string.groups)
            groups[code if code >= 0 else -1 - code] = width if code >= 0 else 0
            number = maps[code] = machine.map_number(bytes(groups))
        numbers.append(number)
    last = goto(0) if outcome == BARRED else pop_after(outcome)
    block = machine.new_actions(length * (width + 1))
    write_beside(
        machine.states, machine.actions, np.array(numbers, dtype=np.int32), string.shared, first, block, last, string.base
    )  # fmt: skip
    return first
