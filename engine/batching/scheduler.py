"""Who runs in the next step: admission by blocks, chunks of prompts beside decoding rows, fairness.  Touches no tensor.

A request is admitted when the blocks for its prompt and all the tokens promised to it are there, counting what was promised to
the running ones.  So a running request never has to give its blocks back to another.  The order is that of priority and
age; whoever is first waits for room, and nobody passes it in the meantime, so a large request is not starved by small ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.caches.blocks import BlockManager, BlockTable
from engine.caches.plan import required_blocks
from engine.errors import EngineError
from engine.sequence import SequenceState

AGING = 32
"""Steps of waiting that are worth one degree of priority."""


@dataclass(eq=False)
class Request:
    """One sequence in the batch engine.

    Attributes:
        sequence: tokens, constraint, limits and the reason for the end.
        priority: the higher go first.
        table: the blocks of its keys and values.
        computed: positions that these hold.
        cached: of the prompt's, those that were there before.
        error: what ended it, if that was an error.
        times: seconds on a clock, of its arrival and of each token.
        forwards: forward passes that it took part in.
    """

    sequence: SequenceState
    priority: int = 0
    table: BlockTable = field(default_factory=BlockTable)
    computed: int = 0
    cached: int = 0
    arrived: int = 0
    error: Exception | None = None
    times: list[float] = field(default_factory=list)
    forwards: int = 0

    @property
    def tokens(self) -> list[int]:
        """Prompt and output."""
        return self.sequence.row.history.tokens

    @property
    def pending(self) -> int:
        """Tokens that have not been through the model."""
        return len(self.tokens) - self.computed

    @property
    def is_finished(self) -> bool:
        return self.error is not None or self.sequence.is_finished

    def promised_blocks(self, block_size: int) -> int:
        """Blocks that it takes to run to its end."""
        return required_blocks(self.sequence.row.history.prompt_length, self.sequence.max_new_tokens, block_size)


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

    def add(self, request: Request) -> None:
        """Queues a request.

        Raises:
            EngineError: it would not fit even alone.
        """
        promised = request.promised_blocks(self.manager.block_size)
        if promised > self.manager.blocks:
            raise EngineError(
                f"the request needs {promised} blocks of {self.manager.block_size} positions and there are "
                f"{self.manager.blocks}: lower max_new_tokens, shorten the prompt, or give the engine more blocks"
            )
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
    def unpromised(self) -> int:
        """Blocks that no running request holds or has been promised."""
        size = self.manager.block_size
        owed = sum(request.promised_blocks(size) - len(request.table.blocks) for request in self.running)
        return self.manager.available - owed

    def _admit(self) -> None:
        while self.waiting and len(self.running) < self.max_sequences:
            first = min(self.waiting, key=self._order)
            if first.promised_blocks(self.manager.block_size) > self.unpromised:
                return
            self.waiting.remove(first)
            # The last token of the prompt is computed in any case: its logits are wanted.
            first.table = self.manager.reuse(first.tokens[:-1])
            first.computed = first.cached = len(first.table.blocks) * self.manager.block_size
            self.running.append(first)

    def _order(self, request: Request) -> tuple[int, int]:
        age = self._clock - request.arrived
        return -(request.priority + age // AGING), request.arrived
