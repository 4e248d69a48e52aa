"""Scaled dot-product attention with grouped query heads, and the masks that it needs.

Key slots are absolute positions: slot j of a row's cache holds position j.  So one rule makes every mask, for batches
of unequal length and for several new tokens after many cached ones: the query at position p sees slot j iff j <= p.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.errors import EngineError

Backend = Literal["sdpa", "math"]
BACKENDS: tuple[Backend, ...] = ("sdpa", "math")

GROUPED_ROWS = 16
"""New tokens up to which the query heads of a group are attended to together.  Asked for groups, torch reads keys and values
once for each query head: with bfloat16 on a CPU that took 3 to 7 times as long for one new token, and as long for 16."""


def causal_mask(positions: Tensor, end: int, window: int = 0, first: int = 0) -> Tensor:
    """Which slots each query sees: bool [batch, 1, new, end - first] from `positions` [batch, new] (int64).

    Args:
        end: one more than the last slot.
        window: slots that a query sees, its own among them; 0: all up to its own.
        first: the first slot.
    """
    slots = torch.arange(first, end, device=positions.device)
    own = positions.unsqueeze(-1)
    seen = slots <= own
    if window:
        seen &= slots > own - window
    return seen.unsqueeze(1)


def attend(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None,
    causal: bool,
    backend: Backend = "sdpa",
    *,
    scale: float | None = None,
    softcap: float = 0.0,
) -> Tensor:
    """softmax(Q·Kᵀ · scale + mask)·V, each group of query heads sharing one key/value head (GQA).

    Args:
        queries: [batch, query_heads, new, key_dim].
        keys: [batch, kv_heads, key_length, key_dim].
        values: [batch, kv_heads, key_length, value_dim].
        mask: bool [batch, 1, new, key_length] (or a batch of 1); `None`: every slot is seen.
        causal: query i sees slots 0 … i; only where `mask` is `None` and new = key_length.
        backend: `"sdpa"` (torch's fused kernels) or `"math"` (`attend_by_repeating`).
        scale: factor of the scores; `None`: 1 / sqrt(key_dim).
        softcap: c · tanh(score / c), before the mask (Gemma 2); 0: none.  No fused kernel has it.

    Returns:
        [batch, query_heads, new, value_dim].
    """
    if backend == "math":
        return attend_by_repeating(queries, keys, values, mask, causal, scale=scale, softcap=softcap)
    if backend != "sdpa":
        raise EngineError(f"unknown attention backend {backend!r}: choose {' or '.join(BACKENDS)}")
    if softcap:
        return _attend_with_softcap(queries, keys, values, mask, causal, scale, softcap)
    # Asking for grouping where there is none would keep torch from its fused kernels on some devices.
    grouped = queries.shape[1] != keys.shape[1]
    if grouped and queries.shape[2] <= GROUPED_ROWS and not causal:
        return _attend_in_groups(queries, keys, values, mask, scale)
    mixed: Tensor = F.scaled_dot_product_attention(
        queries, keys, values, mask, 0.0, causal, scale=scale, enable_gqa=grouped
    )
    return mixed


def _attend_in_groups(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float | None
) -> Tensor:
    """The query heads of a group as so many queries of one head, so that keys and values are read once for all of them."""
    batch, heads, new, width = queries.shape
    kv_heads = keys.shape[1]
    group = heads // kv_heads
    if mask is not None:
        # The mask is the same for all heads; its rows are repeated in the order of the queries.
        mask = mask.unsqueeze(2).expand(-1, -1, group, -1, -1).reshape(mask.shape[0], 1, group * new, -1)
    mixed = F.scaled_dot_product_attention(
        queries.reshape(batch, kv_heads, group * new, width), keys, values, mask, scale=scale
    )
    return mixed.reshape(batch, heads, new, -1)


def _attend_with_softcap(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None,
    causal: bool,
    scale: float | None,
    softcap: float,
) -> Tensor:
    """Step by step, the query heads of a group beside each other instead of keys and values repeated."""
    batch, heads, new, width = queries.shape
    kv_heads = keys.shape[1]
    grouped = queries.reshape(batch, kv_heads, -1, width)
    scores = (grouped @ keys.transpose(-1, -2)).float().view(batch, heads, new, -1)
    scores = _capped(scores * (width**-0.5 if scale is None else scale), softcap)
    weights = _masked(scores, mask, causal).softmax(dim=-1).to(values.dtype)
    return (weights.view(batch, kv_heads, -1, weights.shape[-1]) @ values).view(batch, heads, new, -1)


def attend_by_repeating(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None,
    causal: bool,
    *,
    scale: float | None = None,
    softcap: float = 0.0,
) -> Tensor:
    """The definition, step by step in float32 with every key/value head repeated: the reference for `attend`."""
    group = queries.shape[1] // keys.shape[1]
    keys = keys.repeat_interleave(group, dim=1).float()
    values = values.repeat_interleave(group, dim=1).float()
    scores = queries.float() @ keys.transpose(-1, -2) * (queries.shape[-1] ** -0.5 if scale is None else scale)
    if softcap:
        scores = _capped(scores, softcap)
    mixed: Tensor = _masked(scores, mask, causal).softmax(dim=-1) @ values
    return mixed.to(queries.dtype)


def _capped(scores: Tensor, softcap: float) -> Tensor:
    return (scores / softcap).tanh() * softcap


def _masked(scores: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    return scores if mask is None else scores.masked_fill(~mask, float("-inf"))
