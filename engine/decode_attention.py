"""Attention of generated tokens on a CPU, each computed as if it came alone.

A fused kernel sums in an order that depends on how many queries and keys it is given, so a block of guesses, or the rows of a
batch, would not get, bit for bit, what the same tokens get one by one, and the better of two nearly equal tokens could change.
Here every query goes through the same instructions over the same stretches of positions whatever stands beside it; keys and
values are still read once for all queries of a row.  Numbers come as bfloat16 and are multiplied and summed as float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeVar, cast

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

_STRETCH = 64
"""Positions that are widened to float32 at a time."""

_TOGETHER = 4
"""Positions whose products are summed side by side; of a stretch they are always the same ones."""

_SHARE = 1 << 20
"""Multiplications that are worth another thread: a fifth of a millisecond."""

F = TypeVar("F", bound=Callable[..., Any])

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]
UInt16 = NDArray[np.uint16]
UInt32 = NDArray[np.uint32]


def _compiled(function: F, **options: bool) -> F:
    """Compiled at its first call, without the interpreter lock and without counting references: it makes no arrays."""
    fast = {"reassoc", "contract", "nsz", "arcp"}
    return cast(F, njit(nogil=True, fastmath=fast, error_model="numpy", _nrt=False, **options)(function))


_kernel = partial(_compiled, cache=True)
_inlined = partial(_compiled, forceinline=True)


@dataclass(frozen=True, slots=True)
class Places:
    """Where in memory the positions of each row lie.

    Attributes:
        slots: int64, a slot for each position from `first` on, row behind row.
        begins: int64 [batch]: where a row's begin in `slots`.
        first: the first position of every row.
    """

    slots: Int64
    begins: Int64
    first: int = 0

    @classmethod
    def in_rows(cls, batch: int, row_slots: int, first: int, end: int) -> Places:
        """Rows of `row_slots` slots each, with the positions first … end - 1 in the first of them."""
        count = end - first
        slots = np.arange(count) if batch == 1 else np.add.outer(np.arange(batch) * row_slots, np.arange(count)).ravel()
        return cls(slots, np.arange(batch) * count, first)


def attend_rows(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    places: Places,
    starts: Sequence[int],
    counts: Sequence[int],
    *,
    window: int = 0,
    scale: float | None = None,
) -> Tensor:
    """softmax(Q·Kᵀ · scale)·V of the last positions of each row over all that they see.

    Args:
        queries: bfloat16 [batch, query_heads, new, key_dim]; those of a row are of its positions start … start + count - 1,
            and what is behind them is padding.
        keys, values: bfloat16 [any, kv_heads, any, key_dim or value_dim], contiguous in the last dimension; slot s of a head
            lies s strides of the dimension before the last behind the head's first number.
        places: the slots of each position of each row, up to its last query's at least.
        starts, counts: of each row.
        window: positions that a query sees, its own among them; 0: all up to its own.
        scale: factor of the scores; `None`: 1 / sqrt(key_dim).

    Returns:
        bfloat16 [batch, query_heads, new, value_dim], zero for padding.
    """
    batch, heads, new, width = queries.shape
    kv_heads, value_width = keys.shape[1], values.shape[-1]
    padded = min(counts) < new
    mixed = (torch.zeros if padded else torch.empty)((batch, new, heads, value_width), dtype=torch.bfloat16)
    strides = (*queries.stride()[:3], *keys.stride()[1:3], *values.stride()[1:3])
    sizes = (new, kv_heads, heads // kv_heads, width, value_width)
    longest = max(map(sum, zip(starts, counts, strict=True)))
    rows, line = max(counts) * (heads // kv_heads), longest - places.first + 2 * _TOGETHER
    spans = np.array((starts, counts), np.int64)
    arrays = (
        _numbers(queries), _numbers(keys), _numbers(values), mixed.view(-1).view(torch.uint16).numpy(),
        places.slots, places.begins, spans,
    )  # fmt: skip
    factor = np.float32(width**-0.5 if scale is None else scale)

    def work(begin: int, end: int) -> None:
        """The heads of rows begin … end - 1, counted through the rows."""
        scores = np.empty(rows * line, np.float32)
        wide = np.zeros(_STRETCH * max(width, value_width), np.float32)
        sums = np.empty(rows * value_width, np.float32)
        _attend(
            *arrays, strides, sizes, (begin, end, places.first, window, line), factor, np.empty(rows * width, np.float32),
            scores, scores.view(np.int32), np.empty(line, np.int32), wide, wide.view(np.uint32), sums, sums.view(np.uint32),
        )  # fmt: skip

    group_cost = heads // kv_heads * (width + value_width)
    costs = [
        group_cost * count * min(start + count - places.first, window + count if window else longest)
        for start, count in zip(starts, counts, strict=True)
    ]
    _divide(work, costs, kv_heads)
    return mixed.transpose(1, 2)


def _divide(work: Callable[[int, int], None], costs: Sequence[int], pieces: int) -> None:
    """`work` on so many pieces for each of `costs`, what one of these takes, in as many threads as pays and torch has."""
    total = sum(costs) * pieces
    threads = min(torch.get_num_threads(), total // _SHARE, len(costs) * pieces)
    if threads <= 1:
        return work(0, len(costs) * pieces)
    reached = np.cumsum(np.repeat(costs, pieces))
    cuts = [0, *np.searchsorted(reached, total * np.arange(1, threads) // threads).tolist(), len(reached)]
    others = [_helpers().submit(work, *cuts[at : at + 2]) for at in range(1, threads)]
    work(*cuts[:2])
    for other in others:
        other.result()


@cache
def _helpers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(torch.get_num_threads(), "attention")


def _numbers(x: Tensor) -> UInt16:
    """The memory from the first to the last number of `x`, as their bits."""
    length = 1 + sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True))
    bits: UInt16 = x.as_strided((length,), (1,)).view(torch.uint16).numpy()
    return bits


@_inlined
def _widen(bits: UInt16, wide: UInt32) -> None:
    for at in range(len(wide)):
        wide[at] = np.uint32(bits[at]) << np.uint32(16)


@_inlined
def _weigh(scores: Float32, bits: NDArray[np.int32], powers: NDArray[np.int32]) -> None:
    """The softmax of `scores` in their place; `bits` are the same numbers, `powers` room for as many."""
    most = scores[0]
    for at in range(len(scores)):
        most = max(most, scores[at])
    for at in range(len(scores)):
        # 2^x = 2^whole · 2^rest; 2^rest, |rest| <= 1/2, by its Taylor polynomial: 24 bits.
        x = max((scores[at] - most) * np.float32(1.44269504), np.float32(-126.0))
        whole = np.floor(x + np.float32(0.5))
        y = x - whole
        tail = np.float32(0.0096181291) + y * (np.float32(0.0013333558) + y * np.float32(0.00015403530))
        tail = np.float32(0.24022651) + y * (np.float32(0.055504109) + y * tail)
        scores[at] = np.float32(1.0) + y * (np.float32(0.69314718) + y * tail)
        powers[at] = np.int32(whole)
    for at in range(len(scores)):
        bits[at] += powers[at] << np.int32(23)
    total = np.float32(0.0)
    for at in range(len(scores)):
        total += scores[at]
    share = np.float32(1.0) / total
    for at in range(len(scores)):
        scores[at] *= share


@_kernel
def _attend(
    queries: UInt16, keys: UInt16, values: UInt16, mixed: UInt16, slots: Int64, begins: Int64, spans: Int64,
    strides: tuple[int, ...], sizes: tuple[int, ...], places: tuple[int, ...], scale: np.float32, turned: Float32,
    scores: Float32, score_bits: NDArray[np.int32], powers: NDArray[np.int32], wide: Float32, wide_bits: UInt32,
    sums: Float32, sum_bits: UInt32,
) -> None:  # fmt: skip
    query_batch, query_head, query_row, key_head, key_slot, value_head, value_slot = strides
    padded, kv_heads, group, width, value_width = sizes
    begin_piece, end_piece, first, window, line = places
    origin = first - first % _TOGETHER  # the position of a line's first score
    for piece in range(begin_piece, end_piece):
        batch_row, head = piece // kv_heads, piece % kv_heads
        start, new = spans[0, batch_row], spans[1, batch_row]
        of_row = begins[batch_row] - first
        end, seen = start + new, first
        if window > 0:
            seen = max(first, start + 1 - window)
        # Stretches begin at multiples of their length, whatever the cache has forgotten and wherever the window begins.
        begin_of_all = seen - seen % _STRETCH
        for row in range(new * group):
            at = head * group + row % group
            begin = batch_row * query_batch + at * query_head + row // group * query_row
            _widen(queries[begin : begin + width], wide_bits[:width])
            query = turned[row * width : (row + 1) * width]
            for d in range(width):
                query[d] = wide[d] * scale
        for begin in range(begin_of_all, end, _STRETCH):
            stop = min(begin + _STRETCH, end)
            for position in range(max(begin, first), stop):
                place = head * key_head + slots[of_row + position] * key_slot
                to = (position - begin) * width
                _widen(keys[place : place + width], wide_bits[to : to + width])
            for row in range(new * group):
                query = turned[row * width : (row + 1) * width]
                own = row * line - origin
                for position in range(max(begin, origin), min(stop, start + row // group + 1), _TOGETHER):
                    at = (position - begin) * width
                    key0, key1 = wide[at : at + width], wide[at + width : at + 2 * width]
                    key2, key3 = wide[at + 2 * width : at + 3 * width], wide[at + 3 * width : at + 4 * width]
                    sum0 = sum1 = sum2 = sum3 = np.float32(0.0)
                    for d in range(width):
                        x = query[d]
                        sum0 += x * key0[d]
                        sum1 += x * key1[d]
                        sum2 += x * key2[d]
                        sum3 += x * key3[d]
                    scores[own + position], scores[own + position + 1] = sum0, sum1
                    scores[own + position + 2], scores[own + position + 3] = sum2, sum3
        for row in range(new * group):
            own, after = row * line - origin, start + row // group + 1
            before = first
            if window > 0:
                before = max(first, after - window)
            _weigh(scores[own + before : own + after], score_bits[own + before : own + after], powers)
            # What is summed together with the first and the last position, and is not seen.
            for position in range(max(origin, before - before % _TOGETHER), before):
                scores[own + position] = np.float32(0.0)
            for position in range(after, after + _TOGETHER - 1):
                scores[own + position] = np.float32(0.0)
            total = sums[row * value_width : (row + 1) * value_width]
            for d in range(value_width):
                total[d] = np.float32(0.0)
        for begin in range(begin_of_all, end, _STRETCH):
            stop = min(begin + _STRETCH, end)
            for position in range(max(begin, first), stop):
                place = head * value_head + slots[of_row + position] * value_slot
                to = (position - begin) * value_width
                _widen(values[place : place + value_width], wide_bits[to : to + value_width])
            # What is summed with a share of 0 must not be another row's NaN.
            for at in range((max(begin, origin) - begin) * value_width, (max(begin, first) - begin) * value_width):
                wide[at] = np.float32(0.0)
            for at in range((stop - begin) * value_width, min(stop - begin + _TOGETHER, _STRETCH) * value_width):
                wide[at] = np.float32(0.0)
            for row in range(new * group):
                own, after = row * line - origin, start + row // group + 1
                before = begin
                if window > 0:
                    before = max(begin, after - window)
                before = max(before - before % _TOGETHER, origin)
                total = sums[row * value_width : (row + 1) * value_width]
                for position in range(before, min(stop, after), _TOGETHER):
                    share0, share1 = scores[own + position], scores[own + position + 1]
                    share2, share3 = scores[own + position + 2], scores[own + position + 3]
                    at = (position - begin) * value_width
                    value0, value1 = wide[at : at + value_width], wide[at + value_width : at + 2 * value_width]
                    value2 = wide[at + 2 * value_width : at + 3 * value_width]
                    value3 = wide[at + 3 * value_width : at + 4 * value_width]
                    for d in range(value_width):
                        total[d] += share0 * value0[d] + share1 * value1[d] + share2 * value2[d] + share3 * value3[d]
        for row in range(new * group):
            at = ((batch_row * padded + row // group) * kv_heads + head) * group + row % group
            at *= value_width
            total_bits = sum_bits[row * value_width : (row + 1) * value_width]
            to_bits = mixed[at : at + value_width]
            for d in range(value_width):
                # To the nearest bfloat16, ties to even.
                bits = total_bits[d]
                to_bits[d] = np.uint16(
                    (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
                )
