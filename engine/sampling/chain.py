"""The processors in their order, for a fixed set of rows with their own parameters each."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy

import numpy as np
import torch
from torch import Tensor

from engine.devices import upload
from engine.sampling import processors
from engine.sampling.errors import SamplingError
from engine.sampling.history import History
from engine.sampling.mask import Masks, apply_mask
from engine.sampling.outcome import GIVE_WAY, HardRule
from engine.sampling.parameters import Sampling
from engine.sampling.uniform import fresh_seed

NOTHING_DROPPED: frozenset[HardRule] = frozenset()


class SamplerRow:
    """What drawing needs to know of one sequence; outlives the batches that the sequence is part of.

    Attributes:
        sampling: the request's parameters.
        seed: the request's seed, or the one drawn for it.
        history: prompt and output tokens; appended to by `Sampler.commit`.
        eos_token_ids: for `on_empty="eos"`, which takes the first.
    """

    def __init__(self, sampling: Sampling, prompt: Iterable[int] = (), eos_token_ids: Sequence[int] = ()) -> None:
        self.sampling = sampling
        self.seed = fresh_seed() if sampling.seed is None else sampling.seed
        self.history = History(prompt, sampling.no_repeat_ngram)
        self.eos_token_ids = tuple(eos_token_ids)

    def fork(self) -> SamplerRow:
        """Another row with the same tokens so far."""
        other = copy(self)
        other.history = self.history.fork()
        return other

    @property
    def step(self) -> int:
        """0-based index of the token to be drawn next."""
        return self.history.output_length

    def forbidden(self) -> dict[HardRule, Collection[int]]:
        """Tokens that each hard rule forbids at this step, in the order in which the rules give way."""
        sampling = self.sampling
        tokens: dict[HardRule, Collection[int]] = {
            "no_repeat_ngram": self.history.repeats(),
            "banned_tokens": sampling.banned_ids,
            "logit_bias": [token for token, bias in sampling.bias_pairs if not math.isfinite(bias)],
        }
        return {rule: tokens[rule] for rule in GIVE_WAY}


class Chain:
    """Logits in, processed logits out: bias, penalties, n-gram rule, banned tokens, constraint (`scores`), then
    temperature, top-k, top-p, min-p, typical-p (`truncate`).

    Raises:
        SamplingError: a bias, ban or end token that the vocabulary does not have.
    """

    def __init__(self, rows: Sequence[SamplerRow], vocab_size: int, device: torch.device | str = "cpu") -> None:
        self.rows = tuple(rows)
        self.vocab_size = vocab_size
        self.device = torch.device(device)
        samplings = [row.sampling for row in rows]
        for row in rows:
            check_token_ids(row, vocab_size)
        # Below float32's range a temperature becomes the smallest normal number: all but the best overflow to -inf.
        tiny = torch.finfo(torch.float32).tiny
        self._temperature = self._column([1.0 if s.is_greedy else max(s.temperature, tiny) for s in samplings])
        self._top_k = self._column([s.top_k for s in samplings], torch.int64)
        self._top_p = self._column([s.top_p for s in samplings], torch.float64)
        self._min_p = self._column([s.min_p for s in samplings], torch.float64)
        self._typical_p = self._column([s.typical_p for s in samplings], torch.float64)
        truncating = [s for s in samplings if not s.is_greedy]
        self._has_top_k_or_p = any(s.top_k or s.top_p < 1.0 for s in truncating)
        self._has_min_p = any(s.min_p > 0.0 for s in truncating)
        self._has_typical_p = any(s.typical_p < 1.0 for s in truncating)
        self._has_ngram = any(s.no_repeat_ngram for s in samplings)
        finite = [{t: b for t, b in s.bias_pairs if math.isfinite(b)} for s in samplings]
        self._biased = self._pairs(finite)
        self._biases = self._column([bias for row_biases in finite for bias in row_biases.values()])
        self._forbidden = self._pairs([[t for t, b in s.bias_pairs if not math.isfinite(b)] for s in samplings])
        self._banned = self._pairs([s.banned_ids for s in samplings])
        self._counts = [Counter(row.history.output) if row.sampling.has_penalties else Counter() for row in rows]
        self._seen = [Counter(row.history.tokens) if row.sampling.has_penalties else Counter() for row in rows]
        self._penalties = self._penalties_from_history() if any(s.has_penalties for s in samplings) else None

    def scores(
        self,
        logits: Tensor,
        masks: Masks | None = None,
        constrained: Sequence[bool] | None = None,
        dropped: Collection[HardRule] = NOTHING_DROPPED,
    ) -> Tensor:
        """Bias to constraint: float32 [batch, vocab], `-inf` where a hard rule forbids; not always a copy of `logits`.

        Args:
            logits, masks, constrained: see `Sampler.sample`.
            dropped: hard rules to leave out.
        """
        scores = logits.float()
        if self._biased is not None:
            scores = processors.add_bias(scores, *self._biased, self._biases)
        if self._forbidden is not None and "logit_bias" not in dropped:
            scores = processors.ban(scores, *self._forbidden)
        if self._penalties is not None:
            scores = processors.penalise(scores, *self._penalties)
        if self._has_ngram and "no_repeat_ngram" not in dropped:
            repeats = self._pairs([row.history.repeats() for row in self.rows])
            scores = scores if repeats is None else processors.ban(scores, *repeats)
        if self._banned is not None and "banned_tokens" not in dropped:
            scores = processors.ban(scores, *self._banned)
        if masks is None:
            return scores
        if isinstance(masks, np.ndarray | Tensor):
            return apply_mask(scores, masks, constrained)
        return masks.apply_(scores.clone() if scores is logits else scores)

    def truncate(self, scores: Tensor, rows: Tensor | None = None) -> Tensor:
        """Temperature to typical-p; rows must have a finite maximum, greedy rows come back at temperature 1.

        `rows` int64 [n]: which rows `scores` [n, vocab] are; `None`: all.
        """

        def own(column: Tensor) -> Tensor:
            return column if rows is None else column[rows]

        logits = processors.scale(scores, own(self._temperature))
        if self._has_top_k_or_p:
            logits = processors.top_k_top_p(logits, own(self._top_k), own(self._top_p))
        if self._has_min_p:
            logits = processors.min_p(logits, own(self._min_p))
        if self._has_typical_p:
            logits = processors.typical_p(logits, own(self._typical_p))
        return logits

    def commit(self, tokens: Sequence[int | None]) -> None:
        """Append one token to the history of each row; `None` leaves a row as it is."""
        changed: dict[int, Sequence[int]] = {}
        for index, (row, token) in enumerate(zip(self.rows, tokens, strict=True)):
            if token is None:
                continue
            row.history.append(token)
            if row.sampling.has_penalties:
                self._counts[index][token] += 1
                self._seen[index][token] += 1
                changed[index] = (token,)
        if self._penalties is not None:
            self._write_penalties(*self._penalties, changed)

    def rollback(self, counts: Sequence[int]) -> None:
        """Take the last `counts` output tokens of each row back.

        Raises:
            ValueError: a row has fewer.
        """
        for index, (row, count) in enumerate(zip(self.rows, counts, strict=True)):
            gone = row.history.tokens[len(row.history.tokens) - count :]
            row.history.rollback(count)
            if gone and self._penalties is not None and row.sampling.has_penalties:
                self._counts[index].subtract(gone)
                self._seen[index].subtract(gone)
                self._write_penalties(*self._penalties, {index: sorted(set(gone))})

    def _penalties_from_history(self) -> tuple[Tensor, Tensor]:
        """Factor and offset, float32 [batch, vocab] each, as `processors.penalise` takes them."""
        shape = (len(self.rows), self.vocab_size)
        factor, offset = torch.ones(shape, device=self.device), torch.zeros(shape, device=self.device)
        seen = {
            index: sorted(set(row.history.tokens)) for index, row in enumerate(self.rows) if row.sampling.has_penalties
        }
        self._write_penalties(factor, offset, seen)
        return factor, offset

    def _write_penalties(self, factor: Tensor, offset: Tensor, named: Mapping[int, Sequence[int]]) -> None:
        """Set factor and offset of the tokens named for each row, for all rows at once; presence and frequency count the
        output alone."""
        rows = [index for index, tokens in named.items() for _ in tokens]
        if not rows:
            return
        factors, offsets = list[float](), list[float]()
        for index, tokens in named.items():
            sampling, counts, seen = self.rows[index].sampling, self._counts[index], self._seen[index]
            factors += [sampling.repetition_penalty if seen[token] else 1.0 for token in tokens]
            offsets += [
                sampling.presence_penalty + sampling.frequency_penalty * counts[token] if counts[token] else 0.0
                for token in tokens
            ]
        columns = [token for tokens in named.values() for token in tokens]
        places = self._column(rows, torch.int64), self._column(columns, torch.int64)
        factor[places], offset[places] = self._column(factors), self._column(offsets)

    def _pairs(self, tokens: Sequence[Collection[int]]) -> tuple[Tensor, Tensor] | None:
        """Row and token indices, int64 [pairs] each, of the tokens named for each row; `None` where there are none."""
        rows = [index for index, named in enumerate(tokens) for _ in named]
        if not rows:
            return None
        columns = [token for named in tokens for token in named]
        return self._column(rows, torch.int64), self._column(columns, torch.int64)

    def _column(self, values: Sequence[float], dtype: torch.dtype = torch.float32) -> Tensor:
        return upload(values, self.device, dtype)


def check_token_ids(row: SamplerRow, vocab_size: int) -> None:
    """Raise SamplingError where a row names a token that `vocab_size` logits do not have."""
    named = {
        "logit_bias": [token for token, _ in row.sampling.bias_pairs],
        "banned_tokens": row.sampling.banned_ids,
        "eos_token_ids": row.eos_token_ids,
        "the prompt": row.history.tokens,
    }
    for field, tokens in named.items():
        outside = [token for token in tokens if not 0 <= token < vocab_size]
        if outside:
            raise SamplingError(
                f"{field} names token {outside[0]}, but the logits have {vocab_size}: accepted: 0 to {vocab_size - 1}"
            )
