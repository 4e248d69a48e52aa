"""The generation loop of one sequence: prefill, then forward passes, and a draw for each token.

`decode` runs the model, `engine.sampling` draws, `engine.sequence` holds the state, and `TokenStream` takes the steps
when its consumer asks for them.  A forward pass takes along a draft (`engine.speculation`), which without speculation is
empty; its positions are drawn one by one as they are asked for, so what is not asked for is not committed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, runtime_checkable

import torch
from torch import Tensor

from engine.constraint import TokenConstraint
from engine.devices import upload
from engine.errors import ContextError, EngineError, SpeculationError
from engine.metrics import Metrics, Stopwatch
from engine.sampling import GREEDY, Fallback, Sampling, TokenLogprob
from engine.sampling.sampler import Sampler
from engine.sequence import FinishReason, SequenceState, step_masks
from engine.speculation.block import Block
from engine.speculation.draft import Target
from engine.speculation.speculation import Speculation, Speculator

if TYPE_CHECKING:
    from engine.caches import Cache
    from engine.config import ModelConfig


class Decoder(Protocol):
    """What generation needs of a model; `engine.model.Model` is one.

    It may say besides, as `Model.alike`, how long a block may be whose tokens get what each gets alone; then `forward` (and
    `states`) take `prompt=True` for a prompt.
    """

    @property
    def config(self) -> ModelConfig:
        """Of which `vocab_size`, `context_length` and `eos_token_ids` are read."""

    @property
    def device(self) -> torch.device: ...

    def new_cache(self, name: str = "auto", batch: int = 1, capacity: int = 0) -> Cache:
        """An empty cache for `batch` rows with room for `capacity` positions each."""

    def forward(self, input_ids: Tensor, cache: Cache, *, logits: Literal["last", "all"] | int = "last") -> Tensor:
        """Run int64 [batch, new] behind what `cache` holds; logits [batch, vocab_size] of the last position.

        `logits` is passed under speculation alone: a number n asks for those of the last n, [batch, n, vocab_size].
        """


@runtime_checkable
class StatefulDecoder(Decoder, Protocol):
    """A model that hands out its hidden states; for proposers that begin with them."""

    def states(self, input_ids: Tensor, cache: Cache) -> Tensor:
        """As `forward`: the states behind the last layer, [batch, new, hidden]."""

    def head(self, hidden: Tensor) -> Tensor:
        """Logits [..., vocab_size] of states [..., hidden]."""


class CancelToken(Protocol):
    """Asks a generation to stop; `threading.Event` is one."""

    def is_set(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Token:
    """One token of the output, as it is streamed."""

    token_id: int
    logprob: TokenLogprob | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """What came of one generation.

    Attributes:
        token_ids: the output, without prompt and end token.
        finish_reason: `"stop"`: an end token, a finished constraint or the stop condition; `"length"`: the limit of new
            tokens; `"cancelled"`.
        fallbacks: hard rules that were not kept, with their steps; see `Sampling.on_empty`.
        logprobs: one for each output token, if `Sampling.logprobs` asks for them.
        seed: the request's seed; the same request with it draws the same tokens; `None` where nothing is drawn.
        score: of a beam, what it is ordered by; `None` without beams.
    """

    token_ids: list[int]
    finish_reason: FinishReason
    fallbacks: list[Fallback]
    logprobs: list[TokenLogprob]
    seed: int | None
    metrics: Metrics
    score: float | None = None


class TokenStream(Iterator[Token]):
    """A generation in progress: each `next` takes one step; `result` takes what steps are left.

    Closing it, or leaving its `with` block, cancels what is left and frees the cache.
    """

    def __init__(
        self,
        model: Decoder,
        cache: Cache,
        prompt: Sequence[int],
        sequence: SequenceState,
        clock: Stopwatch,
        cancel: CancelToken | None = None,
        speculator: Speculator | None = None,
    ) -> None:
        self._model = model
        self._cache: Cache | None = cache
        self._pending = list(prompt)
        self._prompt_tokens = len(prompt)
        self._sequence = sequence
        self._sampler = Sampler([sequence.row], model.config.vocab_size, model.device)
        self._clock = clock
        self._cancel = cancel
        self._speculator = speculator
        self._alike: int | None = getattr(model, "alike", None)
        self._begun = False
        self._block = Block()
        self._state: Tensor | None = None
        self._states: Tensor | None = None
        self._error: Exception | None = None

    def __next__(self) -> Token:
        """The next token.

        Raises:
            StopIteration: the generation is finished.
            EmptyRow, InvalidLogits: see `Sampler.sample`; the generation is over then.
        """
        if self._cancel is not None and self._cancel.is_set():
            self.close()
        if self._cache is None or self._sequence.is_finished:
            self._end()
            raise StopIteration
        try:
            with self._clock.step():
                token = self._step(self._cache)
            if token is not None:  # after the step was timed, or each token would get the time of the one before
                self._clock.token()
        except Exception as error:
            self._error = error
            self._end()
            raise
        if token is None:
            self._end()
            raise StopIteration
        return token

    def close(self) -> None:
        """Cancel what is left, free the cache; a finished generation stays as it is."""
        if not self._sequence.is_finished and self._error is None:
            self._sequence.finish_reason = "cancelled"
        self._end()

    def _end(self) -> None:
        """Give back what the generation holds."""
        self._cache = None
        self._finish_block()
        if self._speculator is not None:
            self._speculator.close()

    def result(self) -> Output:
        """Take the steps that are left and hand back the whole.

        Raises:
            EmptyRow, InvalidLogits: as `next`; again where it was raised before.
        """
        for _ in self:
            pass
        if self._error is not None:
            raise self._error
        sequence = self._sequence
        assert sequence.finish_reason is not None
        output = sequence.output
        return Output(
            token_ids=output,
            finish_reason=sequence.finish_reason,
            fallbacks=list(sequence.fallbacks),
            logprobs=list(sequence.logprobs),
            seed=sequence.row.seed,
            metrics=self._clock.metrics(self._prompt_tokens, len(output)),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _step(self, cache: Cache) -> Token | None:
        """Forward pass where there are no logits yet, draw, bookkeeping; `None` where an end token was drawn."""
        sequence, clock = self._sequence, self._clock
        if not self._block.is_open:
            self._run_block(cache)
        block = self._block
        with clock.part("sample"):
            draw = sequence.dictated()
            if draw is None:
                masks = step_masks([sequence], block.logits.device)
                draw = self._sampler.sample(block.logits, *masks, guesses=[block.guess])[0]
        with clock.part("mask"):
            belongs = sequence.accept(draw)
        if not belongs:
            return None
        self._sampler.commit([draw.token_id])
        mask = block.take(draw.token_id)
        with clock.part("mask"):
            sequence.settle(mask)
        if not block.is_open:
            self._pending = [draw.token_id]
            if block.accepted < len(block.draft):
                cache.truncate(len(sequence.row.history.tokens) - 1)
        return Token(draw.token_id, draw.logprob)

    def _run_block(self, cache: Cache) -> None:
        """Draft, and the forward pass that gives logits for the next draws."""
        self._finish_block()
        clock, speculator = self._clock, self._speculator
        block = Block()
        if speculator is not None:
            block = speculator.draft(
                lambda: self._sampler, lambda: Target(cache, tuple(self._pending), self._state), room=self._room(cache)
            )
        tokens = [*self._pending, *block.tokens]
        prompt, self._begun = not self._begun, True
        before = perf_counter()
        with clock.part("forward"):
            if speculator is not None and speculator.wants_state:
                logits = self._run_for_state(cache, tokens, len(block.draft) + 1, prompt)
            else:
                logits = decode(self._model, cache, tokens, len(block.draft) + 1, prompt)
        clock.forwards += 1
        if speculator is not None:
            took = perf_counter() - before
            speculator.measure(len(tokens), took)
            clock.verify_s += took if block.draft else 0.0
        block.open(logits)
        self._block = block

    def _room(self, cache: Cache) -> int:
        """Most guesses of the next block.

        Where a model gives the tokens of a block what each gets alone, no block is longer than that holds, and a prompt
        is run by itself: so the text is, bit for bit, the one without guesses.
        """
        if self._alike is None:
            return cache.together - len(self._pending)
        return min(self._alike, cache.together) - 1 if self._begun else 0

    def _run_for_state(self, cache: Cache, tokens: Sequence[int], last: int, prompt: bool) -> Tensor:
        """As `decode`; the hidden states are kept for the proposer."""
        model = self._model
        assert isinstance(model, StatefulDecoder), "a proposer that wants states was begun for a model without"
        ids = upload([tokens], model.device, torch.int64)
        self._states = model.states(ids, cache, **as_prompt(model, prompt))[0, -last:]
        return model.head(self._states)

    def _finish_block(self) -> None:
        """What became of the last block's guesses is known now."""
        if self._speculator is not None and self._block.was_open:
            self._speculator.done(self._block)
            if self._states is not None:
                self._state, self._states = self._states[self._block.accepted], None
        self._block = Block()


