"""Draws as races: each token has a time of its own, and the one that comes first is drawn.

With E independent and exponential, the least E[i] / p[i] is at i with probability p[i] (the Gumbel-max trick in another
form; Gumbel 1954, Maddison, Tarlow and Minka 2014).  Which token wins changes only where two are nearly level.  So
logits that differ by rounding (another batch size, another device) draw the same token but for a chance of about the
distance between the distributions.  Inverting the cumulative sum with one number would have them differ
wherever the number comes near the border of any of the tokens, and most of a large vocabulary is borders.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.sampling.uniform import GOLDEN_GAMMA, MULTIPLIERS

BLOCK = 256
"""Tokens that race among themselves, when their block has won the race of blocks."""

_KEY_BITS, _TIME_BITS = 48, 52
_GAMMA, _FIRST, _SECOND = (number - 2**64 for number in (GOLDEN_GAMMA, *MULTIPLIERS))
"""As signed numbers: torch multiplies no others."""


def draw(probs: Tensor, uniforms: Tensor) -> Tensor:
    """A token for each row, distributed as it says.

    Args:
        probs: [batch, vocab], non-negative with mass; need not sum to exactly 1.
        uniforms: float64 [batch] in [0, 1 - 2**-48]; the times of all tokens of a row are made from its number.

    Returns:
        int64 [batch]; never a token of probability 0.
    """
    keys = (uniforms * 2.0**_KEY_BITS).long()
    vocab = probs.shape[-1]
    if vocab <= BLOCK:
        return _first(probs, _times(keys, vocab, 0))
    blocks = -(-vocab // BLOCK)
    padded = F.pad(probs, (0, blocks * BLOCK - vocab)) if vocab % BLOCK else probs
    by_block = padded.reshape(len(probs), blocks, BLOCK)
    block = _first(by_block.sum(-1, dtype=torch.float64), _times(keys, blocks, BLOCK))
    inside = by_block.gather(1, block.view(-1, 1, 1).expand(-1, 1, BLOCK)).squeeze(1)
    return block * BLOCK + _first(inside, _times(keys, BLOCK, 0))


def _first(mass: Tensor, times: Tensor) -> Tensor:
    return (mass / times).argmax(-1)


def _times(keys: Tensor, count: int, start: int) -> Tensor:
    """Exponential times, float64 [batch, count], of the numbers from `start` on; a hash of key and number (`uniform.mix`)."""
    numbers = torch.arange(start + 1, start + count + 1, device=keys.device)
    state = keys.unsqueeze(-1) + numbers * _GAMMA
    state = (state ^ _shifted(state, 30)) * _FIRST
    state = (state ^ _shifted(state, 27)) * _SECOND
    state = state ^ _shifted(state, 31)
    # never 0 and never 1, so that no time is infinite or nothing
    return (_shifted(state, 64 - _TIME_BITS).double() + 0.5).mul_(2.0**-_TIME_BITS).log_().neg_()


def _shifted(state: Tensor, bits: int) -> Tensor:
    """To the right, zeros coming in: torch has no unsigned integers that shift."""
    return (state >> bits) & ((1 << (64 - bits)) - 1)
