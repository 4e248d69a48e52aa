"""Who runs in the next step: admission by blocks, chunks of prompts beside decoding rows, fairness.  Touches no tensor.

The order is that of priority and age; whoever is first waits for room, and nobody passes it in the meantime, so a large
request is not starved by small ones.  When a request is admitted, is a matter of `Admission`:

- `"promised"`: when the blocks for its prompt and all the tokens promised to it are there, counting what was promised to the
  running ones.  So nobody ever gives blocks back to another.
- `"optimistic"`: when the blocks for the tokens that it has are there, and one for each that runs.  More run at a time where texts
  end before their limit.  When blocks run out, the last in order gives its own back, waits, and is computed again.

Prompts are computed in few large parts: every part holds up the rows that decode, however small it is (a pass of 16 tokens takes
as long as theirs), and what 95 % of their tokens do not exceed depends on how many of their steps are held up, not on how long.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from time import perf_counter
from typing import Literal

from engine.batching.request import Request
from engine.caches.blocks import BlockManager
from engine.caches.plan import required_blocks
from engine.errors import EngineError

AGING = 32
"""Steps of waiting that are worth one degree of priority."""


Admission = Literal["promised", "optimistic"]
ADMISSIONS: tuple[Admission, ...] = ("promised", "optimistic")


@dataclass(frozen=True)
class Plan:
    """One step.

    Attributes:
        decoding: rows that take one token each.
        prefilling: rows that take the next part of their prompts.
        counts: so many tokens of each of these.
    """

    decoding: tuple[Request, ...] = ()
    prefilling: tuple[Request, ...] = ()
    counts: tuple[int, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.decoding and not self.prefilling


class Scheduler:
    """Keeps the requests that wait and those that run.

    Attributes:
        chunk: most tokens of one prompt in a step.
        together: most tokens of several prompts in a step, the padding of the shorter ones included.
        waiting, running: in the order of arrival and of admission.
        preemptions: how often a request had to give its blocks back.
    """

    def __init__(
        self,
        manager: BlockManager,
        max_sequences: int,
        chunk: int,
        *,
        together: int | None = None,
        admission: Admission = "promised",
        prefix_cache: bool = True,
        tells_prompts: bool = False,
    ) -> None:
        """`tells_prompts`: whether what was generated is no prefix of a later prompt, since it was computed in another way."""
        if max_sequences < 1 or chunk < 1:
            raise EngineError(f"{max_sequences} sequences in chunks of {chunk} tokens: at least 1 of each")
        if together is not None and together < 1:
            raise EngineError(f"prompts of {together} tokens together: at least 1")
        if admission not in ADMISSIONS:
            raise EngineError(f"unknown admission {admission!r}: choose {' or '.join(map(repr, ADMISSIONS))}")
        self.manager, self.max_sequences = manager, max_sequences
        self.chunk, self.together = chunk, chunk if together is None else min(together, chunk)
        self.admission, self.prefix_cache, self.tells_prompts = admission, prefix_cache, tells_prompts
        self.waiting: list[Request] = []
        self.running: list[Request] = []
        self.preemptions = 0
        self._clock = 0
        self._numbers = count()

    def check(self, request: Request) -> None:
        """Raises EngineError where a request would not fit even alone."""
        promised = request.promised_blocks(self.manager.block_size)
        if promised > self.manager.blocks:
            raise EngineError(
                f"the request needs {promised} blocks of {self.manager.block_size} positions and there are "
                f"{self.manager.blocks}: lower max_new_tokens, shorten the prompt, or give the engine more memory"
            )

    def add(self, request: Request) -> None:
        """Queues a request.

        Raises:
            EngineError: as `check`.
        """
        self.check(request)
        request.arrived, request.number = self._clock, next(self._numbers)
        self.waiting.append(request)

    def next_step(self) -> Plan:
        """Admits who fits, and says who runs; an empty plan where nothing is left to do."""
        self._clock += 1
        self._admit()
        if self.admission == "optimistic":
            self._make_room()
        decoding = tuple(request for request in self.running if request.decodes and request.making is None)
        prefilling, counts = self._next_prompts()
        return Plan(decoding, prefilling, counts)

    def remove(self, request: Request) -> None:
        """Takes a request out, wherever it is, and gives its blocks back at once; what they hold can still be found."""
        for queue in (self.waiting, self.running):
            if request in queue:
                queue.remove(request)
        self._give_back(request)

    def remember(self, request: Request) -> None:
        """Lets later requests find what the blocks of this one hold."""
        if self.prefix_cache:
            self.manager.remember(request.table, request.tokens[: request.computed], self.prompt_of(request))

    def prompt_of(self, request: Request) -> int | None:
        """How many of a request's first tokens are another thing than the rest, where prompts are told from generated text."""
        return request.sequence.row.history.prompt_length if self.tells_prompts else None

    def room(self, request: Request) -> int:
        """Positions that a running request may take in the step that is planned, without others going short."""
        size = self.manager.block_size
        if self.admission == "promised":
            return request.promised_blocks(size) * size - request.computed
        return required_blocks(request.computed, 1, size) * size - request.computed

    @property
    def promised(self) -> int:
        """Blocks that running requests were promised and do not hold yet."""
        size = self.manager.block_size
        return sum(request.promised_blocks(size) - len(request.table.blocks) for request in self.running)

    @property
    def unpromised(self) -> int:
        """Blocks that no running request holds or has been promised; below 0 only with optimistic admission."""
        return self.manager.available - self.promised

    def _admit(self) -> None:
        while self.waiting and len(self.running) < self.max_sequences:
            first = min(self.waiting, key=self._order)
            if not self._fits(first):
                return
            self.waiting.remove(first)
            self._reuse(first)
            if not first.admitted:
                first.admitted = perf_counter()
            self.running.append(first)

    def _fits(self, request: Request) -> bool:
        if not self.running:
            return True  # alone it fits: that was checked when it came
        size = self.manager.block_size
        shared = 0
        if self.prefix_cache:
            shared = self.manager.held_by_others(request.tokens[:-1], self.prompt_of(request))
        if self.admission == "promised":
            return request.promised_blocks(size) - shared <= self.unpromised
        return required_blocks(len(request.tokens), 1, size) - shared <= self.manager.available - len(self.running)

    def _reuse(self, request: Request) -> None:
        """Takes up what the blocks already hold of the request's tokens behind what it has."""
        if not self.prefix_cache or len(request.table.blocks) * self.manager.block_size != request.computed:
            return
        # The last token of the prompt is computed in any case: its logits are wanted.
        found = self.manager.reuse_more(request.table, request.tokens[:-1], self.prompt_of(request))
        found *= self.manager.block_size
        request.computed += found
        if not request.sequence.row.history.output_length:
            request.cached += found

    def _next_prompts(self) -> tuple[tuple[Request, ...], tuple[int, ...]]:
        """A part of the prompt whose turn it is, and as many whole ones of about its length or less as may go together with
        it, padding included."""
        chosen: list[Request] = []
        counts: list[int] = []
        for request in self._prompts_in_turn():
            self._reuse(request)  # what was computed for others since it came
            count = self._part(request.next_part)
            if chosen:
                whole = count == request.pending and request.in_prompt == chosen[0].in_prompt
                if not whole or max(*counts, count) * (len(chosen) + 1) > self.together:
                    break
            chosen.append(request)
            counts.append(count)
        return tuple(chosen), tuple(counts)

    def _part(self, pending: int) -> int:
        """The next of the fewest parts of equal length that a prompt can be taken in."""
        return -(-pending // -(-pending // self.chunk))

    def _prompts_in_turn(self) -> list[Request]:
        """Those whose prompts are not computed yet, the oldest first; in every other step the one with least left, so that
        short prompts do not wait until long ones are through, nor long ones for ever."""
        prompts = [request for request in self.running if not request.decodes and request.making is None]
        if prompts and self._clock % 2:
            shortest = min(prompts, key=lambda request: request.pending)
            prompts.remove(shortest)
            prompts.insert(0, shortest)
        return prompts

    def _make_room(self) -> None:
        """Takes their blocks from the last in order until the others can take their next step."""
        while True:
            prompts = zip(*self._next_prompts(), strict=True)
            steps = [*((request, 1) for request in self.running if request.decodes), *prompts]
            needed = sum(self.manager.needed(request.table, request.computed, new) for request, new in steps)
            if needed <= self.manager.available or len(self.running) == 1:
                return
            last = max(self.running, key=self._order)
            self.running.remove(last)
            self._give_back(last)
            last.computed = 0
            self.waiting.append(last)
            self.preemptions += 1

    def _give_back(self, request: Request) -> None:
        self.remember(request)
        self.manager.truncate(request.table, 0)

    def _order(self, request: Request) -> tuple[int, int, int]:
        """The lower goes first."""
        age = self._clock - request.arrived
        return -(request.priority + age // AGING), request.arrived, request.number