def decode(model: Decoder, cache: Cache, tokens: Sequence[int], last: int = 1, prompt: bool = False) -> Tensor:
    """Logits [last, vocab_size] of the last `last` of `tokens`, a prompt, one token, or a draft behind one of these; the
    cache then holds them."""
    ids, options = upload([tokens], model.device, torch.int64), as_prompt(model, prompt)
    if last == 1:
        return model.forward(ids, cache, **options)
    return model.forward(ids, cache, logits=last, **options)[0]


def as_prompt(model: Decoder, prompt: bool) -> dict[str, Any]:
    """What tells a model that tokens are of a prompt, where that makes a difference to it: `Model.forward`'s `prompt`."""
    return {"prompt": True} if prompt and getattr(model, "alike", None) is not None else {}


def generate(
    model: Decoder,
    ids: Sequence[int] | Tensor,
    *,
    sampling: Sampling | None = None,
    constraint: TokenConstraint | None = None,
    max_new_tokens: int = 256,
    eos_token_ids: Sequence[int] | None = None,
    cache: str = "auto",
    stop: Callable[[Sequence[int]], bool] | None = None,
    cancel: CancelToken | None = None,
    speculation: Speculation | None = None,
    group: Hashable = None,
) -> TokenStream:
    """Continue a prompt; nothing runs until the stream that is returned is iterated or asked for its `result`.

    The text ends at an end token, which is not part of the output; at `max_new_tokens`; or, under a constraint, where
    the text is a sentence and nothing but an end token may follow, without the forward pass that would draw it.

    Args:
        model: an `engine.model.Model`, or anything with its `config`, `device`, `new_cache` and `forward`.
        ids: token ids of the prompt, [n] or [1, n]; at least one.
        sampling: how to draw; `None` is greedy.
        constraint: where to draw from; it is advanced, and belongs to this generation alone.
        max_new_tokens: most tokens of the output.
        eos_token_ids: end tokens; `None` takes the model's.
        cache: name of a key/value cache, see `engine.caches`.
        stop: called with the output after each token; true ends the text, that token included.
        cancel: looked at before each token; once set, the generation ends as `"cancelled"`.
        speculation: how tokens are guessed ahead (`engine.speculation`); `None`: not at all.  Under a constraint it must
            be a `SpeculativeConstraint`; with another one nothing is guessed.
        group: equal for requests that are likely to be answered alike; proposers that learn from outputs do it by group.

    Raises:
        ContextError: prompt and `max_new_tokens` do not fit into the model's context.
        EngineError: an empty prompt, a limit below 1, or a proposer that needs more of a model than this one has.
        SamplingError: a token id outside the vocabulary.
    """
    if speculation is not None and speculation.proposer.wants_state and not isinstance(model, StatefulDecoder):
        raise SpeculationError(
            f"the proposer {speculation.proposer.name!r} needs hidden states, which {type(model).__name__} does not hand out"
        )
    prompt = ids.reshape(-1).tolist() if isinstance(ids, Tensor) else [int(token) for token in ids]
    check_lengths(len(prompt), max_new_tokens, model.config)
    clock = Stopwatch()
    with clock.step():
        sequence = SequenceState(
            prompt,
            GREEDY if sampling is None else sampling,
            model.config.vocab_size,
            constraint=constraint,
            max_new_tokens=max_new_tokens,
            eos_token_ids=model.config.eos_token_ids if eos_token_ids is None else eos_token_ids,
            stop=stop,
        )
        with clock.part("mask"):
            sequence.settle()
        kv_cache = model.new_cache(cache, 1, len(prompt) + max_new_tokens if cache == "static" else 0)
        speculator = None if speculation is None else speculation.begin(sequence, clock, group)
        return TokenStream(model, kv_cache, prompt, sequence, clock, cancel, speculator)


def check_lengths(prompt: int, new: int, config: ModelConfig) -> None:
    """Raises unless a prompt of so many tokens and so many new ones make a generation in a context of that length.

    Raises:
        ContextError, EngineError: as `generate`.
    """
    if prompt < 1:
        raise EngineError("the prompt is empty: give it at least one token (most models have one for the beginning)")
    if new < 1:
        raise EngineError(f"max_new_tokens={new}: ask for at least 1")
    context = config.context_length
    if prompt >= context:
        raise ContextError(
            f"the prompt has {prompt} tokens, which fills the model's context of {context}: "
            f"shorten it by at least {prompt - context + 1}{config.longer_context}"
        )
    if prompt + new > context:
        raise ContextError(
            f"a prompt of {prompt} tokens and {new} new ones do not fit into the model's context of {context}: "
            f"lower max_tokens to {context - prompt}, or shorten the prompt by {prompt + new - context}"
            f"{config.longer_context}"
        )
