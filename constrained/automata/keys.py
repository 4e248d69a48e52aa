"""Keys of objects: tries of declared names, alone or beside a language of undeclared ones."""

from __future__ import annotations

import json
from collections.abc import Iterator

from constrained.automata.machine import Machine
from constrained.automata.strings import Languages, string_start
from constrained.automata.transitions import Transitions
from constrained.kernels import tables as t
from constrained.kernels.tables import goto, pop_after

Word = tuple[bytes, int]
"""The bytes of a name up to and including the closing quote, and the state or outcome that it leads to."""

DECLARED = 1 << 22
"""Outcomes of a key frame from here on are numbers of declared names; below, bit sets of languages."""


def encoded_key(name: str) -> bytes:
    """A name as JSON printers write it, without the opening quote."""
    return json.dumps(name, ensure_ascii=False)[1:].encode("utf-8", "surrogatepass")


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


def key_start(machine: Machine, words: tuple[Word, ...], languages: Languages, canonical: bool) -> int:
    """The start of a frame that reads a key: one of `words` (in canonical escapes), or a word of `languages`.

    The languages must not hold the words.
    """
    inside = string_start(machine, languages, canonical)
    return _beside(machine, words, 0, len(words), 0, inside) if words else inside


def _beside(machine: Machine, words: tuple[Word, ...], first: int, end: int, depth: int, inside: int) -> int:
    known = machine.state_count
    state = machine.state((expand_beside, words, first, end, depth, inside))
    if state == known and inside:
        base = int(machine.states[inside, t.S_BASE])
        machine.rest_on(state, base if base >= 0 else inside, 0)
    return state


def expand_beside(
    machine: Machine, words: tuple[Word, ...], first: int, end: int, depth: int, inside: int
) -> Transitions:
    """Where both the words[first:end], `depth` bytes of them read, and the string state `inside` are possible."""
    made = machine.transitions(inside)
    groups, actions = bytes(made.groups), list(made.actions)
    for byte, low, high in branches(words, first, end, depth):
        if len(words[low][0]) == depth + 1:
            made.on(byte, byte, pop_after(words[low][1]))
            continue
        action = actions[groups[byte]]
        follows = action & t.OPERAND_MASK if groups[byte] and action >> t.KIND_SHIFT == t.GOTO else 0
        made.on(byte, byte, goto(_beside(machine, words, low, high, depth + 1, follows)))
    return made
