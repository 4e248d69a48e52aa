"""How disjoint sets of characters are told apart byte by byte: worked out once for the sets, filled in for each state.

Strings whose next characters fall into the same sets have the same class map; only where each set leads differs.
"""

from __future__ import annotations

from typing import Any

from constrained.automata import code_points
from constrained.automata.code_points import Ranges, expand_continuation, expand_rest, spelling
from constrained.automata.machine import Machine
from constrained.automata.transitions import Transitions
from constrained.kernels.branches import ALL_WIDE, MOST_WIDE
from constrained.kernels.tables import WIDE_SPACES, goto
from grammars.memory import remembered
from grammars.regular import Rx
from grammars.regular.rx import MAX_CODE_POINT

QUOTE, BACKSLASH = 0x22, 0x5C
_BARE = ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x7F))
WIDE_CHARACTERS = 0x110000 - 0x800 - 0x80
SURROGATES = (0xD800, 0xDFFF)


class CharacterClasses:
    """The classes of first bytes for disjoint sets of characters; compared by identity.

    Attributes:
        sets: the sets (nodes of kind CHARS).
        groups: class of each byte, 0 where no character begins.
        single: for classes 1 and on, the set that a character of one byte is in.
        leads: for the classes after those, what may follow: (code points still possible, pieces (low, high, set)).
        wide: the set that holds every character outside ASCII, but for some of WIDE_SPACES, or -1.
        wide_flags: which, see `wide_flags`.
        needless: whether some character may be written as an escape though it need not be.
        needed: whether some character has to be written as an escape.
    """

    __slots__ = ("_closed", "groups", "leads", "needed", "needless", "sets", "single", "wide", "wide_flags")

    def __init__(self, sets: tuple[Rx, ...], in_string: bool) -> None:
        self.sets = sets
        groups = bytearray(256)
        single = []
        for index, characters in enumerate(sets):
            ranges = bare_ascii(characters) if in_string else spelling(characters).ascii
            if ranges:
                single.append(index)
                for low, high in ranges:
                    for byte in range(low, high + 1):
                        groups[byte] = len(single)
        leads: dict[tuple[int, tuple[tuple[int, int, int], ...]], int] = {}
        for byte, pieces in _lead_pieces(sets).items():
            groups[byte] = len(single) + 1 + leads.setdefault(pieces, len(leads))
        self.groups = bytes(groups)
        self._closed: list[bytes | None] = [self.groups, None, None, None]
        self.single = tuple(single)
        self.leads = tuple(leads)
        flags = [wide_flags(characters) if characters.a[-1][1] == MAX_CODE_POINT else 0 for characters in sets]
        self.wide = next((index for index, found in enumerate(flags) if found), -1)
        self.wide_flags = flags[self.wide] if flags else 0
        ascii_ranges = sorted([piece for characters in sets for piece in spelling(characters).ascii])
        self.needed = any(
            low < 0x20 or low <= byte <= high for low, high in ascii_ranges for byte in (QUOTE, BACKSLASH)
        )
        self.needless = any(high >= 0x7F for characters in sets for _, high in characters.a) or _covers(ascii_ranges)

    def closed(self, escapes: bool, ends: bool) -> bytes:
        """`groups`, and behind them a class for the backslash if there are `escapes`, and one for the quote if it `ends`."""
        which = escapes + 2 * ends
        found = self._closed[which]
        if found is None:
            groups = bytearray(self.groups)
            kinds = 1 + len(self.single) + len(self.leads)
            if escapes:
                groups[BACKSLASH] = kinds
            if ends:
                groups[QUOTE] = kinds + escapes
            found = self._closed[which] = bytes(groups)
        return found


@remembered(8192)
def character_classes(sets: tuple[Rx, ...], in_string: bool) -> CharacterClasses:
    """The classes for `sets`; `in_string`: of JSON strings, in which some characters cannot stand for themselves."""
    return CharacterClasses(sets, in_string)


def actions_of(machine: Machine, classes: CharacterClasses, states: tuple[int, ...]) -> list[int]:
    """The actions of the classes of first bytes, where sets lead to `states`; that at the end of the text comes first."""
    actions = [0]
    actions += [goto(states[index]) for index in classes.single]
    if classes.leads:
        key = (expand_led, classes, states, 0)
        led = machine.known(key)
        if led is None:
            led = machine.new_run(key, len(classes.leads))
        actions += range(goto(led), goto(led) + len(classes.leads))
    return actions


def expand_led(machine: Machine, classes: CharacterClasses, states: tuple[int, ...], number: int) -> Transitions:
    """After the first byte of a character of class `leads[number]`."""
    size, pieces = classes.leads[number]
    first = pieces[0][2]
    if all(index == first for _, _, index in pieces):
        return expand_rest(machine, size, tuple([(low, high) for low, high, _ in pieces]), states[first])
    return expand_continuation(machine, size, tuple([(low, high, states[index]) for low, high, index in pieces]))


def bytes_of_character(key: tuple[Any, ...]) -> tuple[int, frozenset[int]] | None:
    """Of the key of a state inside a character: the bytes that are left of it, and the states after it; None of others."""
    kind = key[0]
    if kind is expand_rest:
        size, states = key[1], frozenset((key[3],))
    elif kind is code_points.expand_led:
        size, states = spelling(key[1]).leads[key[3]][2], frozenset((key[2],))
    elif kind is expand_continuation:
        size, states = key[1], frozenset(state for _, _, state in key[2])
    elif kind is expand_led:
        size, pieces = key[1].leads[key[3]]
        states = frozenset(key[2][index] for _, _, index in pieces)
    else:
        return None
    return {64: 1, 4096: 2, 262144: 3}[size], states


def _lead_pieces(sets: tuple[Rx, ...]) -> dict[int, tuple[int, tuple[tuple[int, int, int], ...]]]:
    taken: dict[int, tuple[int, list[tuple[int, int, int]]]] = {}
    for index, characters in enumerate(sets):
        for first, last, size, rest in spelling(characters).leads:
            for lead in range(first, last + 1):
                taken.setdefault(lead, (size, []))[1].extend((low, high, index) for low, high in rest)
    return {lead: (size, tuple(sorted(pieces))) for lead, (size, pieces) in taken.items()}


def bare_ascii(characters: Rx) -> Ranges:
    """Ranges of the ASCII characters of a set that may stand for themselves in a JSON string."""
    return tuple(
        (max(low, first), min(high, last))
        for low, high in spelling(characters).ascii
        for first, last in _BARE
        if low <= last and high >= first
    )


def is_bare(word: str) -> bool:
    """Whether a word has one spelling only in a JSON string: printable ASCII characters that need no escape."""
    return word.isascii() and word.isprintable() and '"' not in word and "\\" not in word


def wide_flags(characters: Rx) -> int:
    """ALL_WIDE if a set holds every character outside ASCII, MOST_WIDE if it lacks none but WIDE_SPACES, else 0."""
    missing = []
    reached = 0x80
    for low, high in (*characters.a, (0x110000, 0x110000)):
        if low > reached:
            missing.append((reached, low - 1))
        reached = max(reached, high + 1)
    missing = [(low, high) for low, high in missing if (low, high) != SURROGATES]
    if not missing:
        return ALL_WIDE
    spaces = all(any(first <= low and high <= last for first, last in WIDE_SPACES) for low, high in missing)
    return MOST_WIDE if spaces else 0


def _covers(ranges: list[tuple[int, int]]) -> bool:
    """Whether sorted ranges cover the printable ASCII characters."""
    reached = 0x20
    for low, high in ranges:
        if low > reached:
            break
        reached = max(reached, high + 1)
    return reached > 0x7E
