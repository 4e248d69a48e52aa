"""The Triton kernel of `engine.paged_attention`; imported only where Triton is to be used."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE = 64
"""Positions that a program reads at a time."""

SPLIT = 512
"""Positions of one program; longer rows are shared by several, whose parts are then put together."""


@triton.jit  # type: ignore[untyped-decorator]
def paged_attend_kernel(  # type: ignore[no-untyped-def]
    queries, keys, values, tables, lengths, mixed, sums,
    query_batch, query_head, query_token, key_block, key_head, key_slot, value_block, value_head, value_slot,
    table_row, mixed_split, sums_split, scale, softcap, window, new, block_size, key_width, value_width,
    GROUP: tl.constexpr, ROWS: tl.constexpr, KEY_WIDTH: tl.constexpr, VALUE_WIDTH: tl.constexpr, TILE: tl.constexpr,
    SPLIT: tl.constexpr, HAS_SOFTCAP: tl.constexpr, HAS_WINDOW: tl.constexpr,
):  # fmt: skip
    """One program: the queries of one group of heads of one row over `SPLIT` positions.

    `mixed` float32 [splits, batch, heads, new, value_width] gets the mean of the values weighted within the split, `sums`
    float32 [splits, batch, heads, new] the logarithm of its weight.  Strides and lengths are in elements.
    """
    row, head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    kv_heads = tl.num_programs(1)
    length = tl.load(lengths + row).to(tl.int32)
    # Rows of the tile are the group's heads, each with its new tokens.
    line = tl.arange(0, ROWS)
    token, member = line % new, line // new
    is_query = line < GROUP * new
    own = length + token
    key_dim, value_dim = tl.arange(0, KEY_WIDTH), tl.arange(0, VALUE_WIDTH)
    query_head_of = head * GROUP + member
    place = row.to(tl.int64) * query_batch + query_head_of[:, None] * query_head + token[:, None] * query_token
    query = tl.load(
        queries + place + key_dim[None, :], mask=is_query[:, None] & (key_dim[None, :] < key_width), other=0.0
    )
    begin, end = split * SPLIT, tl.minimum((split + 1) * SPLIT, length + new)
    if HAS_WINDOW:
        begin = tl.maximum(begin, (length + 1 - window) // TILE * TILE)
    peak = tl.full([ROWS], float("-inf"), tl.float32)
    weight = tl.zeros([ROWS], tl.float32)
    total = tl.zeros([ROWS, VALUE_WIDTH], tl.float32)
    for at in range(begin, end, TILE):
        slot = at + tl.arange(0, TILE)
        inside = (slot < end) & (slot >= 0)
        block = tl.load(tables + row * table_row + slot // block_size, mask=inside, other=0).to(tl.int64)
        offset = slot % block_size
        key = tl.load(
            keys + block[:, None] * key_block + head * key_head + offset[:, None] * key_slot + key_dim[None, :],
            mask=inside[:, None] & (key_dim[None, :] < key_width), other=0.0,
        )  # fmt: skip
        score = tl.dot(query, tl.trans(key), input_precision="ieee") * scale
        if HAS_SOFTCAP:
            # tanh by the exponential: Triton's own is a library call that not every device has
            score = softcap * (1.0 - 2.0 / (tl.exp(2.0 * score / softcap) + 1.0))
        seen = inside[None, :] & (slot[None, :] <= own[:, None])
        if HAS_WINDOW:
            seen = seen & (slot[None, :] > own[:, None] - window)
        score = tl.where(seen, score, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(score, 1))
        # a row that has seen nothing yet keeps a weight of 0
        safe = tl.where(new_peak == float("-inf"), 0.0, new_peak)
        share = tl.exp(score - safe[:, None])
        shrink = tl.exp(peak - safe)
        value = tl.load(
            values + block[:, None] * value_block + head * value_head + offset[:, None] * value_slot + value_dim[None, :],
            mask=inside[:, None] & (value_dim[None, :] < value_width), other=0.0,
        )  # fmt: skip
        total = total * shrink[:, None] + tl.dot(share.to(value.dtype), value, input_precision="ieee")
        weight = weight * shrink + tl.sum(share, 1)
        peak = new_peak
    has_any = weight > 0.0
    mean = total / tl.where(has_any, weight, 1.0)[:, None]
    logarithm = tl.where(has_any, peak + tl.log(tl.where(has_any, weight, 1.0)), float("-inf"))
    result = ((row * kv_heads * GROUP + query_head_of) * new + token).to(tl.int64)
    tl.store(
        mixed + split * mixed_split + result[:, None] * value_width + value_dim[None, :], mean,
        mask=is_query[:, None] & (value_dim[None, :] < value_width),
    )  # fmt: skip
    tl.store(sums + split * sums_split + result, logarithm, mask=is_query)


def paged_attend_triton(
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
    """`paged_attend` by one kernel; no value is read back to the host."""
    batch, heads, new, key_width = queries.shape
    kv_heads, block_size, value_width = values.shape[1:]
    queries = queries if queries.stride(-1) == 1 else queries.contiguous()
    group, splits = heads // kv_heads, triton.cdiv(longest + new, SPLIT)
    mixed = torch.empty((splits, batch, heads, new, value_width), dtype=torch.float32, device=queries.device)
    sums = torch.empty((splits, batch, heads, new), dtype=torch.float32, device=queries.device)
    launch: Any = paged_attend_kernel[(batch, kv_heads, splits)]
    with torch.cuda.device(queries.device) if queries.is_cuda else nullcontext():
        launch(
            queries, keys, values, tables, lengths, mixed, sums, *queries.stride()[:3], *keys.stride()[:3],
            *values.stride()[:3], tables.stride(0), mixed.stride(0), sums.stride(0), scale, softcap or 1.0, window,
            new, block_size, key_width, value_width, GROUP=group,
            ROWS=max(16, triton.next_power_of_2(group * new)), KEY_WIDTH=max(16, triton.next_power_of_2(key_width)),
            VALUE_WIDTH=max(16, triton.next_power_of_2(value_width)), TILE=TILE, SPLIT=SPLIT,
            HAS_SOFTCAP=bool(softcap), HAS_WINDOW=bool(window),
        )  # fmt: skip
    if splits == 1:
        return mixed[0].to(queries.dtype)
    return (mixed * sums.softmax(0).unsqueeze(-1)).sum(0).to(queries.dtype)
