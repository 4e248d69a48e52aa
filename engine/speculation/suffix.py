"""Guesses from a suffix automaton over the text itself and over earlier outputs of the same group.

The automaton of a sequence has a state for each set of its substrings that end at the same places (Blumer et al. 1985, "The
smallest automaton recognizing the subwords of a text"); it grows by a token in constant time, and the state's suffix link
is the longest suffix of the text that stands elsewhere too.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from threading import Lock

from engine.speculation.draft import Frontier
from engine.speculation.proposer import Drafter

Match = tuple[int, int]
"""A state, and the length of its substring that is meant."""

NO_MATCH: Match = (0, 0)

_LONGEST_SOURCE = 8
"""Acceptance is counted by the length of the match, up to this."""

_LINKS = 8
"""Suffix links along which a new end is noted; shorter matches keep an older place."""


class SuffixAutomaton:
    """All substrings of one sequence of tokens, each with a place at which it ends.

    Attributes:
        tokens: the sequence.
    """

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self._next: list[dict[int, int]] = [{}]
        self._link, self._length, self._end = [-1], [0], [0]
        self._last = 0

    def extend(self, token: int) -> None:
        """Put a token at the end."""
        self.tokens.append(token)
        end = len(self.tokens)
        current = self._state({}, self._length[self._last] + 1, 0, end)
        at = self._last
        while at >= 0 and token not in self._next[at]:
            self._next[at][token] = current
            at = self._link[at]
        if at >= 0:
            there = self._next[at][token]
            if self._length[there] == self._length[at] + 1:
                self._link[current] = there
            else:
                clone = self._state(dict(self._next[there]), self._length[at] + 1, self._link[there], self._end[there])
                while at >= 0 and self._next[at].get(token) == there:
                    self._next[at][token] = clone
                    at = self._link[at]
                self._link[there] = self._link[current] = clone
        self._last = current

    def repeated(self) -> Match:
        """The longest suffix that stands earlier too."""
        link = self._link[self._last] if self._last else 0
        return link, self._length[link]

    def note_end(self) -> None:
        """The substrings that end here were last seen here."""
        at = self._link[self._last] if self._last else 0
        for _ in range(_LINKS):
            if at <= 0:
                return
            self._end[at] = len(self.tokens)
            at = self._link[at]

    def step(self, match: Match, token: int) -> Match:
        """From a match of the end of some text to that of the text with `token` behind it."""
        state, length = match
        # The automaton may have grown since: what was one state can be two, of which the shorter match has the other.
        while state and length <= self._length[self._link[state]]:
            state = self._link[state]
        while state and token not in self._next[state]:
            state = self._link[state]
            length = self._length[state]
        if token in self._next[state]:
            return self._next[state][token], length + 1
        return NO_MATCH

    def end(self, state: int) -> int:
        """A place behind the substrings of a state."""
        return self._end[state]

    def _state(self, following: dict[int, int], length: int, link: int, end: int) -> int:
        self._next.append(following)
        self._length.append(length)
        self._link.append(link)
        self._end.append(end)
        return len(self._next) - 1


class Suffix:
    """Looks for the longest end of the text that stands earlier in it, or in an output of the same group.

    The outputs of a group are kept up to `kept` tokens, and then begun anew; those of the `groups` used last are kept.
    """

    name, cost, draws, wants_state = "suffix", 0.0, False, False

    def __init__(self, shortest: int = 2, kept: int = 32_768, groups: int = 64) -> None:
        self.shortest, self.kept, self.groups = shortest, kept, groups
        self.lock = Lock()
        self._of_group: OrderedDict[Hashable, SuffixAutomaton] = OrderedDict()

    def begin(self, prompt: Sequence[int], group: Hashable = None) -> Drafter:
        with self.lock:
            others = None if group is None else self._of_group.get(group)
            if others is not None:
                self._of_group.move_to_end(group)
        return _SuffixDrafter(self, group, others)

    def learn(self, group: Hashable, output: Sequence[int]) -> None:
        """Keep a finished output for the requests of its group."""
        if group is None or not output:
            return
        with self.lock:
            automaton = self._of_group.get(group)
            if automaton is None or len(automaton.tokens) + len(output) >= self.kept:
                automaton = self._of_group[group] = SuffixAutomaton()  # those who read the old one keep it
            for token in output[: self.kept]:
                automaton.extend(token)
                automaton.note_end()
            automaton.extend(-1 - len(automaton.tokens))  # no substring goes beyond an output
            self._of_group.move_to_end(group)
            while len(self._of_group) > self.groups:
                self._of_group.popitem(last=False)


class _SuffixDrafter:
    def __init__(self, proposer: Suffix, group: Hashable, others: SuffixAutomaton | None) -> None:
        self._proposer, self._group, self._others = proposer, group, others
        self._own = SuffixAutomaton()
        self._match = NO_MATCH
        self._matched = 0

    def propose(self, frontier: Frontier, most: int) -> None:
        own = self._own
        for token in frontier.tokens[len(own.tokens) : frontier.length]:
            own.extend(token)
        best, following = self._follow(own, own.repeated(), frontier, most)
        own.note_end()
        if self._others is not None:
            with self._proposer.lock:
                begin = max(self._matched, frontier.prompt_length)
                for token in frontier.tokens[begin : frontier.length]:
                    self._match = self._others.step(self._match, token)
                self._matched = frontier.length
                length, tokens = self._follow(self._others, self._match, frontier, most)
            if length > best:
                best, following = length, tokens
        if following:
            frontier.extend(following, f"suffix{min(best, _LONGEST_SOURCE)}")

    def _follow(self, automaton: SuffixAutomaton, match: Match, frontier: Frontier, most: int) -> tuple[int, list[int]]:
        """Length of the match at the frontier, and what followed it."""
        for drafted in frontier.draft:
            match = automaton.step(match, drafted.token_id)
        state, length = match
        if length < self._proposer.shortest:
            return 0, []
        place = automaton.end(state)
        following = automaton.tokens[place : place + most]
        separator = next((at for at, token in enumerate(following) if token < 0), len(following))
        return length, following[:separator]

    def close(self, output: Sequence[int]) -> None:
        self._proposer.learn(self._group, output)
