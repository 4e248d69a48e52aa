"""Verification of a block of guesses against the target's distributions: how many hold, and what comes after them.

Pure functions of tensors, for one or many sequences.  The generation loops verify position by position, since penalties
and constraints of a position depend on what was kept before it; `verify` is for loops that have the processed
distributions of a whole block at hand.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from engine.sampling import race
from engine.sampling.coupling import couple


class Verdict(NamedTuple):
    """What came of a block.

    Attributes:
        accepted: int64 [batch], how many of the guesses hold, from the first on.
        next_tokens: int64 [batch], the token behind them: from the residual where a guess was refused, else from the
            target's distribution after the last guess.
    """

    accepted: Tensor
    next_tokens: Tensor


def verify(p: Tensor, q: Tensor, drafts: Tensor, lengths: Tensor, uniforms: Tensor) -> Verdict:
    """Speculative sampling of blocks; see `engine.sampling.coupling`.

    Accepted guesses and the token behind them are together distributed as tokens drawn from `p` one by one.

    Args:
        p: [batch, block + 1, vocab], the target's processed distributions: entry j is the one after the first j guesses.
        q: [batch, block, vocab], the processed distributions that the guesses were drawn from; all mass on the guess
            where it was not drawn.
        drafts: int64 [batch, block], the guesses.
        lengths: int64 [batch], how many guesses a sequence has, 0 … block; what stands behind them does not matter.
        uniforms: float64 [2, batch, block + 1] in [0, 1), independent of each other and of the guesses.
    """
    batch, block = drafts.shape
    accept, draw = uniforms
    vocab = p.shape[-1]
    if block:
        tokens = couple(
            p[:, :block].reshape(-1, vocab),
            q.reshape(-1, vocab),
            drafts.reshape(-1),
            accept[:, :block].reshape(-1),
            draw[:, :block].reshape(-1),
        ).view(batch, block)
    else:
        tokens = drafts
    guessed = torch.arange(block, device=p.device) < lengths.unsqueeze(-1)
    accepted = ((tokens == drafts) & guessed).long().cumprod(-1).sum(-1)
    last = p[torch.arange(batch, device=p.device), accepted]
    free = race.draw(last, draw.gather(-1, accepted.unsqueeze(-1)).squeeze(-1))
    if not block:
        return Verdict(accepted, free)
    refused = tokens.gather(-1, accepted.clamp(max=block - 1).unsqueeze(-1)).squeeze(-1)
    return Verdict(accepted, torch.where(accepted < lengths, refused, free))
