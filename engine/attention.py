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


def causal_mask(positions: Tensor, key_length: int) -> Tensor:
    """Which slots each query sees: bool [batch, 1, new, key_length] from `positions` [batch, new] (int64)."""
    slots = torch.arange(key_length, device=positions.device)
    return (slots <= positions.unsqueeze(-1)).unsqueeze(1)


def attend(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool, backend: Backend = "sdpa"
) -> Tensor:
    """softmax(Q·Kᵀ / sqrt(head_dim) + mask)·V, each group of query heads sharing one key/value head (GQA).

    Args:
        queries: [batch, query_heads, new, head_dim].
        keys, values: [batch, kv_heads, key_length, head_dim].
        mask: bool, broadcastable to [batch, query_heads, new, key_length]; `None`: every slot is seen.
        causal: query i sees slots 0 … i; only where `mask` is `None` and new = key_length.
        backend: `"sdpa"` (torch's fused kernels) or `"math"` (`attend_by_repeating`).

    Returns:
        [batch, query_heads, new, head_dim].
    """
    if backend == "sdpa":
        # Asking for grouping where there is none would keep torch from its fused kernels on some devices.
        grouped = queries.shape[1] != keys.shape[1]
        mixed: Tensor = F.scaled_dot_product_attention(queries, keys, values, mask, 0.0, causal, enable_gqa=grouped)
        return mixed
    if backend == "math":
        return attend_by_repeating(queries, keys, values, mask, causal)
    raise EngineError(f"unknown attention backend {backend!r}: choose {' or '.join(BACKENDS)}")


def attend_by_repeating(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """The definition, step by step in float32 with every key/value head repeated: the reference for `attend`."""
    group = queries.shape[1] // keys.shape[1]
    keys = keys.repeat_interleave(group, dim=1).float()
    values = values.repeat_interleave(group, dim=1).float()
    scores = queries.float() @ keys.transpose(-1, -2) / queries.shape[-1] ** 0.5
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    mixed: Tensor = scores.softmax(dim=-1) @ values
    return mixed.to(queries.dtype)
