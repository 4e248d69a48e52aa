"""The byte-level pushdown machine of one vocabulary: its tables, and the making of states on demand.

A state is a *key*: a tuple whose first item is the function that expands it.  Keys are interned, so equal languages are
one state across all constraints on the vocabulary; what was once computed for a state serves them all.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from constrained.automata.declarations import Declarations
from constrained.automata.machine_kernels import FIRST_MEMO, copied_memo, load_kernels
from constrained.automata.object_tables import ObjectTables
from constrained.automata.state_keys import Key, Series, StateKeys
from constrained.automata.transitions import Transitions
from constrained.kernels import tables as t
from constrained.kernels.branches import L_KNOWN, LOOP_COLUMNS, NOT_KEPT
from constrained.kernels.handles import T_ACTIONS, T_MAPS, T_MEMO_USED, T_STATES, TABLES, handles_of
from constrained.kernels.machine import memo_find, memo_insert
from constrained.kernels.object_keys import settled_table
from constrained.kernels.object_places import make_piece
from constrained.kernels.object_tables import N_ACTIONS, N_MAPS, N_STATES, ORIGIN_COLUMNS
from constrained.kernels.runs import write_literal
from constrained.kernels.walk_registers import REGISTERS as WALK_REGISTERS
from constrained.kernels.walk_registers import W_DETAIL, W_OUTCOME
from constrained.limits import DEFAULT_LIMITS, Limits
from constrained.memory import reserved
from constrained.turn_lock import TurnLock
from grammars.effort import spend
from grammars.errors import LimitExceeded
from grammars.regular.rx import table_bytes

if TYPE_CHECKING:
    from constrained.vocabulary.token_table import TokenTable

Expand = Callable[..., Transitions]


class Run(Protocol):
    """Consecutive states that are told apart by their place alone, so that naming one makes no key."""

    def key(self, offset: int) -> Key:
        """What the state at a place stands for: the key that it would have alone."""

    def expand(self, machine: Machine, state: int, offset: int) -> None:
        """Give `state`, the one at a place, its transitions (`Machine.define`)."""


_ACTIONS_PER_STATE = 6
_MAPS = 1 << 16
_STATES_AT_ONCE = 1024


class Machine(Declarations):
    """States, transitions and the memo of pops.

    Arrays are reserved at their full size (memory is used only where it is written), so they never move while kernels
    read them without a lock; only the memo is replaced when it grows.  All writes happen under `lock`.

    Attributes:
        horizon: bytes of the longest token; no walk looks further ahead.
        states, maps, actions, loops, memo: the tables of `constrained.kernels.tables`.
        settled: open commas and the keys before them, see `constrained.kernels.object_keys`.
        objects: objects whose states kernels make.
        handles: those tables by their slots, for kernels that make states.
        piece: int64[n], registers for them (`constrained.kernels.walk_registers`).
        memo_used: int64[1], how many entries the memo has; kernels count in it, too.
        done: the state after a complete text.
        tokens: the tokens whose names grammars may use, where special ones have bytes (`constrained.vocabulary.spelled`).
        timed: bounds the time of a step; entered by whoever has the lock.
        source_bytes: memory of the grammars that were compiled, about: their texts, what was read from them.
    """

    def __init__(self, horizon: int, limits: Limits = DEFAULT_LIMITS) -> None:
        self.horizon = horizon
        self.tokens: TokenTable | None = None
        self.limits = limits
        self.lock = TurnLock()
        self.timed = limits.timed()
        count = limits.states
        self.states: NDArray[np.int32] = reserved((count, t.STATE_COLUMNS), np.int32)
        self.maps: NDArray[np.uint8] = reserved(((_MAPS + 1) * 256,), np.uint8)  # the last one is for drafts
        self.actions: NDArray[np.int64] = reserved((count * _ACTIONS_PER_STATE,), np.int64)
        self._most_actions = count * _ACTIONS_PER_STATE
        self._state_items = self.states.data.cast("B").cast("i")  # quicker than numpy, an item at a time
        self._action_items = self.actions.data.cast("B").cast("q")
        self._map_items = self.maps.data
        self.loops: NDArray[np.uint64] = reserved((count, LOOP_COLUMNS), np.uint64)
        self._loop_items = self.loops.data.cast("B").cast("Q")
        self.memo: NDArray[np.int64] = np.full((FIRST_MEMO, 2), -1, dtype=np.int64)
        self.memo_used: NDArray[np.int64] = np.zeros(1, dtype=np.int64)
        self.settled = settled_table()
        self.objects = ObjectTables(count)
        self._counts = self.objects.counts.data.cast("B").cast("q")
        self._origin_items = self.objects.origins.data.cast("B").cast("i")
        self.handles = handles_of(TABLES, {
            T_STATES: self.states, T_MAPS: self.maps, T_ACTIONS: self.actions, T_MEMO_USED: self.memo_used, **self.objects.by_slot,
        })  # fmt: skip
        self.piece: NDArray[np.int64] = np.zeros(WALK_REGISTERS, dtype=np.int64)
        self._fresh_states = 0
        self._keys = StateKeys(count)
        self._runs: list[int] = []
        self._holders: dict[int, Run] = {}
        self._maps: dict[bytes, int] = {}
        self._kept: dict[Hashable, Any] = {}
        self._singles = 0
        self.source_bytes = 0
        self._least_languages = table_bytes()
        for groups in _SINGLE:
            self._new_map(groups)
        load_kernels(self)
        dead = self.state((_expand_dead,))
        assert dead == 0
        self.expand(dead)
        self.done = self.state((_expand_done,))
        self.expand(self.done)

    def state(self, key: Key) -> int:
        """The number of the state that `key` describes; made at the first call."""
        number = self._keys.number(key)
        if number is None:
            number = self._new_states(1)
            self._keys.add(key, number)
        return number

    def series(self, head: Key) -> Series:
        """The states whose keys begin with `head`, see `state_keys`."""
        return self._keys.series(head)

    def state_of(self, series: Series, kept: Hashable) -> int:
        """A new state of a series; `kept` is what its key ends with, or the only thing in there."""
        state = self._new_states(1)
        self._keys.add_to(series, kept, state)
        return state

    def key(self, state: int) -> Key:
        """What a state stands for."""
        key = self._keys.get(state)
        if key is None:
            key = self.objects.key(self, state)
        if key is None:
            first = self._runs[bisect_right(self._runs, state) - 1]
            holder = self._holders.get(first)
            if holder is not None:
                return holder.key(state - first)
            key = (*self.key(first)[:-1], state - first)
        return key

    def kept(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The one object filed under `key`; `make` is called for it the first time."""
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = make()
        return found

    def known(self, key: Key) -> int | None:
        """The state that `key` describes, if it was made already."""
        return self._keys.number(key)

    def literal(self, data: bytes, then: int) -> int:
        """The first of a run of states that spell `data` and go on in `then`; `then` itself if `data` is empty."""
        if not data:
            return then
        key = (expand_literal, data, then, 0)
        first = self._keys.number(key)
        if first is None:
            length = len(data)
            first = self.new_run(key, length)
            block = self.new_actions(2 * length)
            letters = np.frombuffer(data, dtype=np.uint8)
            write_literal(self.states, self.actions, letters, first, block, then, self._singles)
        return first

    def new_run(self, key: Key, length: int) -> int:
        """The first of `length` consecutive new states; `key` is that of the first and ends in 0, their offset."""
        first = self._new_states(length)
        self._keys.add(key, first)
        self._runs.append(first)
        return first

    def hold(self, run: Run, length: int) -> int:
        """The first of `length` consecutive new states that `run` names and expands."""
        first = self._new_states(length)
        self._holders[first] = run
        self._runs.append(first)
        return first

    def map_number(self, groups: bytes) -> int:
        """The number of a class map, 256 bytes."""
        number = self._maps.get(groups)
        return self._new_map(groups) if number is None else number

    def expand(self, state: int) -> None:
        """Give `state` its transitions, if it has none yet."""
        if self._state_items[state * t.STATE_COLUMNS + t.S_ACTIONS] >= 0:
            return
        spend()
        key = self._keys.get(state)
        if key is None and self._origin_items[state * ORIGIN_COLUMNS]:
            self._expand_by_kernel(state)
            return
        if key is None:
            first = self._runs[bisect_right(self._runs, state) - 1]
            holder = self._holders.get(first)
            if holder is not None:
                holder.expand(self, state, state - first)
                return
            key = self.key(state)
        made = key[0](self, *key[1:])
        if isinstance(made, int):  # the same language as a state that exists already
            self.expand(made)
            self.rest_on(state, made, self.horizon)
            self.states[state, t.S_MAP] = self.states[made, t.S_MAP]
            self.states[state, t.S_ACTIONS] = self.states[made, t.S_ACTIONS]
            return
        self.define(state, self.map_number(bytes(made.groups)), made.actions)

    def define_alike(self, state: int, action: int) -> None:
        """The transitions of a state that does the same before every byte and at the end of the text."""
        self.define(state, self.map_number(_ALIKE), (action, action))

    def _expand_by_kernel(self, state: int) -> None:
        """`expand` for a state of the tables of objects."""
        piece = self.piece
        while self._state_items[state * t.STATE_COLUMNS + t.S_ACTIONS] < 0:
            piece[W_DETAIL] = state
            status = make_piece(self.handles, self.memo, piece, t.UNKNOWN_STATE)
            if status != t.OK:
                self.supply(int(status), int(piece[W_DETAIL]), int(piece[W_OUTCOME]))

    def supply(self, status: int, missing: int, outcome: int) -> None:
        """Make what a kernel says is missing: a state, what follows a pop, or what it has to know of an object.

        Raises:
            LimitExceeded: the tables are full, or what is missing takes too long to make.
        """
        if status == t.UNKNOWN_STATE:
            self.expand(missing)
        elif status == t.UNKNOWN_POP:
            self.resolve(missing, outcome)
        elif status == t.UNKNOWN_MEMBER:
            spend()
            self.objects.look_at(self, missing, outcome)
        else:
            raise self.full()

    def full(self) -> LimitExceeded:
        """The error for tables that hold no more."""
        return LimitExceeded(f"more than {self.limits.states} states, or their tables are full (Limits.states)")

    def define(self, state: int, map_number: int, actions: Sequence[int]) -> None:
        """The transitions of `state`: its class map, and the actions at the end of the text and of each class."""
        counts = self._counts
        block = counts[N_ACTIONS]
        end = block + len(actions)
        if end > self._most_actions:
            self.new_actions(len(actions))
        counts[N_ACTIONS] = end
        self._action_items[block:end] = array("q", actions)
        at = state * t.STATE_COLUMNS
        self._state_items[at + t.S_MAP] = map_number
        self._state_items[at + t.S_ACTIONS] = (
            block  # last: readers without the lock take it as the sign that all is there
        )

    def transitions(self, state: int) -> Transitions:
        """A copy of the edges of `state`, which is expanded if need be."""
        self.expand(state)
        at, block = self.states[state, t.S_MAP] * 256, int(self.states[state, t.S_ACTIONS])
        groups = self.maps[at : at + 256].tobytes()
        return Transitions.copied(groups, self.actions[block : block + 1 + max(groups)].tolist())

    def action(self, state: int, byte: int) -> int:
        """What `state`, which is expanded if need be, does on a byte; 0: nothing."""
        self.expand(state)
        at = state * t.STATE_COLUMNS
        group = self._map_items[self._state_items[at + t.S_MAP] * 256 + byte]
        return self._action_items[self._state_items[at + t.S_ACTIONS] + group] if group else 0

    def may_end(self, state: int) -> bool:
        """Whether `state` takes the end of the text, as far as that is seen at once: what lies below has a say, too."""
        block = self._state_items[state * t.STATE_COLUMNS + t.S_ACTIONS]
        return block < 0 or self._action_items[block] != 0

    def resolve(self, wait: int, outcome: int) -> int:
        """The state that follows `wait` when the frame above was left with `outcome`; 0 if none does."""
        memo_key = t.POP_KEY | (wait << t.OUTCOME_BITS) | outcome
        found = int(memo_find(self.memo, memo_key))
        if found < 0:
            spend()
            key = self.key(wait)
            found = key[0](self, outcome, *key[1:])
            self.reserve_memo(1)
            memo_insert(self.memo, memo_key, found)
            self.memo_used[0] += 1
        return found

    def reserve_memo(self, more: int) -> None:
        """Make room for `more` entries at a load of at most one half."""
        needed = 2 * (int(self.memo_used[0]) + more)
        if needed > self.memo.shape[0]:
            self.memo = copied_memo(self.memo, needed)

    def forget_rows(self) -> None:
        """Forget what the memo and the states say about rows; pops stay.  Readers without the lock may see either."""
        keys = self.memo[:, 0]
        pops = self.memo[(keys >= t.POP_KEY) & (keys < t.WITHIN_KEY)]
        self.memo, self.memo_used[0] = copied_memo(pops, max(FIRST_MEMO, 2 * len(pops))), len(pops)
        self.states[: self.state_count, [t.S_ROW, t.S_LOCAL]] = -1
        self.loops[: self.state_count, L_KNOWN] &= ~np.uint64(NOT_KEPT)

    @property
    def state_count(self) -> int:
        """How many states there are."""
        return self._counts[N_STATES]

    @property
    def map_count(self) -> int:
        """How many class maps there are."""
        return self._counts[N_MAPS]

    def is_crowded(self) -> bool:
        """Whether half of what the machine can hold is used: states, or class maps."""
        return self.state_count * 2 > self.limits.states or self.map_count * 2 > _MAPS

    def bytes_used(self) -> int:
        """Memory of the tables in bytes, with an estimate for the keys of states, their languages, and the grammars' sources.

        Languages belong to the process; the ones made since there were fewest count here.
        """
        languages = table_bytes()
        self._least_languages = min(self._least_languages, languages)
        return (
            self.source_bytes + (languages - self._least_languages) +
            self.state_count * (t.STATE_COLUMNS * 4 + 8) + len(self._keys) * 600 + self._counts[N_ACTIONS] * 8
            + self.map_count * 320 + self.memo.nbytes + self.objects.bytes_used()
        )  # fmt: skip

    def _new_map(self, groups: bytes) -> int:
        number = self._counts[N_MAPS]
        if number >= _MAPS:
            raise LimitExceeded(f"the machine holds {_MAPS} distinct class maps, which is its limit")
        self.maps[number * 256 : number * 256 + 256] = np.frombuffer(groups, dtype=np.uint8)
        self._maps[groups] = number
        self._counts[N_MAPS] = number + 1
        return number

    def _new_states(self, count: int) -> int:
        first = self._counts[N_STATES]
        after = first + count
        if after > self._fresh_states:
            if after > self.limits.states:
                raise LimitExceeded(f"more than {self.limits.states} states (Limits.states)")
            end = min(after + _STATES_AT_ONCE, self.limits.states)
            self.states[first:end] = _FRESH
            self._fresh_states = end
        self._counts[N_STATES] = after
        return first

    def new_actions(self, count: int) -> int:
        """The first of `count` consecutive actions that are still to be written."""
        first = self._counts[N_ACTIONS]
        if first + count > self._most_actions:
            raise LimitExceeded(f"more than {self._most_actions} transitions; raise Limits.states")
        self._counts[N_ACTIONS] = first + count
        return first


def _expand_dead(machine: Machine) -> Transitions:
    return Transitions()


def _expand_done(machine: Machine) -> Transitions:
    made = Transitions()
    made.at_end(t.ACCEPT_ACTION)
    return made


def expand_literal(machine: Machine, data: bytes, then: int, offset: int) -> int:
    """The key of states inside a literal, `offset` bytes of `data` read."""
    raise AssertionError("literals are expanded as they are made")


_ALIKE = bytes([1] * 256)
_SINGLE = [bytes(byte) + b"\1" + bytes(255 - byte) for byte in range(256)]
_FRESH = np.array([t.UNEXPANDED, 0, -1, -1, -1, 0], dtype=np.int32)
