"""One sequence on its way from prompt to end: tokens, constraint, limits, and why it stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import Literal

import numpy as np
import torch

from engine.constraint import DeviceConstraint, ForkableConstraint, Row, TokenConstraint, can_go_back
from engine.sampling import Draw, Fallback, Sampling, TokenLogprob
from engine.sampling.chain import SamplerRow
from engine.sampling.mask import Masks, row_words

FinishReason = Literal["stop", "length", "cancelled"]


class SequenceState:
    """The state of one generation; knows neither model nor cache.

    Attributes:
        row: what the sampler knows of the sequence, its tokens among that.
        mask: uint32[words], the tokens allowed next, current after `settle`; `None` without a constraint.
        fallbacks, logprobs: what the draws reported.
        finish_reason: `None` while the sequence runs.
    """

    def __init__(
        self,
        prompt: Sequence[int],
        sampling: Sampling,
        vocab_size: int,
        *,
        constraint: TokenConstraint | None = None,
        max_new_tokens: int,
        eos_token_ids: Sequence[int] = (),
        stop: Callable[[Sequence[int]], bool] | None = None,
    ) -> None:
        self.row = SamplerRow(sampling, prompt, eos_token_ids)
        self.constraint = constraint
        self.max_new_tokens = max_new_tokens
        self.eos_token_ids = frozenset(eos_token_ids)
        self.stop = stop
        self.mask = None if constraint is None else np.zeros(row_words(vocab_size), np.uint32)
        self.fallbacks: list[Fallback] = []
        self.logprobs: list[TokenLogprob] = []
        self.finish_reason: FinishReason | None = None
        self._other_than_end = ~_bits(self.eos_token_ids, vocab_size)
        self._spelled: list[
            int
        ] = []  # what the constraint dictates from here, the last token first, as far as it was asked

    @property
    def output(self) -> list[int]:
        """The tokens put out so far, the end token not among them (a copy)."""
        return self.row.history.output

    @property
    def is_finished(self) -> bool:
        return self.finish_reason is not None

    def fork(self) -> SequenceState:
        """Another sequence with the same text, whose constraint must be able to fork."""
        other = copy(self)
        other.row = self.row.fork()
        if self.constraint is not None and self.mask is not None:
            assert isinstance(self.constraint, ForkableConstraint)
            other.constraint, other.mask = self.constraint.fork(), self.mask.copy()
        other.fallbacks, other.logprobs = list(self.fallbacks), list(self.logprobs)
        other._spelled = list(self._spelled)
        return other

    def accept(self, draw: Draw) -> bool:
        """Take what was drawn; whether it belongs to the output (an end token does not).

        The constraint moves only with tokens that were drawn under it, see `Sampling.on_empty`.
        """
        token = draw.token_id
        if self._spelled and self._spelled.pop() != token:
            self._spelled = []
        self.fallbacks.extend(draw.fallbacks)
        if self.constraint is not None and draw.follows_constraint:
            self.constraint.accept(token)
        if token in self.eos_token_ids or (self.constraint is not None and self.constraint.is_finished()):
            self.finish_reason = "stop"
            return False
        if draw.logprob is not None:
            self.logprobs.append(draw.logprob)
        return True

    @property
    def may_end(self) -> bool:
        """Whether `settle` might finish the sequence; where it cannot, it can be put off while the model runs."""
        if self.stop is not None or self.row.history.output_length >= self.max_new_tokens:
            return True
        return self.constraint is not None and self.constraint.is_accepting()

    def settle(self, mask: Row | None = None) -> None:
        """Fill the mask of the next step, or take over `mask` where it is known, and see whether there is to be one.

        A sentence after which nothing but the end token may follow is finished: drawing it would take a forward pass
        and come out the same.  This goes before the length limit, so that a text that just fits ends as whole.
        """
        if self.constraint is not None and self.mask is not None:
            if mask is None:
                self.constraint.fill_mask(self.mask)
            else:
                self.mask[:] = mask
            if self.constraint.is_accepting() and not (self.mask & self._other_than_end).any():
                self.finish_reason = "stop"
                return
        length = self.row.history.output_length
        if self.stop is not None and length and self.stop(self.output):
            self.finish_reason = "stop"
        elif length >= self.max_new_tokens:
            self.finish_reason = "length"

    def dictated(self) -> Draw | None:
        """The next token, where it is certain whatever the logits are, and no other rule has anything against it.

        That is where the constraint leaves one token alone, or dictates the text, which then is spelled as the tokenizer
        does; see `Sampling.spelling`.
        """
        if self.mask is None:
            return None
        token = self._only_token(self.mask)
        if token is None:
            token = self._canonical_token(self.mask)
        if token is None or any(token in tokens for tokens in self.row.forbidden().values()):
            return None
        count = self.row.sampling.logprobs
        logprob = None if count is None else TokenLogprob(token, 0.0, ((token, 0.0),) if count else ())
        return Draw(token, logprob)

    @staticmethod
    def _only_token(mask: Row) -> int | None:
        if np.count_nonzero(mask) != 1:  # a tenth of the time that it takes to find the places
            return None
        place = int(np.flatnonzero(mask)[0])
        word = int(mask[place])
        return None if word & (word - 1) else 32 * place + word.bit_length() - 1

    def _canonical_token(self, mask: Row) -> int | None:
        """The next token of text that the constraint dictates; None where it dictates none or, near its end, has no room
        for that spelling.

        A dictated text is spelled once, from where it begins, and then gone through token by token.
        """
        if self.row.sampling.spelling != "canonical" or not can_go_back(self.constraint):
            return None
        if not self._spelled:
            self._spelled = self.constraint.forced_tokens()[::-1]
        if not self._spelled:
            return None
        token = self._spelled[-1]
        if token in self.eos_token_ids or not mask[token // 32] >> np.uint32(token % 32) & np.uint32(1):
            self._spelled = []
            return None
        return token


def step_masks(sequences: Sequence[SequenceState], device: torch.device) -> tuple[Masks | None, Sequence[bool] | None]:
    """The masks of the next step of a batch, and which sequences they hold for, as `Sampler.sample` takes them.

    Constraints whose masks the device keeps are asked for them there; a CPU reads the rows where they are.
    """
    masks = [sequence.mask for sequence in sequences]
    constraints = [sequence.constraint for sequence in sequences]
    kinds = {type(constraint) for constraint in constraints if constraint is not None}
    if not kinds:
        return None, None
    constrained = None if None not in constraints else [constraint is not None for constraint in constraints]
    if device.type != "cpu" and len(kinds) == 1:
        first = next(constraint for constraint in constraints if constraint is not None)
        if isinstance(first, DeviceConstraint):
            return first.device_rows(constraints, masks, device), constrained
    words = next(len(mask) for mask in masks if mask is not None)
    free = np.zeros(words, np.uint32)
    return np.stack([free if mask is None else mask for mask in masks]), constrained


def _bits(tokens: Iterable[int], vocab_size: int) -> Row:
    """The row that allows just `tokens`."""
    row = np.zeros(row_words(vocab_size), np.uint32)
    for token in tokens:
        row[token // 32] |= np.uint32(1 << token % 32)
    return row
