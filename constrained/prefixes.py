"""How far a text agrees with a grammar, whatever its tokenisation."""

from __future__ import annotations

from functools import lru_cache

from constrained.matcher import Matcher
from constrained.vocabulary import Vocabulary


def advance(matcher: Matcher, vocabulary: Vocabulary, data: bytes) -> int:
    """Commits as much of `data` as the grammar allows; returns the number of bytes."""
    by_bytes = _by_bytes(vocabulary)
    position = 0
    while position < len(data):
        longest = min(vocabulary.longest_token, len(data) - position)
        for length in range(longest, 0, -1):
            found = by_bytes.get(data[position : position + length])
            if found is not None and matcher.accept_many([found]):
                position += length
                break
        else:
            return position
    return position


def character_start(data: bytes, position: int) -> int:
    """Where the character that holds the byte at `position` begins."""
    while position and data[position] & 0xC0 == 0x80:
        position -= 1
    return position


@lru_cache(maxsize=2)
def _by_bytes(vocabulary: Vocabulary) -> dict[bytes, int]:
    found: dict[bytes, int] = {}
    for token, text in enumerate(vocabulary.tokens):
        if text:
            found.setdefault(text, token)
    return found
