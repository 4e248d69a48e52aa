"""A draw that agrees with somebody else's guess as often as it can, and has its own distribution all the same.

Speculative sampling (Leviathan, Kalman and Matias 2023, arXiv:2211.17192, section 2.3; Chen et al. 2023,
arXiv:2302.01318, section 2): a guess x drawn from q is kept with probability min(1, p(x)/q(x)); otherwise the token comes
from the positive part of p - q, normalised.  Then the token is distributed as p, whatever q is.  The token is the guess
exactly where the guess was kept, since at a guess that can be refused p - q is negative.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from engine.sampling import race


class Guess(NamedTuple):
    """A token that was drawn from another distribution.

    Attributes:
        token_id: the token.
        probs: float32 [vocab], what it was drawn from.
    """

    token_id: int
    probs: Tensor


def residual(p: Tensor, q: Tensor) -> Tensor:
    """The positive part of p - q, normalised: [..., vocab]; p itself where nothing is left, which only rounding can do."""
    left = (p - q).clamp(min=0.0)
    mass = left.sum(-1, keepdim=True)
    return torch.where(mass > 0.0, left / mass, p)


def couple(p: Tensor, q: Tensor, guesses: Tensor, accept: Tensor, draw: Tensor) -> Tensor:
    """Tokens distributed as `p` that are the `guesses`, drawn from `q`, as often as that allows.

    Args:
        p, q: [n, vocab], non-negative, each row of mass 1.
        guesses: int64 [n].
        accept, draw: float64 [n] in [0, 1), independent of each other and of the guesses.

    Returns:
        int64 [n]; equal to the guess where it was kept, and nowhere else.
    """
    at = guesses.unsqueeze(-1)
    kept = accept * q.gather(-1, at).squeeze(-1) < p.gather(-1, at).squeeze(-1)
    if bool(kept.all()):
        return guesses
    return torch.where(kept, guesses, race.draw(residual(p, q), draw))
