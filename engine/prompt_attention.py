"""Attention of prompts on a CPU, so that a token gets the same bits however its prompt is cut and whatever comes with it.

A fused kernel's sums depend on how many queries and keys it is given.  So it is always given the same ones: positions lie
in blocks with fixed borders, and the queries of a block are attended to together, over the keys up to the block's end.  What
of a block is not there (it was computed before, or is not known yet) is filled up with zeros, which the mask hides.  So
prompts may be computed in chunks of any length, behind prefixes that were found in a cache, and beside other prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import combinations

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.attention import attend, causal_mask

_BORDERS = (0, 32, 64)
"""Where the first blocks begin, which are short because most short prompts end there."""

_LENGTH = 128
"""The others begin at its multiples.  Behind 1,000 positions as fast as one call for all; 32 take a fifth more."""

_TILE = 32
"""Queries that fused kernels take together; where trials find the same bits, only those tiles of a block are asked for that
have to be: 30 positions behind 1,000 that were found in a cache take a third of the time."""

_TRIED_ENDS = (_LENGTH, 5 * _LENGTH)


def block_of(position: int) -> tuple[int, int]:
    """The first position of the block that `position` lies in, and that of the next block."""
    if position >= _LENGTH:
        begin = position - position % _LENGTH
        return begin, begin + _LENGTH
    at = sum(position >= border for border in _BORDERS)
    return _BORDERS[at - 1], (*_BORDERS, _LENGTH)[at]


def attend_prompts(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    starts: Sequence[int],
    counts: Sequence[int],
    mask_of: Callable[[int, int, int], Tensor],
    *,
    first: int = 0,
    window: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
) -> Tensor:
    """softmax(Q·Kᵀ · scale + mask)·V of the last positions of each row over all that they see.

    Args:
        queries: [batch, query_heads, new, key_dim]; those of a row are of its positions start … start + count - 1, and what
            is behind them is padding.
        keys, values: [batch, kv_heads, slots, key_dim or value_dim] from position `first` on.
        starts, counts: of each row.
        mask_of: (first query, end, first key) → `block_mask` of these and `window`; kept for the other layers.
        window: positions that a query sees, its own among them; 0: all up to its own.
        scale, softcap: as `engine.attention.attend` takes them.

    Returns:
        [batch, query_heads, new, value_dim], zero for padding.
    """
    batch, heads, new, _ = queries.shape
    mixed = queries.new_zeros((batch, heads, new, values.shape[-1]))
    sizes = (heads, keys.shape[1], keys.shape[-1], values.shape[-1])
    in_tiles = not softcap and _tiles_agree(sizes, queries.dtype, torch.get_num_threads())
    for begin, end, rows in _blocks(starts, counts):
        lowest = block_of(max(0, begin - window + 1))[0] if window else 0
        mask = mask_of(begin, end, lowest)
        # Products without a fused kernel may take other ways for several rows than for one.
        for group in [[row] for row in rows] if softcap else [rows]:
            spans = [(max(begin, starts[row]), min(end, starts[row] + counts[row])) for row in group]
            offsets = [low - starts[row] for row, (low, _) in zip(group, spans, strict=True)]
            top, bottom = _tiles(begin, spans) if in_tiles else (begin, end)
            asked = _placed(queries, group, offsets, spans, top, bottom)
            known, what = (_stretch(tensor, group, lowest - first, end - first) for tensor in (keys, values))
            seen = mask[:, :, top - begin : bottom - begin]
            found = attend(asked, known, what, seen, False, scale=scale, softcap=softcap)
            for at, (row, to, (low, high)) in enumerate(zip(group, offsets, spans, strict=True)):
                mixed[row, :, to : to + high - low] = found[at, :, low - top : high - top]
    return mixed


def block_mask(begin: int, end: int, lowest: int, window: int, device: torch.device) -> Tensor:
    """Which of the positions lowest … end - 1 those from `begin` on see, bool [1, 1, end - begin, end - lowest]."""
    return causal_mask(torch.arange(begin, end, device=device).unsqueeze(0), end, window, lowest)


@cache
def _tiles_agree(sizes: tuple[int, int, int, int], dtype: torch.dtype, threads: int) -> bool:
    """Whether queries get the same bits in their tiles alone as in a whole block, as far as a trial on this CPU tells."""
    heads, kv_heads, width, value_width = sizes
    noise = torch.Generator().manual_seed(0)
    queries, keys, values = (
        torch.randn((1, one, length, size), generator=noise).to(dtype)
        for one, length, size in (
            (heads, _LENGTH, width), (kv_heads, max(_TRIED_ENDS), width), (kv_heads, max(_TRIED_ENDS), value_width),
        )
    )  # fmt: skip
    for end in _TRIED_ENDS:
        mask = block_mask(end - _LENGTH, end, 0, 0, queries.device)
        seen = (keys[:, :, :end], values[:, :, :end])
        whole = attend(queries, *seen, mask, False)
        for low, high in combinations(range(0, _LENGTH + 1, _TILE), 2):
            part = attend(queries[:, :, low:high], *seen, mask[:, :, low:high], False)
            if not torch.equal(part, whole[:, :, low:high]):
                return False
    return True


def _tiles(begin: int, spans: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """From where to where the tiles of a block reach in which some of the spans lie."""
    low, high = min(low for low, _ in spans) - begin, max(high for _, high in spans) - begin
    return begin + low - low % _TILE, begin - (-high // _TILE) * _TILE


def _blocks(starts: Sequence[int], counts: Sequence[int]) -> Iterator[tuple[int, int, list[int]]]:
    """The blocks that the rows' new positions lie in, each with the rows that have some there."""
    rows_of: dict[tuple[int, int], list[int]] = {}
    for row, (start, count) in enumerate(zip(starts, counts, strict=True)):
        position = start
        while position < start + count:
            block = block_of(position)
            rows_of.setdefault(block, []).append(row)
            position = block[1]
    for (begin, end), rows in rows_of.items():
        yield begin, end, rows


def _placed(
    queries: Tensor, rows: Sequence[int], offsets: Sequence[int], spans: Sequence[tuple[int, int]], begin: int, end: int
) -> Tensor:
    """Queries begin … end - 1 of a block, [rows, heads, end - begin, width]: those from each row's offset on at its span."""
    if len(rows) == 1 and spans[0] == (begin, end):
        return queries[rows[0] : rows[0] + 1, :, offsets[0] : offsets[0] + end - begin]
    block = queries.new_zeros((len(rows), queries.shape[1], end - begin, queries.shape[3]))
    for at, (row, offset, (low, high)) in enumerate(zip(rows, offsets, spans, strict=True)):
        block[at, :, low - begin : high - begin] = queries[row, :, offset : offset + high - low]
    return block


def _stretch(tensor: Tensor, rows: Sequence[int], low: int, high: int) -> Tensor:
    """Slots low … high - 1 of some rows; zeros where there are none."""
    have = tensor.shape[2]
    part = tensor[:, :, max(low, 0) : min(high, have)]
    if len(rows) == 1:
        part = part[rows[0] : rows[0] + 1]
    elif len(rows) < tensor.shape[0]:
        part = part[list(rows)]
    before, behind = max(0, -low), max(0, high - have)
    return F.pad(part, (0, 0, before, behind)) if before or behind else part
