"""One sequence in a batch: its state, its blocks, and where its time went."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import pairwise
from time import perf_counter

from torch import Tensor

from engine.caches.blocks import BlockTable
from engine.caches.plan import required_blocks
from engine.errors import EngineError
from engine.generation import CancelToken, Output
from engine.metrics import Metrics, Part, Stopwatch
from engine.sequence import SequenceState
from engine.speculation.block import Block
from engine.speculation.speculation import Speculator


@dataclass(eq=False)
class Request:
    """One sequence in the batch engine.

    Attributes:
        sequence: tokens, constraint, limits and the reason for the end.
        priority: the higher go first.
        cancel: looked at before each step; once set, the request ends as `"cancelled"`.
        table: the blocks of its keys and values.
        computed: positions that these hold.
        cached: of the prompt's, those that were there before.
        arrived, number: when it came, in the scheduler's steps, and the how-manieth it was.
        settled: whether its mask is that of its next token.
        making: its mask, where that takes longer than a step waits; until it is done the request sits out, and its sequence
            belongs to the thread that makes it.
        error: what ended it, if that was an error.
        created, admitted: seconds on a clock; 0.0: not admitted yet.
        times: seconds on the same clock, of each token.
        forwards: forward passes that it took part in.
        parts: seconds of the steps that it took part in, whoever else did; masks are its own.
        clock: times and counts of its speculation.
        speculator: who guesses its tokens ahead.
        block: what was guessed for the step that runs.
        state: the model's last hidden state before the token that is to be computed next, [hidden], for proposers that begin
            with it; `None` where nobody wants it.
        states: those behind the tokens of the step that runs from which the block draws, [len(draft) + 1, hidden].
    """

    sequence: SequenceState
    priority: int = 0
    cancel: CancelToken | None = None
    table: BlockTable = field(default_factory=BlockTable)
    computed: int = 0
    cached: int = 0
    arrived: int = 0
    number: int = 0
    settled: bool = True
    making: Future[None] | None = None
    error: Exception | None = None
    created: float = 0.0
    admitted: float = 0.0
    times: list[float] = field(default_factory=list)
    forwards: int = 0
    parts: dict[Part, float] = field(default_factory=lambda: {"forward": 0.0, "mask": 0.0, "sample": 0.0})
    clock: Stopwatch = field(default_factory=Stopwatch)
    speculator: Speculator | None = None
    block: Block = field(default_factory=Block)
    state: Tensor | None = None
    states: Tensor | None = None

    @property
    def wants_state(self) -> bool:
        """Whether hidden states are to be kept for its proposer."""
        return self.speculator is not None and self.speculator.wants_state

    @property
    def tokens(self) -> list[int]:
        """Prompt and output."""
        return self.sequence.row.history.tokens

    @property
    def pending(self) -> int:
        """Tokens that have not been through the model."""
        return len(self.tokens) - self.computed

    @property
    def in_prompt(self) -> bool:
        """Whether the next of these is of the prompt."""
        return self.computed < self.sequence.row.history.prompt_length

    @property
    def next_part(self) -> int:
        """As many of these as may go through the model together: not beyond the end of the prompt, since generated tokens are
        computed in another way."""
        return (self.sequence.row.history.prompt_length if self.in_prompt else len(self.tokens)) - self.computed

    @property
    def decodes(self) -> bool:
        """Whether only the token that was drawn last has not been through the model."""
        return self.pending == 1 and not self.in_prompt

    @property
    def is_finished(self) -> bool:
        return self.error is not None or self.sequence.is_finished

    @property
    def may_draw(self) -> bool:
        """Whether there is a token to be drawn, and nothing to wait for before."""
        return self.making is None and not self.is_finished

    def look(self) -> None:
        """Sees whether its mask has been made."""
        if self.making is not None and self.making.done():
            self.making = None

    def promised_blocks(self, block_size: int) -> int:
        """Blocks that it takes to run to its end."""
        return required_blocks(self.sequence.row.history.prompt_length, self.sequence.max_new_tokens, block_size)

    def close(self) -> None:
        """It is over; what was learned from it is kept."""
        if self.speculator is not None:
            self.speculator.close()

    def output(self) -> Output:
        """What came of it.

        Raises:
            EngineError: it is not finished.
            Exception: what ended it.
        """
        if self.error is not None:
            raise self.error
        sequence = self.sequence
        if sequence.finish_reason is None:
            raise EngineError("the request is not finished: take more steps, or cancel it")
        return Output(
            token_ids=sequence.output,
            finish_reason=sequence.finish_reason,
            fallbacks=list(sequence.fallbacks),
            logprobs=list(sequence.logprobs),
            seed=sequence.row.seed,
            metrics=self.metrics(),
        )

    def metrics(self) -> Metrics:
        """Counts and times so far."""
        times = self.times
        return Metrics(
            prompt_tokens=self.sequence.row.history.prompt_length,
            output_tokens=self.sequence.row.history.output_length,
            queue_s=self.admitted - self.created if self.admitted else 0.0,
            ttft_s=times[0] - self.created if times else 0.0,
            itl_s=[later - earlier for earlier, later in pairwise(times)],
            tokens_per_s=len(times) / (times[-1] - self.created) if times else 0.0,
            forward_s=self.parts["forward"],
            mask_s=self.parts["mask"] + self.clock.parts["mask"],
            sample_s=self.parts["sample"],
            target_forwards=self.forwards,
            cached_prompt_tokens=self.cached,
            **self.clock.speculation(),
        )


class Booked:
    """Books the time of a part of a step on those that take part in it; entered for every token, so it is kept short."""

    __slots__ = ("_part", "_requests", "_start")

    def __init__(self, requests: Sequence[Request], part: Part) -> None:
        self._requests, self._part = requests, part

    def __enter__(self) -> None:
        self._start = perf_counter()

    def __exit__(self, *error: object) -> None:
        seconds = perf_counter() - self._start
        for request in self._requests:
            request.parts[self._part] += seconds
