"""Speculation of a model's requests, and of one: draft, verify, learn."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

from engine.constraint import can_go_back
from engine.metrics import Stopwatch
from engine.speculation.block import Block
from engine.speculation.draft import Drafted, Frontier, Target
from engine.speculation.lookahead import (
    Acceptance,
    Adaptive,
    Constant,
    Costs,
    Heuristic,
    Lookahead,
    NominalCosts,
    Pace,
    check_lookahead,
)
from engine.speculation.proposer import Drafter, Proposer

if TYPE_CHECKING:
    from engine.sampling.sampler import Sampler
    from engine.sequence import SequenceState

MOST_MEASURED = 64
"""Rows of a forward pass that counts as one of decoding; more are a prompt's."""


class Speculation:
    """How the requests of a model are speculated on; shared by them, and by threads.

    Attributes:
        proposer: who guesses.
        lookahead: `"adaptive"`, `"heuristic"`, or a number of guesses for each block.
    """

    def __init__(self, proposer: Proposer, lookahead: Lookahead = "adaptive", costs: Costs | None = None) -> None:
        """`costs`: what passes of the target take, where several speculations on one model share that.

        Raises:
            SpeculationError: a lookahead of another kind, or below 1 or above 15 guesses.
        """
        check_lookahead(lookahead)
        self.proposer, self.lookahead = proposer, lookahead
        self._costs = Costs() if costs is None else costs
        self._acceptance: dict[str, Acceptance] = {}

    def begin(self, sequence: SequenceState, clock: Stopwatch, group: Hashable = None) -> Speculator:
        """The speculation of one request.

        Args:
            sequence: its state, before the first token.
            clock: takes its times and counts.
            group: see `Proposer.begin`.
        """
        # What is drawn depends on the blocks then, so these must not depend on a clock, nor on other requests.
        fixed = self.proposer.draws and not sequence.row.sampling.is_greedy
        costs = NominalCosts() if fixed else self._costs
        pace: Pace
        if self.lookahead == "heuristic":
            pace = Heuristic()
        elif isinstance(self.lookahead, int):
            pace = Constant(self.lookahead)
        else:
            known = {} if fixed else dict(self._acceptance)
            name = self.proposer.name.rpartition("+")[2]
            pace = Adaptive(costs, self.proposer.cost, name, known)
        drafter = self.proposer.begin(sequence.row.history.tokens, group)
        return Speculator(self, sequence, drafter, pace, costs, clock)

    def learn(self, pace: Pace) -> None:
        """Later requests begin with what this one has found out."""
        if isinstance(pace, Adaptive):
            self._acceptance = {**self._acceptance, **{name: replace(one) for name, one in pace.acceptance.items()}}


class Speculator:
    """The speculation of one request."""

    def __init__(
        self,
        speculation: Speculation,
        sequence: SequenceState,
        drafter: Drafter,
        pace: Pace,
        costs: Costs,
        clock: Stopwatch,
    ) -> None:
        self._speculation, self._sequence, self._drafter = speculation, sequence, drafter
        self._pace, self._costs, self._clock = pace, costs, clock
        self._proposed: Frontier | None = None
        self._most = 0
        self._spent = 0.0
        self._drafted = 0
        self._closed = False

    @property
    def wants_state(self) -> bool:
        """Whether the target's last hidden states are to be kept."""
        return self._speculation.proposer.wants_state

    @property
    def costs(self) -> Costs:
        """What passes of the target take."""
        return self._costs

    def draft(
        self,
        sampler: Callable[[], Sampler],
        target: Callable[[], Target] | None = None,
        *,
        room: int | None = None,
    ) -> Block:
        """A draft for the next step of a sequence alone; empty where there is nothing to guess or it would not pay.

        Arguments as those of `propose`.
        """
        self.propose(sampler, target, room=room)
        return self.block(self.own_choice(1))

    def propose(
        self,
        sampler: Callable[[], Sampler],
        target: Callable[[], Target] | None = None,
        *,
        room: int | None = None,
        rows: int = 1,
    ) -> None:
        """Guesses for the next step; `block` then says how many of them are verified.

        Args:
            sampler: gives the sampler of the sequence alone.
            target: for proposers that run a part of the target.
            room: positions that the step may take besides the pending tokens; `None`: as many as the request has left.
            rows: sequences that share the step.
        """
        sequence, clock = self._sequence, self._clock
        self._proposed, self._most = None, 0
        left = sequence.max_new_tokens - sequence.row.history.output_length - 1
        room = left if room is None else min(room, left)
        if room < 1 or (sequence.constraint is not None and not can_go_back(sequence.constraint)):
            return
        self._most = self._pace.most(rows)
        frontier = Frontier(sequence, sampler, room, target, clock)
        before = perf_counter()
        with clock.part("propose"):
            try:
                self._drafter.propose(frontier, self._most)
            finally:
                frontier.close()
        self._spent, self._drafted = perf_counter() - before, frontier.guessed
        self._proposed = frontier

    @property
    def proposed(self) -> Sequence[Drafted]:
        """The guesses of the last `propose`."""
        return () if self._proposed is None else self._proposed.draft

    def own_choice(self, rows: int) -> int:
        """How many of them to verify, if the others of so many rows did alike."""
        return self._pace.keep(self.proposed, rows) if self.proposed else 0

    def worth(self) -> Sequence[float] | None:
        """Expected tokens of a step with none, one, two, ... of them; `None` where others have no say in how many are
        verified."""
        if not isinstance(self._pace, Adaptive) or isinstance(self._costs, NominalCosts):
            return None
        return self._pace.worth(self.proposed)

    def block(self, count: int) -> Block:
        """The first `count` of them, to be verified."""
        frontier, self._proposed = self._proposed, None
        if frontier is None:
            return Block()
        if isinstance(self._pace, Adaptive):
            self._pace.cut(frontier.draft, count)
        self._clock.lookahead(count, switched_off=(self._most == 0 or bool(frontier.draft)) and count == 0)
        return Block(frontier.draft[:count], frontier.rows[: count + 1])

    def measure(self, rows: int, seconds: float) -> None:
        """A forward pass of the target took so long."""
        if rows <= MOST_MEASURED:
            self._costs.record(rows, seconds)

    def done(self, block: Block) -> None:
        """A block was gone through."""
        if block.draft or self._drafted:
            self._pace.observe(block.draft, block.accepted, self._drafted, self._spent)
        self._clock.verified(_by_source(block.draft, block.accepted))
        self._drafted = 0

    def close(self) -> None:
        """The sequence has ended; may be called again."""
        if not self._closed:
            self._closed = True
            self._speculation.learn(self._pace)
            self._drafter.close(self._sequence.output)


def _by_source(draft: Sequence[Drafted], accepted: int) -> dict[str, tuple[int, int]]:
    """(drafted, accepted) of each source."""
    counts: dict[str, tuple[int, int]] = {}
    for at, drafted in enumerate(draft):
        name = drafted.source.rstrip("0123456789")
        made, held = counts.get(name, (0, 0))
        counts[name] = made + 1, held + (at < accepted)
    return counts
