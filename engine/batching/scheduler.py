"""Who runs in the next step: admission by blocks, chunks of prompts beside decoding rows, fairness.  Touches no tensor.

A request is admitted when the blocks for its prompt and all the tokens promised to it are there, counting what was promised to
the running ones.  So a running request never has to give its blocks back to another.  The order is that of priority and
age; whoever is first waits for room, and nobody passes it in the meantime, so a large request is not starved by small ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

from engine.batching.request import Request
from engine.caches.blocks import BlockManager
from engine.errors import EngineError

AGING = 32
"""Steps of waiting that are worth one degree of priority."""


@dataclass(frozen=True)
class Plan:
    """One step: rows that take one token each, and a chunk of one prompt."""

    decoding: tuple[Request, ...] = ()
    prefilling: Request | None = None
    chunk: int = 0


class Scheduler:
    """Keeps the requests that wait and those that run.

    Attributes:
        waiting, running: in the order of arrival and of admission.
    """

    def __init__(self, manager: BlockManager, max_sequences: int, chunk: int) -> None:
        if max_sequences < 1 or chunk < 1:
            raise EngineError(f"{max_sequences} sequences in chunks of {chunk} tokens: at least 1 of each")
        self.manager, self.max_sequences, self.chunk = manager, max_sequences, chunk
        self.waiting: list[Request] = []
        self.running: list[Request] = []
        self._clock = 0

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
        request.arrived = self._clock
        self.waiting.append(request)

    def next_step(self) -> Plan:
        """Admits who fits, and says who runs; an empty plan where nothing is left to do."""
        self._clock += 1
        self._admit()
        decoding = tuple(request for request in self.running if request.pending == 1)
        prefilling = next((request for request in self.running if request.pending > 1), None)
        chunk = 0 if prefilling is None else min(self.chunk, prefilling.pending)
        return Plan(decoding, prefilling, chunk)

    def remove(self, request: Request) -> None:
        """Takes a request out, wherever it is, and gives its blocks back at once; what they hold can still be found."""
        for queue in (self.waiting, self.running):
            if request in queue:
                queue.remove(request)
        self.manager.remember(request.table, request.tokens[: request.computed])
        self.manager.truncate(request.table, 0)

    @property
    def promised(self) -> int:
        """Blocks that running requests were promised and do not hold yet."""
        size = self.manager.block_size
        return sum(request.promised_blocks(size) - len(request.table.blocks) for request in self.running)

    @property
    def unpromised(self) -> int:
        """Blocks that no running request holds or has been promised."""
        return self.manager.available - self.promised

    def _admit(self) -> None:
        while self.waiting and len(self.running) < self.max_sequences:
            first = min(self.waiting, key=self._order)
            if first.promised_blocks(self.manager.block_size) > self.unpromised:
                return
            self.waiting.remove(first)
            # The last token of the prompt is computed in any case: its logits are wanted.
            first.table = self.manager.reuse(first.tokens[:-1])
            first.computed = first.cached = len(first.table.blocks) * self.manager.block_size
            first.admitted = perf_counter()
            self.running.append(first)

    def _order(self, request: Request) -> tuple[int, int]:
        age = self._clock - request.arrived
        return -(request.priority + age // AGING), request.arrived
