"""The steps between raw logits and the distribution, each a pure function of tensors.

Logits are float32 [batch, vocab]; a forbidden token is `-inf`.  Parameters are one value a row, as tensors [batch].  A
row's result depends on that row alone, and the neutral parameter returns it bit for bit, so a batch may run a step for
the rows that want it and change nothing in the others.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

HEAD = 1024
"""Places of a sorted row that are looked at first."""


def add_bias(logits: Tensor, rows: Tensor, tokens: Tensor, biases: Tensor) -> Tensor:
    """Add `biases[i]` to `logits[rows[i], tokens[i]]`; the pairs are distinct."""
    return logits.index_put((rows, tokens), logits[rows, tokens] + biases)


def ban(logits: Tensor, rows: Tensor, tokens: Tensor) -> Tensor:
    """Forbid token `tokens[i]` in row `rows[i]`; a NaN stays visible."""
    return logits.index_put((rows, tokens), logits[rows, tokens].clamp(max=-torch.inf))


def penalise(logits: Tensor, factor: Tensor, offset: Tensor) -> Tensor:
    """Repetition penalty, then presence and frequency penalties.

    Args:
        logits: [batch, vocab].
        factor: [batch, vocab], the repetition penalty where the token was seen, else 1: divides positive logits and
            multiplies negative ones.
        offset: [batch, vocab], what presence and frequency subtract; else 0.
    """
    # Two clamps instead of a select: vectorised, and x/1 + 0*1 - 0 is x again.
    scaled = logits.clamp(min=0.0) / factor + logits.clamp(max=0.0) * factor
    # A penalty is soft: it must not push a very low finite logit over to -inf, which means forbidden.
    return torch.maximum(scaled - offset, logits.clamp(max=torch.finfo(logits.dtype).min))


def scale(logits: Tensor, temperature: Tensor) -> Tensor:
    """Divide by the temperature (> 0), after moving the maximum to 0 so that no temperature overflows."""
    return (logits - logits.amax(-1, keepdim=True)) / temperature.unsqueeze(-1)


def top_k(logits: Tensor, k: Tensor) -> Tensor:
    """Keep the k most likely tokens, ties going to the lowest id; k <= 0 or k >= vocab keeps all."""
    return keep_best(logits, _descending(logits), _top_k_count(k, logits.shape[-1]))


def top_p(logits: Tensor, p: Tensor) -> Tensor:
    """Keep the fewest most likely tokens whose mass reaches p, ties going to the lowest id; p = 1 keeps all."""
    return top_k_top_p(logits, torch.zeros_like(p, dtype=torch.int64), p)


def top_k_top_p(logits: Tensor, k: Tensor, p: Tensor) -> Tensor:
    """`top_p(top_k(logits, k), p)` with one sort: what top-k leaves is the head of the sorted row."""
    values = _descending(logits)
    most = _top_k_count(k, logits.shape[-1])
    return keep_best(logits, values, torch.minimum(most, _nucleus(values, most, p)))


def min_p(logits: Tensor, p: Tensor) -> Tensor:
    """Keep tokens whose probability is at least p times that of the most likely one."""
    floor = logits.amax(-1, keepdim=True) + p.log().to(logits.dtype).unsqueeze(-1)
    return logits.masked_fill(logits < floor, -torch.inf)


def typical_p(logits: Tensor, p: Tensor) -> Tensor:
    """Keep the tokens whose information is closest to the entropy until their mass reaches p; p = 1 keeps all.

    Tokens that are equally close are kept or dropped together.
    """
    log_probs = logits.log_softmax(-1)
    probs = log_probs.exp()
    entropy = -(probs * log_probs.clamp(min=torch.finfo(logits.dtype).min)).sum(-1, keepdim=True)
    distance = (log_probs + entropy).abs()
    order = _ascending_order(distance)
    reached = probs.gather(-1, order).cumsum(-1, dtype=torch.float64)
    last = _count_to(reached, p * reached[:, -1]) - 1
    farthest = distance.gather(-1, order.gather(-1, last.unsqueeze(-1)))
    return logits.masked_fill((distance > farthest) & (p < 1.0).unsqueeze(-1), -torch.inf)


def keep_best(logits: Tensor, values: Tensor, count: Tensor) -> Tensor:
    """Keep the `count` (>= 1) highest logits of each row, ties going to the lowest id.

    Args:
        logits: [batch, vocab].
        values: [batch, vocab], the same rows in descending order.
        count: int64 [batch].
    """
    lowest = values.gather(-1, (count - 1).unsqueeze(-1))
    below = logits < lowest
    kept = logits.shape[-1] - below.count_nonzero(-1)
    if logits.device.type == "cpu" and bool((kept == count).all()):
        return logits.masked_fill(below, -torch.inf)
    tied = logits == lowest
    room = count - (kept - tied.count_nonzero(-1))
    return logits.masked_fill(below | (tied & (tied.cumsum(-1) > room.unsqueeze(-1))), -torch.inf)


def argmax(logits: Tensor) -> Tensor:
    """The most likely token of each row, int64 [batch]; ties go to the lowest id, NaN wins."""
    if logits.device.type == "cpu" and logits.dtype is torch.float32:
        # numpy's argmax is vectorised; torch's takes 25 times as long on one CPU row of 49,152.
        return torch.from_numpy(np.asarray(logits.numpy().argmax(-1)))
    return logits.argmax(-1)


def _descending(logits: Tensor) -> Tensor:
    if logits.device.type == "cpu":
        # numpy's sort is vectorised (0.2 ms for 49,152 values); torch's takes 20 times as long on the CPU.
        return torch.from_numpy(-np.sort(-logits.numpy(), axis=-1))
    return logits.sort(-1, descending=True).values


def _ascending_order(values: Tensor) -> Tensor:
    if values.device.type == "cpu":
        return torch.from_numpy(np.argsort(values.numpy(), axis=-1))
    return values.argsort(-1)


def _top_k_count(k: Tensor, vocab_size: int) -> Tensor:
    return torch.where(k <= 0, vocab_size, k).clamp(max=vocab_size)


def _nucleus(values: Tensor, most: Tensor, p: Tensor) -> Tensor:
    """How many of the first `most` of the descending `values` it takes for p of their mass, int64 [batch]."""
    vocab_size = values.shape[1]
    closed = p >= 1.0
    needs = torch.where(closed, 1, most)
    if values.device.type != "cpu":
        reached = _mass(values, needs)
        return torch.where(closed, most, _count_to(reached, p * reached[:, -1]))
    # On the host the head of the row is almost always enough, and all of it would cost more than the sort.
    head = _mass(values[:, :HEAD], needs)
    total = head[:, -1] if int(needs.max()) <= HEAD else _mass(values, needs)[:, -1]
    if vocab_size > HEAD and bool((head[:, -1] < p * total).any()):
        head = _mass(values, needs)
    return torch.where(closed, most, _count_to(head, p * total))


def _mass(values: Tensor, most: Tensor) -> Tensor:
    """Running sum of exp(values - first value) over the first `most` places, float64 of the shape of `values`."""
    places = torch.arange(values.shape[1], device=values.device)
    weights = (values - values[:, :1]).exp().masked_fill(places >= most.unsqueeze(-1), 0.0)
    return weights.cumsum(-1, dtype=torch.float64)


def _count_to(reached: Tensor, mass: Tensor) -> Tensor:
    """How many entries it takes for the running sum `reached` [batch, n] to be at least `mass` [batch]; 1 or more."""
    return ((reached < mass.unsqueeze(-1)).sum(-1) + 1).clamp(max=reached.shape[-1])
