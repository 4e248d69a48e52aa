"""Continuous batching: the steps of all running sequences, one forward pass for those that decode, one for a chunk of a
prompt, one draw for all that have logits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter

import torch
from torch import Tensor

from engine.batching.request import Request
from engine.batching.scheduler import Scheduler
from engine.batching.usage import Usage
from engine.caches import BlockPool, PagedCache
from engine.constraint import TokenConstraint
from engine.errors import EngineError
from engine.generation import CancelToken, Output, check_lengths
from engine.metrics import Part
from engine.model import Model
from engine.sampling import GREEDY, Draw, EmptyRow, InvalidLogits, Sampling
from engine.sampling.chain import check_token_ids
from engine.sampling.sampler import Sampler
from engine.sequence import SequenceState, step_masks


class BatchEngine:
    """Generates for many requests at once over one pool of blocks.  For one thread; `EngineLoop` serves many.

    Attributes:
        pool: the memory of keys and values; finished requests leave their prompts in it for those that begin alike.
        scheduler: who waits and who runs.
        steps, forwards: steps taken and forward passes run so far.
    """

    def __init__(
        self, model: Model, *, blocks: int, block_size: int = 16, max_sequences: int = 64, chunk: int = 256
    ) -> None:
        """`blocks` of `block_size` positions are allocated at once; `chunk` tokens of a prompt go into one step."""
        if blocks < 1:
            raise EngineError(f"{blocks} blocks of keys and values: at least 1")
        self.model = model
        self.pool = BlockPool(model.config, model.device, model.dtype, block_size, blocks)
        self.scheduler = Scheduler(self.pool.manager, max_sequences, chunk)
        self.steps = self.forwards = 0
        self._sampler: Sampler | None = None

    def add(
        self,
        ids: Sequence[int],
        *,
        sampling: Sampling | None = None,
        constraint: TokenConstraint | None = None,
        max_new_tokens: int = 256,
        eos_token_ids: Sequence[int] | None = None,
        stop: Callable[[Sequence[int]], bool] | None = None,
        priority: int = 0,
        cancel: CancelToken | None = None,
    ) -> Request:
        """Queues a request; arguments as those of `engine.generate`, and `priority`: the higher go first.

        Raises:
            ContextError: prompt and `max_new_tokens` do not fit into the model's context.
            EngineError: an empty prompt, a limit below 1, or more blocks than there are.
            SamplingError: a token id outside the vocabulary.
        """
        request = self.prepare(
            ids, sampling=sampling, constraint=constraint, max_new_tokens=max_new_tokens, eos_token_ids=eos_token_ids,
            stop=stop, priority=priority, cancel=cancel,
        )  # fmt: skip
        self.enqueue(request)
        return request

    def prepare(
        self,
        ids: Sequence[int],
        *,
        sampling: Sampling | None = None,
        constraint: TokenConstraint | None = None,
        max_new_tokens: int = 256,
        eos_token_ids: Sequence[int] | None = None,
        stop: Callable[[Sequence[int]], bool] | None = None,
        priority: int = 0,
        cancel: CancelToken | None = None,
    ) -> Request:
        """Checks a request and fills its first mask; `enqueue` starts it.  Safe in any thread, also during a step.

        Raises:
            As `add`, and what the constraint raises.
        """
        created = perf_counter()
        prompt, config = [int(token) for token in ids], self.model.config
        check_lengths(len(prompt), max_new_tokens, config.context_length)
        sequence = SequenceState(
            prompt,
            GREEDY if sampling is None else sampling,
            config.vocab_size,
            constraint=constraint,
            max_new_tokens=max_new_tokens,
            eos_token_ids=config.eos_token_ids if eos_token_ids is None else eos_token_ids,
            stop=stop,
        )
        check_token_ids(sequence.row, config.vocab_size)
        request = Request(sequence, priority, cancel, created=created)
        self.scheduler.check(request)
        with _part([request], "mask"):
            sequence.settle()
        return request

    def enqueue(self, request: Request) -> None:
        """Queues a request of `prepare`."""
        if not request.is_finished:
            self.scheduler.add(request)

    def cancel(self, request: Request) -> None:
        """Ends a request where it is; its blocks are free at once."""
        if not request.is_finished:
            request.sequence.finish_reason = "cancelled"
        self.scheduler.remove(request)

    def fail(self, request: Request, error: Exception) -> None:
        """Ends a request with an error; its blocks are free at once."""
        if not request.is_finished:
            request.error = error
        self.scheduler.remove(request)

    def step(self) -> bool:
        """One step of all that run; false where there was nothing to do."""
        for request in [*self.scheduler.running, *self.scheduler.waiting]:
            if request.cancel is not None and request.cancel.is_set():
                self.cancel(request)
        plan = self.scheduler.next_step()
        ready: list[Request] = []
        logits: list[Tensor] = []
        if plan.decoding:
            logits.append(self._forward(plan.decoding, 1))
            ready.extend(plan.decoding)
        if plan.prefilling is not None:
            row = self._forward((plan.prefilling,), plan.chunk)
            if plan.prefilling.pending == 0:
                logits.append(row)
                ready.append(plan.prefilling)
        if not plan.decoding and plan.prefilling is None:
            return False
        self.steps += 1
        if ready:
            self._draw(ready, torch.cat(logits))
        return True

    def run(self) -> None:
        """Steps until every request is finished."""
        while self.step():
            pass

    def result(self, request: Request) -> Output:
        """What came of a finished request.

        Raises:
            EngineError: it is not finished.
            EmptyRow, InvalidLogits: what ended it; or what its constraint raised.
        """
        return request.output()

    def usage(self) -> Usage:
        """What is in use now, and what was done so far."""
        scheduler, manager = self.scheduler, self.pool.manager
        return Usage(
            running=len(scheduler.running),
            waiting=len(scheduler.waiting),
            max_sequences=scheduler.max_sequences,
            blocks=manager.blocks,
            used_blocks=manager.used,
            kept_blocks=manager.kept,
            promised_blocks=scheduler.promised,
            block_size=manager.block_size,
            slots=sum(request.computed for request in scheduler.running),
            steps=self.steps,
            forwards=self.forwards,
        )

    def _forward(self, requests: Sequence[Request], new: int) -> Tensor:
        """The next `new` tokens of each request through the model: logits [requests, vocab] of the last."""
        cache = PagedCache.over(
            self.pool, [request.table for request in requests], [request.computed for request in requests]
        )
        rows = [request.tokens[request.computed : request.computed + new] for request in requests]
        with _part(requests, "forward"):
            logits = self.model.forward(torch.tensor(rows, device=self.model.device), cache)
        self.forwards += 1
        for request in requests:
            request.computed += new
            request.forwards += 1
            if new > 1:
                self.pool.manager.remember(request.table, request.tokens[: request.computed])
        return logits

    def _draw(self, requests: Sequence[Request], logits: Tensor) -> None:
        sequences = [request.sequence for request in requests]
        with _part(requests, "sample"):
            sampler = self._sampler_of(requests)
            draws: Sequence[Draw | Exception]
            try:
                draws = sampler.sample(logits, *step_masks(sequences, logits.device))
            except (EmptyRow, InvalidLogits):
                rows = logits.split_with_sizes([1] * len(sequences))
                draws = [self._draw_alone(sequence, row) for sequence, row in zip(sequences, rows, strict=True)]
        tokens = [self._accept(request, draw) for request, draw in zip(requests, draws, strict=True)]
        sampler.commit(tokens)
        for request, token in zip(requests, tokens, strict=True):
            if token is not None:
                self._settle(request)
                request.times.append(perf_counter())
            if request.is_finished:
                self.scheduler.remove(request)

    def _sampler_of(self, requests: Sequence[Request]) -> Sampler:
        """The sampler of these rows, made anew where they are not those of the last step."""
        rows = tuple(request.sequence.row for request in requests)
        if self._sampler is None or self._sampler.rows != rows:
            self._sampler = Sampler(rows, self.model.config.vocab_size, self.model.device)
        return self._sampler

    def _draw_alone(self, sequence: SequenceState, logits: Tensor) -> Draw | Exception:
        """A row that cannot be drawn from must not end the others."""
        sampler = Sampler([sequence.row], self.model.config.vocab_size, self.model.device)
        try:
            return sampler.sample(logits, *step_masks([sequence], logits.device))[0]
        except (EmptyRow, InvalidLogits) as error:
            return error

    def _accept(self, request: Request, draw: Draw | Exception) -> int | None:
        """The token that goes on the request's output, if any; an error ends the request and no other."""
        if isinstance(draw, Exception):
            request.error = draw
            return None
        try:
            with _part([request], "mask"):
                return draw.token_id if request.sequence.accept(draw) else None
        except Exception as error:  # a constraint's own
            request.error = error
            return None

    def _settle(self, request: Request) -> None:
        try:
            with _part([request], "mask"):
                request.sequence.settle()
        except Exception as error:  # a constraint's or a stop condition's own
            request.error = error


@contextmanager
def _part(requests: Sequence[Request], part: Part) -> Iterator[None]:
    """Books the time of a part of a step on those that take part in it."""
    start = perf_counter()
    try:
        yield
    finally:
        seconds = perf_counter() - start
        for request in requests:
            request.parts[part] += seconds
