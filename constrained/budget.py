"""Budgets: with `max_tokens` set, a token is allowed only if the sentence can still be finished in the tokens that are left.

The need of a configuration is the number of tokens of a known way to finish it, so a step never allows what cannot be
kept.  The way that is known for the current configuration, the plan, is kept as a witness: its next token is always
allowed.  Where a cheap bound in bytes shows that no token comes near the budget, the mask is left as it is.

Searches are bounded, so two of them may know different ways to finish one text.  What a mask allows is therefore decided
once: a mask near the budget is remembered, and a commit asks it and searches nothing.  Where no mask was asked for, the commit
asks for it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from constrained.automata.stacks import UNKNOWN, pushed
from constrained.errors import BudgetError
from constrained.kernels import survey as s
from constrained.kernels import tables as t
from constrained.kernels.survey import FAR
from constrained.token_search import few_tokens
from grammars.effort import bounded, spend
from grammars.errors import LimitExceeded

if TYPE_CHECKING:
    from constrained.automata.stacks import Stack
    from constrained.masks.completion_store import CompletionStore
    from constrained.matcher import Matcher

Tokens = tuple[int, ...]

_MOST_LOOKED_AT = 32
"""Near a budget, so many tokens of a mask whose need depends on their text are looked at one by one; of others, only the
next token of the plan is kept."""
_MOST_STEPS = 20_000
"""Steps of the searches for what the tokens of one mask need (`grammars.effort`); what takes more is left out."""
_MOST_REMEMBERED = 64
"""Masks near the budget that are remembered, for texts that are gone back to."""
_A_LOOK = 1_000
"""Steps after which the clock is looked at in any case (`grammars.effort`)."""


class Near(NamedTuple):
    """The tokens that may come too near to a budget, as `constrained.kernels.survey` lists them."""

    ranges: NDArray[np.int32]
    kinds: NDArray[np.int32]

    def tokens(self, kind: int, ids: NDArray[np.int32]) -> NDArray[np.int32]:
        """Those of one kind."""
        of_it = self.ranges[self.ranges[:, s.R_KIND] == kind]
        return np.concatenate([ids[first:last] for first, last, _ in of_it.tolist()])


class Budget:
    """The budget of one matcher.

    Attributes:
        max_tokens: tokens of the whole sequence, end token included.
    """

    def __init__(self, matcher: Matcher, max_tokens: int, completions: CompletionStore) -> None:
        if max_tokens < 1:
            raise BudgetError(
                f"max_tokens={max_tokens} is too small: the end token alone is one; it must be at least 1",
                None,
                max_tokens,
            )
        self.max_tokens = max_tokens
        self._looks_left = _MOST_LOOKED_AT
        self._textual: set[int] = set()
        self._kept = -1
        self._masks: OrderedDict[Tokens, NDArray[np.uint32]] = OrderedDict()
        self._mask: NDArray[np.uint32] | None = None
        self._unrestricted = False
        self._timed = completions.timed()
        self._completions = completions
        self._plans: list[Tokens | None] = []
        self._cell_costs: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        plan = self._witness(matcher)
        if len(plan) + 1 > max_tokens:
            plan = few_tokens(matcher, completions, max_tokens - 1)
        if len(plan) + 1 > max_tokens:
            raise _too_small(max_tokens, len(plan) + 1)
        self._first_plan: Tokens | None = plan

    def forked(self) -> Budget:
        """The same budget for a fork of the matcher."""
        other = Budget.__new__(Budget)
        other.__dict__.update(self.__dict__)
        other._plans = self._plans.copy()
        other._masks = self._masks.copy()
        other._timed = self._completions.timed()
        return other

    def forget(self, length: int) -> None:
        """The matcher is back at `length` tokens."""
        del self._plans[length:]
        self._mask, self._unrestricted = None, False

    def left(self, committed: int) -> int:
        """Tokens that may still come, end token included."""
        return self.max_tokens - committed

    def admits(self, matcher: Matcher, token: int) -> bool:
        """Whether the mask before `token`, which the matcher has just committed, allows it; its plan is noted if so.

        Raises:
            LimitExceeded: that mask was not asked for, and cannot be made.
        """
        length = len(self._plans)
        if not self._unrestricted:
            mask = self._mask
            if mask is None and self.bytes_needed(matcher) + 1 > self.left(length + 1):
                mask = self._masks.get(matcher.tokens[:-1])
                if mask is None:
                    before = matcher.fork()
                    before.rollback(1)
                    mask = np.zeros(matcher.store.row_shape, dtype=np.uint32)
                    before.fill_mask(mask)
                    self._masks[before.tokens] = mask
                    # the plan that was found there, if any
                    if length and before._budget is not None:
                        self._plans[length - 1] = before._budget._plan(length)
            if mask is not None and not mask[token >> 5] >> (token & 31) & 1:
                return False
        before_it = self._plan(length)
        self._plans.append(before_it[1:] if before_it and before_it[0] == token else None)
        self._mask, self._unrestricted = None, False
        return True

    def is_far(self, matcher: Matcher, number: int) -> bool:
        """Whether no token of the row `number`, that of the matcher's configuration, comes near the budget."""
        completions = self._completions
        now = self.bytes_needed(matcher)
        if now >= FAR:  # it is cut off, so what a token adds to it would not be seen
            return False
        growth = completions.growth.get(number)
        if growth is None:
            most, _ = self._survey(matcher, FAR, in_tokens=False)
            growth = completions.growth[number] = most - now
        self._unrestricted = bool(now + growth + 1 <= self.left(len(self._plans)) - 1)
        return self._unrestricted

    def far_along(self, numbers: Sequence[int], needed: int) -> int:
        """How many tokens on, each allowed by one of the rows `numbers`, no row on the way comes near the budget.

        `needed` is `bytes_needed` where they begin; what is needed further on is bounded by what a token adds at most.
        """
        left = self.left(len(self._plans))
        for at, number in enumerate(numbers):
            growth = self._completions.growth.get(number)
            if growth is None or needed + growth + 1 > left - at - 1:
                return at
            needed += growth
        return len(numbers)

    def are_far(self, matcher: Matcher, numbers: Sequence[int]) -> bool:
        """Whether none of the rows `numbers`, from the matcher's own on, each allowing a token to the next, comes near the
        budget."""
        return self.far_along(numbers, self.bytes_needed(matcher)) == len(numbers)

    def pass_by(self, count: int) -> None:
        """The matcher has committed so many tokens, far from the budget."""
        self._plans.extend([None] * count)
        self._mask, self._unrestricted = None, False

    def restrict(self, matcher: Matcher, number: int, row: NDArray[np.uint32], doubtful: Sequence[int]) -> None:
        """Take out of `row`, the row `number` of the matcher's configuration, what cannot be finished in time.

        Args:
            doubtful: tokens that the language allows and that are not in the row yet; those that fit are put in.

        Raises:
            LimitExceeded: no way to finish in time is found, or finding out takes too long.
        """
        with self._timed:
            if self.left(len(self._plans)) == 1:  # the end token's; nobody has to be asked what else would take
                fitting = []
                self._leave_ends(matcher, row)
            elif not self.is_far(matcher, number):
                near = self._near(matcher)
                with bounded(steps=_MOST_STEPS):
                    self._restrict(matcher, row, near)
                    fitting = [token for token in doubtful if self.fits(matcher, token)]
                spend(_A_LOOK)  # searches that the time has cut short say nothing
            else:
                fitting = list(doubtful)
        for token in fitting:
            row[token >> 5] |= np.uint32(1 << (token & 31))
        if not self._unrestricted:
            if not row.any():
                raise LimitExceeded(
                    f"no way to finish the text within max_tokens={self.max_tokens} is found; raise max_tokens"
                )
            self._mask = self._masks[matcher.tokens] = row.copy()
            while len(self._masks) > _MOST_REMEMBERED:
                self._masks.popitem(last=False)

    def _leave_ends(self, matcher: Matcher, row: NDArray[np.uint32]) -> None:
        ends = np.array(sorted(matcher.constraint.end_tokens), dtype=np.int64)
        allowed = ends[(row[ends >> 5] >> (ends & 31).astype(np.uint32) & 1).astype(bool)]
        row[:] = 0
        np.bitwise_or.at(row, allowed >> 5, np.uint32(1) << (allowed & 31).astype(np.uint32))
        self._unrestricted = False

    def _near(self, matcher: Matcher) -> Near:
        """What `_survey` lists as over the budget; the next token of the plan is noted."""
        self._looks_left = _MOST_LOOKED_AT
        self._textual = set()
        length = len(self._plans)
        left = self.left(length)
        _, near = self._survey(matcher, left - 2, in_tokens=True)
        plan = self._plan(length)
        if plan is None or len(plan) + 1 > left:
            plan = self._witness(matcher)
            if len(plan) + 1 > left:
                plan = self._completions.fewer_tokens(*matcher.configuration())
            if length:
                self._plans[length - 1] = plan
        self._kept = plan[0] if plan and len(plan) + 1 <= left else -1
        return near

    def _restrict(self, matcher: Matcher, row: NDArray[np.uint32], near: Near) -> None:
        """Most tokens lead to few configurations: each of these is judged once, for all of its tokens."""
        left = self.left(len(self._plans))
        ids = matcher.store.tokens.token_ids
        allowed: NDArray[np.uint8] = np.zeros(len(near.kinds), dtype=np.uint8)
        s.note_allowed(row, ids, near.ranges, self._kept, allowed)
        late: NDArray[np.uint8] = np.zeros(len(near.kinds), dtype=np.uint8)
        dropped: list[int] = []
        for number in np.flatnonzero(allowed).tolist():
            state, cell, own, *returns = near.kinds[number].tolist()
            stack = None if cell < 0 else self._stack_of(matcher, cell, returns[:own])
            needed = FAR if cell < 0 else self._tokens_needed(state, stack)
            if needed > left - 2 and own and not self._completions.is_exact(state, stack):
                needed = FAR  # the tokens say what the frames have read that they have entered
            late[number] = FAR > needed > left - 2
            if needed == FAR:
                tokens = near.tokens(number, ids)
                in_row = (row[tokens >> 5] >> (tokens & 31).astype(np.uint32) & 1).astype(bool) & (tokens != self._kept)
                dropped += self._late(matcher, state, tokens[in_row].tolist())
        s.take_out(row, ids, near.ranges, self._kept, late)
        for token in dropped:
            row[token >> 5] &= ~np.uint32(1 << (token & 31))

    def _late(self, matcher: Matcher, state: int, tokens: list[int]) -> list[int]:
        """Of tokens that lead to `state` and are judged one by one, those that cannot finish in time."""
        return [
            token
            for token in tokens
            if (self._looks_left <= 0 and state in self._textual) or not self.fits(matcher, token)
        ]

    def fits(self, matcher: Matcher, token: int) -> bool:
        """Whether the matcher, after `token`, which the language allows, can finish in time.

        Not where that depends on the text, as it can for every token, and enough texts have been looked at for one mask.
        """
        if token == self._kept:
            return True
        most = self.left(len(self._plans)) - 2
        try:
            state, stack = matcher.configuration_after(token)
            if stack is not None and len(stack) == 3:
                self._textual.add(state)
                if self._looks_left <= 0:
                    return False
                self._looks_left -= 1
            return len(self._completions.tokens(state, stack)) <= most or self._bytes_of(state, stack) <= most
        except LimitExceeded:
            return False  # how it could end is not known

    def _tokens_needed(self, state: int, stack: Stack) -> int:
        """Tokens to the end from a configuration whose text is not known, where that makes no difference; else too many."""
        try:
            return self._completions.tokens_at_most(state, stack)
        except LimitExceeded:
            return FAR

    def _stack_of(self, matcher: Matcher, cell: int, own: Sequence[int] = ()) -> Stack:
        """The stack from `cell` down, below frames with the return states `own`, from the top down; its text is not known."""
        stack = matcher.stack(cell)
        for then in reversed(own):
            stack = pushed(matcher.store.machine, then, stack, UNKNOWN)
        return stack

    def _plan(self, length: int) -> Tokens | None:
        return self._plans[length - 1] if length else self._first_plan

    def _witness(self, matcher: Matcher) -> Tokens:
        return self._completions.tokens(*matcher.configuration())

    def bytes_needed(self, matcher: Matcher) -> int:
        """An upper bound in bytes on what the configuration needs."""
        state, cell, _ = matcher.position()
        completions = self._completions
        total = completions.cost(state)
        cells = matcher.cells
        while cell:
            then = int(cells[cell, t.C_RETURN])
            total += completions.cost(then if then >= 0 else -1 - then)
            cell = int(cells[cell, t.C_NEXT])
        return min(total, FAR)

    def _bytes_of(self, state: int, stack: Stack) -> int:
        """`bytes_needed` of a configuration as a value."""
        total = self._completions.cost(state)
        while stack is not None:
            then = stack[0]
            total += self._completions.cost(then if then >= 0 else -1 - then)
            stack = stack[1]
        return min(total, FAR)

    def _survey(self, matcher: Matcher, limit: int, *, in_tokens: bool) -> tuple[int, Near]:
        """(largest need, what is over the limit), the frames below measured in tokens or in bytes."""
        state, cell, top = matcher.position()
        completions, store = self._completions, matcher.store
        machine = store.machine
        registers = np.zeros(s.REGISTERS, dtype=np.int64)
        registers[s.V_STATE], registers[s.V_CELL], registers[s.V_TOP] = state, cell, top
        registers[s.V_LIMIT] = limit
        matcher.reserve_cells()
        with machine.lock:
            while True:
                cells = matcher.cells
                if self._cell_costs.shape[0] < cells.shape[0]:
                    self._cell_costs = np.zeros(cells.shape[0], dtype=np.int32)
                    registers[s.V_DEPTH] = 0
                if registers[s.V_DEPTH] == 0:
                    self._measure_stack(matcher, cell, in_tokens=in_tokens)
                status = s.survey(
                    machine.states, machine.maps, machine.actions, machine.memo, cells, machine.loops,
                    store.tokens.nodes, store.tokens.bytes, store.tokens.below, completions.parted, completions.frames,
                    completions.costs, self._cell_costs, completions.ranges, completions.kinds, registers,
                )  # fmt: skip
                if status == t.OK:
                    return int(registers[s.V_MOST]), Near(
                        completions.ranges[: int(registers[s.V_RANGES])].copy(),
                        completions.kinds[: int(registers[s.V_KINDS])].copy(),
                    )
                missing = int(registers[s.V_DETAIL])
                if status == t.UNKNOWN_COST:
                    completions.cost(missing if missing >= 0 else -1 - missing)
                elif status == t.UNKNOWN_STATE:
                    machine.expand(missing)
                elif status == t.UNKNOWN_POP:
                    machine.resolve(missing, int(registers[s.V_OUTCOME]))
                else:
                    raise LimitExceeded(f"nested deeper than {machine.limits.stack_depth} (Limits.stack_depth)")

    def _measure_stack(self, matcher: Matcher, cell: int, *, in_tokens: bool) -> None:
        """Fill the costs of the matcher's own cells, from the bottom up."""
        cells, completions = matcher.cells, self._completions
        chain = []
        while cell:
            chain.append(cell)
            cell = int(cells[cell, t.C_NEXT])
        self._cell_costs[0] = 0
        total = 0
        for cell in reversed(chain):
            then = int(cells[cell, t.C_RETURN])
            total += completions.cost(then if then >= 0 else -1 - then)
            if in_tokens and then >= 0:
                total = min(total, self._tokens_needed(then, self._stack_of(matcher, int(cells[cell, t.C_NEXT]))))
            self._cell_costs[cell] = min(total, FAR)


def _too_small(max_tokens: int, needed: int) -> BudgetError:
    return BudgetError(
        f"max_tokens={max_tokens} is too small: a sentence of the grammar needs at least {needed} tokens, end token "
        f"included; raise max_tokens to {needed} or more, or have the grammar allow less",
        needed,
        max_tokens,
    )
