"""Continuous batching: the steps of all running sequences, one forward pass for those that decode, one for a chunk of a
prompt, one draw for all that have logits, and another as long as drafts hold."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from itertools import compress
from time import perf_counter
from typing import Literal

import torch
from torch import Tensor

from engine.batching.drawing import Drawing
from engine.batching.masks import MaskFiller
from engine.batching.request import Booked, Request
from engine.batching.scheduler import Admission, Scheduler
from engine.batching.usage import Usage
from engine.caches import BlockPool, PagedCache
from engine.constraint import TokenConstraint
from engine.devices import upload
from engine.errors import EngineError
from engine.generation import CancelToken, Output, check_lengths
from engine.model import Model
from engine.paged_step import PagedDecoder, PagedRunner, choose_runner
from engine.sampling import GREEDY, InvalidLogits, Sampling
from engine.sampling.chain import check_token_ids
from engine.sequence import SequenceState
from engine.speculation.block import Block
from engine.speculation.draft import Target
from engine.speculation.speculation import Speculation, Speculator
from engine.speculation.together import settle


class BatchEngine:
    """Generates for many requests at once over one pool of blocks.  For one thread; `EngineLoop` serves many.

    Attributes:
        pool: the memory of keys and values; finished requests leave their prompts in it for those that begin alike.
        scheduler: who waits and who runs.
        decoder: what runs steps of fixed shapes; `None`: they are ordinary ones.
        steps, forwards: steps taken and forward passes run so far.
    """

    def __init__(
        self,
        model: Model,
        *,
        blocks: int,
        block_size: int = 16,
        max_sequences: int = 64,
        chunk: int = 1024,
        together: int = 256,
        admission: Admission = "promised",
        prefix_cache: bool = True,
        mask_thread: bool = True,
        runner: PagedRunner | Literal["auto"] = "auto",
    ) -> None:
        """Allocates the blocks.

        Args:
            blocks, block_size: so many, of so many positions.
            max_sequences: most that run at a time.
            chunk: most tokens of one prompt that go into one step; longer ones go in equal parts.
            together: most tokens of several prompts that go into one step, so that the first of them are not kept waiting for
                all; `chunk` where that is less.
            admission: when a request may begin; see `engine.batching.scheduler`.
            prefix_cache: whether a prompt takes up blocks of others that begin alike.
            mask_thread: whether masks are filled beside the forward pass, or before it.
            runner: how steps of one token a row run: `"plain"`, `"eager"` or `"graph"` (`engine.paged_step`); `"auto"`: CUDA
                graphs on CUDA, ordinary steps elsewhere.

        Raises:
            EngineError: an option that is not accepted.
            CacheError: a runner that this model does not have here.
        """
        if blocks < 1:
            raise EngineError(f"{blocks} blocks of keys and values: at least 1")
        self.model = model
        self.pool = BlockPool(model.config, model.device, model.dtype, block_size, blocks)
        self.scheduler = Scheduler(
            self.pool.manager,
            max_sequences,
            chunk,
            together=together,
            admission=admission,
            prefix_cache=prefix_cache,
            tells_prompts=model.batch_invariant,
        )
        chosen = choose_runner(model, runner)
        self.decoder = None if chosen == "plain" else PagedDecoder(model, self.pool, chosen)
        self._masks = MaskFiller(threaded=mask_thread)
        self.steps = self.forwards = 0
        self._drawing = Drawing(model.config.vocab_size, model.device)

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
        speculation: Speculation | None = None,
        group: Hashable = None,
    ) -> Request:
        """Queues a request; arguments as those of `engine.generate`, and `priority`: the higher go first.

        Raises:
            ContextError: prompt and `max_new_tokens` do not fit into the model's context.
            EngineError: an empty prompt, a limit below 1, or more blocks than there are.
            SamplingError: a token id outside the vocabulary.
        """
        request = self.prepare(
            ids, sampling=sampling, constraint=constraint, max_new_tokens=max_new_tokens, eos_token_ids=eos_token_ids,
            stop=stop, priority=priority, cancel=cancel, speculation=speculation, group=group,
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
        speculation: Speculation | None = None,
        group: Hashable = None,
    ) -> Request:
        """Checks a request and fills its first mask; `enqueue` starts it.  Safe in any thread, also during a step.

        Raises:
            As `add`, and what the constraint raises.
        """
        created = perf_counter()
        prompt, config = [int(token) for token in ids], self.model.config
        check_lengths(len(prompt), max_new_tokens, config)
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
        with Booked([request], "mask"):
            sequence.settle()
        if speculation is not None:
            request.speculator = speculation.begin(sequence, request.clock, group)
        return request

    def enqueue(self, request: Request) -> None:
        """Queues a request of `prepare`."""
        if not request.is_finished:
            self.scheduler.add(request)

    def cancel(self, request: Request) -> None:
        """Ends a request where it is; its blocks are free at once."""
        if not request.is_finished:
            request.sequence.finish_reason = "cancelled"
        self._leave(request)

    def fail(self, request: Request, error: Exception) -> None:
        """Ends a request with an error; its blocks are free at once."""
        if not request.is_finished:
            request.error = error
        self._leave(request)

    def step(self, begun: Callable[[Sequence[Request]], None] = lambda _: None) -> bool:
        """One step of all that run; false where there was nothing to do.

        Prompts go first: a request whose prompt is short has its first token before the others' forward pass.

        Args:
            begun: called with the requests that have just got their first tokens.
        """
        for request in [*self.scheduler.running, *self.scheduler.waiting]:
            if request.cancel is not None and request.cancel.is_set():
                self.cancel(request)
        late = [request for request in self.scheduler.running if request.making is not None]
        for request in late:
            request.look()
            if request.making is None and request.is_finished:
                self._leave(request)
        plan = self.scheduler.next_step()
        if plan.is_empty:
            self._masks.wait_for_one(late)
            return bool(late)
        self.steps += 1
        if plan.decoding:
            self._draft(plan.decoding)
        decoding = [request for request in plan.decoding if not request.is_finished]
        whole = [request.pending == count for request, count in zip(plan.prefilling, plan.counts, strict=True)]
        prompts = list(compress(plan.prefilling, whole))
        # Behind a prompt the mask is there but where its blocks were taken away in the middle of the text.
        first = prompts if all(request.settled for request in prompts) else []
        ready = decoding if first else [*decoding, *prompts]
        logits: list[Tensor] = []
        with self._masks.beside([request for request in ready if not request.settled]):
            if plan.prefilling:
                rows = self._prefill(plan.prefilling, plan.counts)
                places = [at for at, done in enumerate(whole) if done]
                logits.append(rows if all(whole) else rows[upload(places, rows.device, torch.int64)])
                if first:
                    self._finish(first, logits.pop())
                    begun(first)
            if decoding:
                logits.insert(0, self._decode(decoding))
        # Where nobody's mask has failed or is late, the logits of the first draw lie there as they are wanted.
        together = None
        if ready and all(request.may_draw for request in ready):
            together = logits[0] if len(logits) == 1 else torch.cat(logits)
        self._finish(ready, together)
        return True

    def _finish(self, ready: Sequence[Request], logits: Tensor | None = None) -> None:
        """Draws for those whose logits are there, as long as drafts hold, and concludes their step.

        Args:
            logits: those of the first draw of all, [requests, vocab]; `None`: they are taken from each.
        """
        drawing = [request for request in ready if request.may_draw]
        while drawing:
            self._masks.settle(self._drawing.draw(drawing, logits))
            logits = None
            drawing = [request for request in drawing if request.block.is_open and request.may_draw]
        for request in ready:
            self._conclude(request)

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
            preemptions=scheduler.preemptions,
        )

    def _draft(self, requests: Sequence[Request]) -> None:
        """Guesses for each request; without speculation none."""
        guessing: list[tuple[Request, Speculator]] = []
        for request in requests:
            request.block = Block()
            if request.speculator is not None:
                try:
                    request.speculator.propose(
                        partial(self._drawing.sampler_alone, request.sequence), partial(self._target, request),
                        room=self._room(request, len(requests)), rows=len(requests),
                    )  # fmt: skip
                    guessing.append((request, request.speculator))
                except Exception as error:  # a proposer's or a constraint's own
                    self.fail(request, error)
        counts = settle([speculator for _, speculator in guessing], len(requests))
        for (request, speculator), count in zip(guessing, counts, strict=True):
            request.block = speculator.block(count)

    def _room(self, request: Request, rows: int) -> int:
        """Most guesses of the next block of a request; one that is alone gets what `generate` gives it."""
        room, alike = self.scheduler.room(request), self.model.alike
        return (min(room, alike) if alike is not None and rows == 1 else room) - 1

    def _target(self, request: Request) -> Target:
        cache = PagedCache.over(self.pool, [request.table], [request.computed])
        return Target(cache, tuple(request.tokens[request.computed :]), request.state)

    def _cache_over(self, requests: Sequence[Request]) -> PagedCache:
        return PagedCache.over(
            self.pool, [request.table for request in requests], [request.computed for request in requests]
        )

    def _decode(self, requests: Sequence[Request]) -> Tensor:
        """The last token of each request and its draft through the model: logits [requests, vocab] behind the token."""
        rows = [[request.tokens[-1], *request.block.tokens] for request in requests]
        counts = [len(row) for row in rows]
        begin = perf_counter()
        logits = self._forward(requests, rows, prompt=False, all_logits=max(counts) > 1)
        took = perf_counter() - begin
        widest = logits.shape[1]
        for request, count, row in zip(requests, counts, logits, strict=True):
            request.block.open(row[widest - count :])
            request.clock.verify_s += took if request.block.draft else 0.0
        speculator = next((each.speculator for each in requests if each.speculator is not None), None)
        if speculator is not None:
            speculator.measure(len(requests) * widest, took)
        if widest == 1:
            return logits[:, 0]
        return torch.cat([request.block.logits for request in requests])

    def _prefill(self, requests: Sequence[Request], counts: Sequence[int]) -> Tensor:
        """The next `counts` tokens of prompts through the model: logits [requests, vocab] behind them."""
        rows = [
            request.tokens[request.computed : request.computed + count]
            for request, count in zip(requests, counts, strict=True)
        ]
        logits = self._forward(requests, rows, prompt=requests[0].in_prompt)
        for request, row in zip(requests, logits, strict=True):
            self.scheduler.remember(request)
            request.block = Block()
            request.block.open(row)
        return logits[:, 0]

    def _forward(
        self, requests: Sequence[Request], rows: Sequence[Sequence[int]], *, prompt: bool, all_logits: bool = False
    ) -> Tensor:
        """The next tokens of each request through the model, of the prompts of all or of none.

        Returns:
            [requests, 1, vocab], behind the last token of each; or [requests, widest, vocab], aligned at the end.
        """
        counts = [len(row) for row in rows]
        widest = max(counts)
        if widest == 1 and self.decoder is not None:
            with Booked(requests, "forward"):
                logits = self.decoder.run([row[0] for row in rows], self._cache_over(requests)).unsqueeze(1)
            return self._forwarded(requests, counts, logits)
        ids = upload([[*row, *[0] * (widest - len(row))] for row in rows], self.model.device)
        with Booked(requests, "forward"):
            cache, lengths = self._cache_over(requests), None if min(counts) == widest else counts
            last = widest if all_logits else 1
            if any(request.wants_state for request in requests):
                states = self.model.states(ids, cache, lengths=lengths, last=last, prompt=prompt)
                logits = self.model.head(states)
                for request, count, row in zip(requests, counts, states, strict=True):
                    request.states = row[-min(count, last) :] if request.wants_state else None
            else:
                logits = self.model.forward(ids, cache, lengths=lengths, logits=last, prompt=prompt)
        return self._forwarded(requests, counts, logits)

    def _forwarded(self, requests: Sequence[Request], counts: Sequence[int], logits: Tensor) -> Tensor:
        """Notes what has been computed; the logits."""
        self.forwards += 1
        for request, count in zip(requests, counts, strict=True):
            request.computed += count
            request.forwards += 1
        return logits

    def _conclude(self, request: Request) -> None:
        """After the draws of a step: what did not hold is taken back, who is finished leaves."""
        block = request.block
        block.close()
        if request.states is not None:
            request.state, request.states = request.states[block.accepted], None
        if request.computed >= len(request.tokens):
            request.computed = len(request.tokens) - 1
            self.pool.manager.truncate(request.table, request.computed)
        if request.speculator is not None:
            request.speculator.done(block)
        if request.is_finished:
            self._leave(request)

    def _leave(self, request: Request) -> None:
        if isinstance(request.error, InvalidLogits):
            # NaN in a block would reach the next row that has it, masked or not.
            self.pool.clear([block for block in request.table.blocks if self.pool.manager.references[block] == 1])
            request.computed = 0
        # What is behind the text may be of a draft, which nobody is to find.
        request.computed = min(request.computed, max(0, len(request.tokens) - 1))
        request.making = None  # nobody waits for it any more
        self.scheduler.remove(request)
        request.close()
