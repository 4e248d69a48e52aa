"""Continuous batching: the steps of all running sequences, one forward pass for those that decode, one for a chunk of a
prompt, one draw for all that have logits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from time import perf_counter

import torch
from torch import Tensor

from engine.batching.scheduler import Request, Scheduler
from engine.caches import BlockPool, PagedCache
from engine.constraint import TokenConstraint
from engine.errors import ContextError, EngineError
from engine.generation import Output
from engine.metrics import Metrics
from engine.model import Model
from engine.sampling import GREEDY, Draw, EmptyRow, InvalidLogits, Sampling
from engine.sampling.sampler import Sampler
from engine.sequence import SequenceState, step_masks


class BatchEngine:
    """Generates for many requests at once over one pool of blocks.

    Attributes:
        pool: the memory of keys and values; finished requests leave their prompts in it for those that begin alike.
        scheduler: who waits and who runs.
        steps, forwards: steps taken and forward passes run so far.
    """

    def __init__(
        self, model: Model, *, blocks: int, block_size: int = 16, max_sequences: int = 64, chunk: int = 256
    ) -> None:
        """`blocks` of `block_size` positions are allocated at once; `chunk` tokens of a prompt go into one step."""
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
    ) -> Request:
        """Queues a request; arguments as those of `engine.generate`, and `priority`: the higher go first.

        Raises:
            ContextError: prompt and `max_new_tokens` do not fit into the model's context.
            EngineError: an empty prompt, a limit below 1, or more blocks than there are.
            SamplingError: a token id outside the vocabulary.
        """
        prompt, config = [int(token) for token in ids], self.model.config
        if not prompt or max_new_tokens < 1:
            raise EngineError(
                f"a prompt of {len(prompt)} tokens and max_new_tokens={max_new_tokens}: at least 1 of each"
            )
        if len(prompt) + max_new_tokens > config.context_length:
            raise ContextError(
                f"a prompt of {len(prompt)} tokens and {max_new_tokens} new ones do not fit into the model's context of "
                f"{config.context_length}: lower max_new_tokens or shorten the prompt"
            )
        sequence = SequenceState(
            prompt,
            GREEDY if sampling is None else sampling,
            config.vocab_size,
            constraint=constraint,
            max_new_tokens=max_new_tokens,
            eos_token_ids=config.eos_token_ids if eos_token_ids is None else eos_token_ids,
            stop=stop,
        )
        Sampler([sequence.row], config.vocab_size, self.model.device)  # checks the token ids
        request = Request(sequence, priority)
        sequence.settle()
        request.times.append(perf_counter())
        if not sequence.is_finished:
            self.scheduler.add(request)
        return request

    def cancel(self, request: Request) -> None:
        """Ends a request where it is; its blocks are free at once."""
        if not request.is_finished:
            request.sequence.finish_reason = "cancelled"
        self.scheduler.remove(request)

    def step(self) -> bool:
        """One step of all that run; false where there was nothing to do."""
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
            EmptyRow, InvalidLogits: what ended it.
        """
        if request.error is not None:
            raise request.error
        sequence = request.sequence
        if sequence.finish_reason is None:
            raise EngineError("the request is not finished: take more steps, or cancel it")
        begin, *times = request.times
        metrics = Metrics(
            prompt_tokens=sequence.row.history.prompt_length,
            output_tokens=len(sequence.output),
            ttft_s=times[0] - begin if times else 0.0,
            itl_s=[later - earlier for earlier, later in pairwise(times)],
            tokens_per_s=len(times) / (times[-1] - begin) if times else 0.0,
            target_forwards=request.forwards,
            cached_prompt_tokens=request.cached,
        )
        return Output(
            token_ids=sequence.output,
            finish_reason=sequence.finish_reason,
            fallbacks=list(sequence.fallbacks),
            logprobs=list(sequence.logprobs),
            seed=sequence.row.seed,
            metrics=metrics,
        )

    def _forward(self, requests: Sequence[Request], new: int) -> Tensor:
        """The next `new` tokens of each request through the model: logits [requests, vocab] of the last."""
        cache = PagedCache.over(
            self.pool, [request.table for request in requests], [request.computed for request in requests]
        )
        rows = [request.tokens[request.computed : request.computed + new] for request in requests]
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
                request.times.append(perf_counter())
                request.sequence.settle()
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
            return draw.token_id if request.sequence.accept(draw) else None
        except Exception as error:  # a constraint's own
            request.error = error
            return None
