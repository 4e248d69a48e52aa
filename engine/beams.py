"""Beam search: the most likely texts, instead of a drawn one (Graves 2012; length normalisation as in Wu et al. 2016,
section 7, with the plain power of the length).

Beams are rows of one paged cache: those that go on share blocks with what they came from, and those that are dropped give
theirs back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from engine.caches import PagedCache
from engine.constraint import ForkableConstraint, TokenConstraint
from engine.errors import EngineError
from engine.generation import CancelToken, as_prompt, check_lengths
from engine.metrics import Metrics, Stopwatch
from engine.model import Model
from engine.sampling import GIVE_WAY, GREEDY, EmptyRow, InvalidLogits, Sampling, SamplingError
from engine.sampling.chain import Chain, check_token_ids
from engine.sequence import FinishReason, SequenceState, step_masks

MOST_BEAMS = 64


@dataclass(frozen=True, slots=True)
class Beam:
    """One text that was found.

    Attributes:
        token_ids: its tokens, without prompt and end token.
        logprob: natural logarithm of its probability, the end token's included where it has one: the model's, after bias and
            penalties; what a constraint or a ban forbids is left out and not shared out among the others.
        score: `logprob / tokens ** length_penalty`, the end token counted.
        finish_reason: `"stop"`, `"length"` or `"cancelled"`.
    """

    token_ids: tuple[int, ...]
    logprob: float
    score: float
    finish_reason: FinishReason


@dataclass(frozen=True)
class BeamOutput:
    """The texts, best score first, no two alike; and what it took."""

    beams: tuple[Beam, ...]
    metrics: Metrics


@dataclass(frozen=True, eq=False)
class _Path:
    """A text that goes on; `row` is its row of the cache."""

    sequence: SequenceState
    logprob: float = 0.0
    row: int = 0


def beam_search(
    model: Model,
    ids: Sequence[int],
    *,
    beams: int = 4,
    length_penalty: float = 1.0,
    constraint: TokenConstraint | None = None,
    sampling: Sampling | None = None,
    max_new_tokens: int = 256,
    eos_token_ids: Sequence[int] | None = None,
    cancel: CancelToken | None = None,
) -> BeamOutput:
    """The texts of the best scores that a search of so many beams finds.

    Each step keeps the `beams` likeliest texts that go on.  The search ends when none of them can still come to a better
    score than the texts that are finished, so a wider search never ends with less.

    Args:
        model, ids: as for `engine.generate`.
        beams: 1 to 64; the search is exact where no step has more texts than that.
        length_penalty: 0: the likeliest text; above, longer ones are favoured, below, shorter ones.
        constraint: must be able to fork; it stays where it is.
        sampling: its bias, penalties, bans and n-gram rule apply; what only drawing has is refused.
        max_new_tokens: most tokens of a text, its end token included.
        cancel: looked at before each step; what is finished then is handed out, and what is not as `"cancelled"`.

    Raises:
        ContextError, EngineError: as `engine.generate`; a constraint that cannot fork.
        SamplingError: as there, or a parameter that beams have no use for.
        EmptyRow: rules leave no token to any beam.
    """
    sampling = GREEDY if sampling is None else sampling
    _check(beams, constraint, sampling)
    check_lengths(len(ids), max_new_tokens, model.config)
    clock = Stopwatch()
    with clock.step():
        ends = model.config.eos_token_ids if eos_token_ids is None else tuple(eos_token_ids)
        search = _Search(model, beams, length_penalty, sampling, max_new_tokens, ends, clock)
        found = search.run([int(token) for token in ids], constraint, cancel)
    best = max(found, key=lambda beam: beam.score)
    return BeamOutput(tuple(sorted(found, key=lambda beam: -beam.score)), clock.metrics(len(ids), len(best.token_ids)))


class _Search:
    def __init__(
        self,
        model: Model,
        beams: int,
        length_penalty: float,
        sampling: Sampling,
        max_new_tokens: int,
        ends: tuple[int, ...],
        clock: Stopwatch,
    ) -> None:
        self.model, self.beams, self.length_penalty, self.sampling = model, beams, length_penalty, sampling
        self.most, self.ends, self.clock = max_new_tokens, ends, clock
        self.finished: dict[tuple[int, ...], Beam] = {}

    def run(self, prompt: list[int], constraint: TokenConstraint | None, cancel: CancelToken | None) -> list[Beam]:
        model, vocab_size = self.model, self.model.config.vocab_size
        first = SequenceState(
            prompt, self.sampling, vocab_size, constraint=_forked(constraint), max_new_tokens=self.most,
            eos_token_ids=self.ends,
        )  # fmt: skip
        check_token_ids(first.row, vocab_size)
        paths = [_Path(first)]
        cache = model.new_cache("paged")
        assert isinstance(cache, PagedCache)
        tokens = torch.tensor([prompt], device=model.device)
        for length in range(1, self.most + 1):
            if cancel is not None and cancel.is_set():
                self._finish_all(paths, "cancelled")
                break
            with self.clock.part("forward"):
                logits = model.forward(tokens, cache, **as_prompt(model, length == 1))
            self.clock.forwards += 1
            paths = self._go_on(paths, self._logprobs(paths, logits), length)
            if not paths or self._nothing_better(paths, length):
                break
            if length == self.most:
                self._finish_all(paths, "length")
                break
            forked = cache.fork([path.row for path in paths])
            cache.close()
            cache = forked
            last = [[path.sequence.row.history.tokens[-1]] for path in paths]
            tokens = torch.tensor(last, device=model.device)
        cache.close()
        return list(self.finished.values())

    def _logprobs(self, paths: Sequence[_Path], logits: Tensor) -> Tensor:
        """Of each path's next tokens, float64 [paths, vocab]; `-inf` where a rule forbids one."""
        sequences = [path.sequence for path in paths]
        with self.clock.part("mask"):
            for sequence in sequences:
                if sequence.constraint is not None and sequence.mask is not None:
                    sequence.constraint.fill_mask(sequence.mask)
        with self.clock.part("sample"), torch.inference_mode():
            broken = logits.isnan().any(-1)
            if bool(broken.any()):
                raise InvalidLogits(sequences[0].row.step, int(broken.int().argmax()))
            chain = Chain([sequence.row for sequence in sequences], logits.shape[-1], logits.device)
            soft = chain.scores(logits, dropped=GIVE_WAY).double()
            hard = chain.scores(logits, *step_masks(sequences, logits.device)).double()
            return hard - soft.logsumexp(-1, keepdim=True)

    def _go_on(self, paths: Sequence[_Path], logprobs: Tensor, length: int) -> list[_Path]:
        """The best texts that go on; those that end here are noted as finished."""
        totals = logprobs + torch.tensor([path.logprob for path in paths], device=logprobs.device).unsqueeze(1)
        # Each path may end by each end token; behind these there are still enough that go on.
        count = min(totals.numel(), self.beams + len(paths) * max(1, len(self.ends)))
        values, places = totals.flatten().topk(count)
        kept: list[_Path] = []
        alive = False
        for total, place in zip(values.tolist(), places.tolist(), strict=True):
            if total == float("-inf") or len(kept) == self.beams:
                break
            alive = True
            row, token = divmod(place, totals.shape[1])
            with self.clock.part("mask"):
                path = self._extended(paths[row], token, total, row, length)
            if path is not None:
                kept.append(path)
        if not alive and not self.finished:
            raise EmptyRow(
                paths[0].sequence.row.step, 0, ("constraint", *GIVE_WAY),
                "no beam has a token that all rules allow: take fewer bans",
            )  # fmt: skip
        return kept

    def _extended(self, path: _Path, token: int, logprob: float, row: int, length: int) -> _Path | None:
        """The path with one token more; `None` where the token ends it."""
        sequence = path.sequence.fork()
        if sequence.constraint is not None:
            sequence.constraint.accept(token)
        if token in self.ends or (sequence.constraint is not None and sequence.constraint.is_finished()):
            self._finish(tuple(path.sequence.output), logprob, length, "stop")
            return None
        sequence.row.history.append(token)
        return _Path(sequence, logprob, row)

    def _finish(self, tokens: tuple[int, ...], logprob: float, length: int, reason: FinishReason) -> None:
        beam = Beam(tokens, logprob, logprob / max(1, length) ** self.length_penalty, reason)
        known = self.finished.get(tokens)  # the same text by another end token
        if known is None or known.score < beam.score:
            self.finished[tokens] = beam
        if len(self.finished) > self.beams:
            worst = min(self.finished.values(), key=lambda each: each.score)
            del self.finished[worst.token_ids]

    def _finish_all(self, paths: Sequence[_Path], reason: FinishReason) -> None:
        for path in paths:
            output = tuple(path.sequence.output)
            self._finish(output, path.logprob, len(output), reason)

    def _nothing_better(self, paths: Sequence[_Path], length: int) -> bool:
        """Whether no path can still come to a score above that of the worst text that would be handed out."""
        if len(self.finished) < self.beams:
            return False
        # Probabilities only fall; the score falls least where the length is divided by most.
        reach = self.most if self.length_penalty > 0 else length + 1
        best: float = max(path.logprob for path in paths) / reach**self.length_penalty
        return best <= min(beam.score for beam in self.finished.values())


def _forked(constraint: TokenConstraint | None) -> TokenConstraint | None:
    if constraint is None:
        return None
    if not isinstance(constraint, ForkableConstraint):
        raise EngineError(
            f"beams need a constraint that can fork, and {type(constraint).__name__} has no fork(): generate without beams"
        )
    return constraint.fork()


def _check(beams: int, constraint: TokenConstraint | None, sampling: Sampling) -> None:
    if not isinstance(beams, int) or isinstance(beams, bool) or not 1 <= beams <= MOST_BEAMS:
        raise EngineError(f"beams={beams!r}: choose 1 to {MOST_BEAMS}")
    neutral = replace(
        sampling, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, typical_p=1.0, seed=None, logprobs=None,
        on_empty="error",
    )  # fmt: skip
    greedy = replace(neutral, temperature=0.0)
    if sampling not in (neutral, greedy):
        raise SamplingError(
            "beam search draws nothing: leave temperature, top_k, top_p, min_p, typical_p, seed, logprobs and on_empty as "
            "they are"
        )
