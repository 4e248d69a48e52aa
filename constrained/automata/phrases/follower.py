"""Which phrases a text holds, read byte by byte (Aho and Corasick 1975).

A state is what of the text may still become a phrase, and which of the required phrases have come.  What only a phrase that
has come already could go on with is forgotten, so texts that make no difference any more are in the same state.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from grammars.errors import LimitExceeded

DEAD = -1
MOST_BYTES = 20_000
"""Bytes of all phrases together."""
LONGEST = 2_000
"""Bytes of one phrase."""

State = tuple[int, bytes]
"""The required phrases that have come, as a bit set, and the longest end of the text that begins a phrase."""


class Follower:
    """The automaton of required and banned phrases; states are numbers, made when they are reached.

    Attributes:
        start: the state before the first byte.
    """

    def __init__(self, required: Iterable[str], banned: Iterable[str]) -> None:
        """
        Raises:
            LimitExceeded: the phrases are too long together.
        """
        self.required = tuple(phrase.encode() for phrase in required)
        self.banned = frozenset(phrase.encode() for phrase in banned)
        sizes = [len(phrase) for phrase in (*self.required, *self.banned)]
        if sum(sizes) > MOST_BYTES or max(sizes, default=0) > LONGEST:
            raise LimitExceeded(
                f"phrases have at most {LONGEST:,} bytes each and {MOST_BYTES:,} together; these have up to "
                f"{max(sizes):,}, and {sum(sizes):,}"
            )
        self.all = (1 << len(self.required)) - 1
        self._followed = lru_cache(maxsize=None)(self._follow)
        self._numbers: dict[State, int] = {}
        self._states: list[State] = []
        self._moves: list[tuple[int, ...] | None] = []
        self._splits: dict[int, tuple[tuple[int, int], ...]] = {}
        self.start = self._number((0, b""))

    def state(self, number: int) -> State:
        """What a number stands for."""
        return self._states[number]

    def is_final(self, number: int) -> bool:
        """Whether all required phrases have come."""
        return self._states[number][0] == self.all

    def root(self, number: int) -> int:
        """The state of a text that holds as much and ends in nothing that begins a phrase."""
        return self._number((self._states[number][0], b""))

    def moves(self, number: int) -> tuple[int, ...]:
        """The states after each of the 256 bytes, DEAD where a banned phrase has come."""
        made = self._moves[number]
        if made is None:
            made = self._moves[number] = self._made(*self._states[number])
        return made

    def after(self, number: int, data: bytes) -> int:
        """The state after some bytes, or DEAD."""
        for byte in data:
            number = self.moves(number)[byte]
            if number == DEAD:
                break
        return number

    def split(self, number: int) -> tuple[tuple[int, int], ...]:
        """`moves` by target: (bytes as a bit set, state)."""
        found = self._splits.get(number)
        if found is None:
            sets: dict[int, int] = {}
            for byte, target in enumerate(self.moves(number)):
                sets[target] = sets.get(target, 0) | 1 << byte
            found = self._splits[number] = tuple((bits, target) for target, bits in sets.items() if target != DEAD)
        return found

    def distance(self, number: int) -> int:
        """Bytes that are missing at least until all required phrases have come."""
        have, end = self._states[number]
        least = 0
        for index, phrase in enumerate(self.required):
            if not have >> index & 1:
                least = max(least, len(phrase) - _overlap(end, phrase))
        return least

    def ends(self, last: frozenset[int], most: int) -> list[int] | None:
        """All states of texts that end in one of the bytes `last`; None where they are more than `most`."""
        found: dict[int, None] = {}
        if 1 << len(self.required) > most:
            return None
        for have in range(self.all + 1):
            found[self._number((have, b""))] = None
            for begun in self._followed(have)[0]:
                if begun and begun[-1] in last:
                    found[self._number((have, begun))] = None
            if len(found) > most:
                return None
        return list(found)

    def _number(self, state: State) -> int:
        number = self._numbers.get(state)
        if number is None:
            number = self._numbers[state] = len(self._states)
            self._states.append(state)
            self._moves.append(None)
        return number

    def _follow(self, have: int) -> tuple[dict[bytes, bytes], frozenset[bytes]]:
        """The proper beginnings of the phrases that matter, each with the bytes that go on, and these phrases."""
        phrases = self.banned.union(phrase for index, phrase in enumerate(self.required) if not have >> index & 1)
        going: dict[bytes, set[int]] = {b"": set()}
        for phrase in phrases:
            for at, byte in enumerate(phrase):
                going.setdefault(phrase[:at], set()).add(byte)
        return {begun: bytes(sorted(after)) for begun, after in going.items()}, phrases

    def _made(self, have: int, end: bytes) -> tuple[int, ...]:
        going, phrases = self._followed(have)
        targets = [self._number((have, b""))] * 256
        known: set[int] = set()
        for at in range(len(end) + 1):
            begun = end[at:]
            for byte in going.get(begun, b""):
                if byte not in known:
                    known.add(byte)
                    targets[byte] = self._reached(have, begun + bytes([byte]), phrases)
        return tuple(targets)

    def _reached(self, have: int, end: bytes, phrases: frozenset[bytes]) -> int:
        """The state of a text whose longest end that begins a phrase, or is one, is `end`."""
        ended = [end[at:] for at in range(len(end)) if end[at:] in phrases]
        if not self.banned.isdisjoint(ended):
            return DEAD
        for phrase in ended:
            have |= sum(1 << index for index, one in enumerate(self.required) if one == phrase)
        going = self._followed(have)[0]
        return self._number((have, next(end[at:] for at in range(len(end) + 1) if end[at:] in going)))


def _overlap(end: bytes, phrase: bytes) -> int:
    """How much of a phrase the end of a text has already."""
    return next((size for size in range(min(len(end), len(phrase)), 0, -1) if end.endswith(phrase[:size])), 0)
