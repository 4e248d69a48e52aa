"""Attention over blocks where they lie: keys and values of a paged cache are read by block table, not gathered first.

On CUDA one Triton kernel does it (`engine.paged_kernel`), split over the positions as FlashDecoding splits them (Dao et al.
2023); elsewhere, and as the kernel's reference, plain torch gathers and multiplies.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.devices import has_triton

MOST_QUERIES = 16
"""New tokens of a row that the kernel takes: those of decoding and of verifying drafts; prompts go the usual way."""


def paged_attend(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    tables: Tensor,
    lengths: Tensor,
    longest: int,
    *,
    window: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
) -> Tensor:
    """softmax(Q·Kᵀ · scale)·V of the last positions of each row over all that they see.

    Args:
        queries: [batch, query_heads, new, key_dim]; those of a row stand at its positions length … length + new - 1.
        keys, values: [blocks, kv_heads, block_size, key_dim or value_dim], contiguous in the last dimension.
        tables: int [batch, width]: block i of a row holds its positions i · block_size … ; enough for length + new.
        lengths: int [batch], positions of each row before the new ones.
        longest: the largest of them.
        window: positions that a query sees, its own among them; 0: all up to its own.
        scale: factor of the scores; `None`: 1 / sqrt(key_dim).
        softcap: c · tanh(score / c); 0: none.

    Returns:
        [batch, query_heads, new, value_dim], of the dtype of `queries`.
    """
    scale = queries.shape[-1] ** -0.5 if scale is None else scale
    arguments = queries, keys, values, tables, lengths, longest, window, scale, softcap
    if queries.is_cuda and has_triton():
        from engine.paged_kernel import paged_attend_triton

        return paged_attend_triton(*arguments)
    return paged_attend_torch(*arguments)


def paged_attend_torch(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    tables: Tensor,
    lengths: Tensor,
    longest: int,
    window: int,
    scale: float,
    softcap: float,
) -> Tensor:
    """`paged_attend` in terms of torch alone, in float32."""
    batch, heads, new, _ = queries.shape
    kv_heads, block_size = keys.shape[1:3]
    end = longest + new
    tables = tables[:, : -(-end // block_size)].long()
    places = (tables.unsqueeze(1) * kv_heads + torch.arange(kv_heads, device=tables.device).unsqueeze(1)).flatten()

    def gathered(blocks: Tensor) -> Tensor:
        rows = blocks.flatten(0, 1).flatten(1).index_select(0, places)
        return rows.view(batch, kv_heads, tables.shape[1] * block_size, blocks.shape[-1]).narrow(2, 0, end).float()

    grouped = queries.float().reshape(batch, kv_heads, -1, queries.shape[-1])
    scores = (grouped @ gathered(keys).transpose(-1, -2)).view(batch, heads, new, end) * scale
    if softcap:
        scores = (scores / softcap).tanh() * softcap
    own = (lengths.long().unsqueeze(1) + torch.arange(new, device=queries.device)).unsqueeze(-1)
    slots = torch.arange(end, device=queries.device)
    seen = slots <= own
    if window:
        seen &= slots > own - window
    weights = scores.masked_fill(~seen.unsqueeze(1), -torch.inf).softmax(-1)
    mixed = weights.view(batch, kv_heads, -1, end) @ gathered(values)
    return mixed.view(batch, heads, new, -1).to(queries.dtype)
