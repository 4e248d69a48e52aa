"""Shortest completions of one machine over one vocabulary, in bytes and in tokens, memoised."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from constrained.automata.character_classes import bytes_of_character
from constrained.automata.completions import Completions
from constrained.automata.configurations import COSTS
from constrained.automata.frame_costs import is_of_one_text
from constrained.automata.machine import expand_literal
from constrained.automata.scalars import numbers_at_hand
from constrained.automata.settling import doubted, forgetful, wants_new_key
from constrained.automata.stacks import Stack
from constrained.automata.strings import expand_string, plain_length
from constrained.automata.waits import outcomes
from constrained.kernels import survey as s
from constrained.kernels.survey import FAR
from constrained.masks.row_store import RowStore
from constrained.vocabulary import Trie, Vocabulary
from grammars.effort import Timed
from grammars.errors import LimitExceeded
from grammars.regular import shortest_length

_ALL_ASCII = 128
"""With so many bytes that are tokens by themselves, the printable ones are among them."""
_ALL_BYTES = 256
_MOST_KEPT = 20_000
_NEW_KEY = 4
"""Bytes by which a key can have to be longer than the shortest because others have come before (there are 95^4 of them)."""


def _single_bytes(trie: Trie) -> bytes:
    """The bytes that are tokens by themselves."""
    alone = (trie.depth == 1) & (trie.token_start[1:] > trie.token_start[:-1])
    return bytes(trie.byte[alone])


class CompletionStore:
    """What budgets and `shortest_completion` share.

    Attributes:
        costs: int32[states], bytes from a state to the end of its frame, -1 where not computed yet.
        growth: for a row, by how many bytes its worst token raises the need of a configuration.
        parted: uint8[nodes], whether a token below a node of the trie ends inside a character.
        frames, ranges, kinds: scratch of the survey kernel.
    """

    def __init__(self, store: RowStore, vocabulary: Vocabulary) -> None:
        self._machine = store.machine
        self._trie = vocabulary.trie  # not the vocabulary itself, which keys the store weakly
        self._spellable = _single_bytes(vocabulary.trie)
        self._frame_costs: list[Callable[[int], int | None]] = []
        self._search = Completions(store.machine, frozenset(self._spellable))
        self.costs: NDArray[np.int32] = np.full(store.limits.states, -1, dtype=np.int32)
        self.growth: dict[int, int] = {}
        self.frames: NDArray[np.int32] = np.zeros((store.machine.horizon + 2, s.FRAME_COLUMNS), dtype=np.int32)
        most = len(store.tokens.token_ids) + 1
        self.parted: NDArray[np.uint8] = np.empty(len(store.tokens.nodes), dtype=np.uint8)
        s.note_parted(store.tokens.nodes, store.tokens.bytes, np.empty_like(self.parted), self.parted)
        self.ranges: NDArray[np.int32] = np.empty((most, s.RANGE_COLUMNS), dtype=np.int32)
        self.kinds: NDArray[np.int32] = np.empty((most, s.KIND_COLUMNS), dtype=np.int32)
        self._enough: OrderedDict[tuple[int, Stack], int] = OrderedDict()
        self._tokens: OrderedDict[tuple[int, Stack], tuple[int, ...]] = OrderedDict()

    def timed(self) -> Timed:
        """The time of a step, for blocks of one thread."""
        return self._machine.limits.timed()

    def text(self, state: int, stack: Stack) -> bytes:
        """One shortest completion of a configuration."""
        known = self._search.known.get((state, stack))
        if known is not None:
            return known.text
        with self._machine.lock, self._machine.timed:
            return self._search.shortest(state, stack)

    def tokens(self, state: int, stack: Stack) -> tuple[int, ...]:
        """The fewest tokens that spell a shortest completion, without the end token.

        Raises:
            LimitExceeded: the vocabulary cannot spell it.
        """
        found = self._tokens.get((state, stack))
        if found is None:
            found = self._tokens[state, stack] = self._spelled_in_tokens(self.text(state, stack))
            while len(self._tokens) > _MOST_KEPT:
                self._tokens.popitem(last=False)
        return found

    def fewer_tokens(self, state: int, stack: Stack) -> tuple[int, ...]:
        """`tokens`, where those are too many: the search goes on further."""
        known = self.tokens(state, stack)
        with self._machine.lock, self._machine.timed:
            data = self._search.shortest(state, stack, thorough=True)
        found = self._spelled_in_tokens(data)
        if len(found) >= len(known):
            return known
        self._tokens[state, stack] = found
        return found

    def _spelled_in_tokens(self, data: bytes) -> tuple[int, ...]:
        spelled = self._trie.shortest_tokenization(data)
        if spelled is None:
            raise LimitExceeded(f"the vocabulary has no tokens for the completion {data[:80]!r}")
        return tuple(spelled)

    def is_exact(self, state: int, stack: Stack) -> bool:
        """Whether what a configuration needs does not depend on which keys or items have come."""
        return (stack is None or len(stack) == 2) and not wants_new_key(self._machine, state)

    def tokens_at_most(self, state: int, stack: Stack) -> int:
        """Tokens that are enough to complete a configuration in which it may not be known which keys have come."""
        if self.is_exact(state, stack):
            return len(self.tokens(state, stack))
        found = self._enough.get((state, stack))
        if found is None:
            with self._machine.lock, self._machine.timed:
                new_key = wants_new_key(self._machine, state)
                data = self._search.shortest_by_any_key(state, stack) if new_key else self._search.near(state, stack)
            spelled = None if data is None else self._trie.shortest_tokenization(data)
            found = FAR if spelled is None else len(spelled) + _NEW_KEY * new_key
            self._enough[state, stack] = found
            while len(self._enough) > _MOST_KEPT:
                self._enough.popitem(last=False)
        return found

    def _spelled(self, data: bytes) -> int:
        """The number of tokens for `data` if each byte is one; far too many where a byte is none."""
        return FAR if data.translate(None, self._spellable) else len(data)

    def _leaving(self, state: int) -> int:
        """Single-byte tokens from `state` to the end of its frame, whatever text an open state stands for."""
        if wants_new_key(self._machine, state):
            return min(
                FAR, self._spelled(self._search.shortest_by_any_key(state, (self._machine.done, None))) + _NEW_KEY
            )
        free = forgetful(self._machine, state)
        if free == state:
            way = self._search.way_out(state, self._known_cost)
            if way is None:
                return self._spelled(self._search.leaving(state))
            for passed, cost in way.costs():
                self.costs[passed] = min(cost, FAR)
            return way.length
        if free is None:
            return FAR
        try:
            best = self._search.leaving(free)
            others = [self._search.leaving(one) for one in doubted(self._machine, free, best)]
        except LimitExceeded:
            return FAR
        return max(self._spelled(data) for data in (best, *others))

    def _known_cost(self, state: int) -> int:
        return int(self.costs[state])

    def _cost_of_kind(self, state: int) -> int | None:
        """The cost of a state of a kind that has a way of its own to tell; None of others."""
        while len(self._frame_costs) < len(COSTS):  # a kind has come into use
            self._frame_costs.append(COSTS[len(self._frame_costs)](self._machine, self._spelled, self.cost))
        return next((cost for of in self._frame_costs if (cost := of(state)) is not None), None)

    def _plain(self, state: int) -> int | None:
        """The cost of the state of a string or a number where it is seen without a search; None elsewhere."""
        numbers = numbers_at_hand(self._machine, state)
        if numbers:
            return min(map(self._spelled, numbers))
        key = self._machine.key(state)
        if key[0] is expand_literal:
            _, data, then, offset = key
            return self._spelled(data[offset:]) + self.cost(then) if is_of_one_text(self._machine, then) else None
        if len(self._spellable) == _ALL_BYTES and (left := bytes_of_character(key)) is not None:
            size, states = left
            if 0 not in states and all(is_of_one_text(self._machine, state) for state in states):
                return size + min(map(self.cost, states))
        if key[0] is not expand_string or len(key[2]) != 1 or len(self._spellable) < _ALL_ASCII:
            return None
        length = plain_length(key[2][0])
        return None if length is None or length != shortest_length(key[2][0]) else length + 1

    def cost(self, state: int) -> int:
        """Single-byte tokens from `state` to the end of its frame; for a wait state, whatever the frame above is left with."""
        found = int(self.costs[state])
        if found < 0:
            with self._machine.lock, self._machine.timed:
                left_with = outcomes(self._machine, state)
                if (known := self._plain(state)) is not None or (known := self._cost_of_kind(state)) is not None:
                    found = known
                elif left_with is None:
                    found = self._leaving(state)
                else:
                    after = [self._machine.resolve(state, outcome) for outcome in left_with]
                    found = max((self.cost(then) for then in after if then), default=FAR)
                self.costs[state] = min(found, FAR)
        return int(self.costs[state])
