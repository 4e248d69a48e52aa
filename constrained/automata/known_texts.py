"""Completions that have been found, for searches that come to where an earlier one has been.

What is left of a shortest completion is a shortest one of each configuration that it goes through.  So one search serves the
masks that follow it, and those of other texts that come to the same place.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from constrained.automata.stacks import Stack

_MOST_ENTRIES = 20_000
_MOST_BYTES = 8 << 20

Configuration = tuple[int, Stack]


class Known(NamedTuple):
    """A text that leads to the end of a sentence, and whether it is known to be a shortest one."""

    text: bytes
    is_shortest: bool


class KnownTexts:
    """Completions by configuration; the ones that were noted first go first when there are too many."""

    def __init__(self) -> None:
        self._known: OrderedDict[Configuration, Known] = OrderedDict()
        self._bytes = 0
        self.get = self._known.get

    def note(self, configuration: Configuration, text: bytes, *, is_shortest: bool) -> None:
        """Keep a completion, unless a better one is known."""
        old = self._known.get(configuration)
        if old is not None:
            if len(text) > len(old.text) or (len(text) == len(old.text) and old.is_shortest >= is_shortest):
                return
            self._bytes -= len(old.text)
        self._known[configuration] = Known(text, is_shortest)
        self._bytes += len(text)
        while len(self._known) > _MOST_ENTRIES or self._bytes > _MOST_BYTES:
            _, gone = self._known.popitem(last=False)
            self._bytes -= len(gone.text)

    def note_rests(self, text: bytes, passed: Iterable[tuple[int, Configuration]], *, is_shortest: bool) -> None:
        """Keep what is left of a completion after so many bytes, for each configuration that it goes through there."""
        for read, configuration in passed:
            self.note(configuration, text[read:], is_shortest=is_shortest)
