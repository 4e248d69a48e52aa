"""Attention of a few new tokens of one sequence on a CPU, each computed as if it came alone.

A fused kernel sums in an order that depends on how many queries and keys it is given, so a block of guesses would not get,
bit for bit, what the same tokens get one by one, and the better of two nearly equal tokens could change.  Here every query
goes through the same instructions over the same stretches of positions whatever stands beside it; keys and values are still
read once for all of them.  Numbers come as bfloat16 and are multiplied and summed as float32.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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

F = TypeVar("F", bound=Callable[..., Any])

Float32 = NDArray[np.float32]
UInt16 = NDArray[np.uint16]
UInt32 = NDArray[np.uint32]


def _compiled(function: F, **options: bool) -> F:
    """Compiled at its first call, without the interpreter lock and without counting references: it makes no arrays."""
    fast = {"reassoc", "contract", "nsz", "arcp"}
    return cast(F, njit(nogil=True, fastmath=fast, error_model="numpy", _nrt=False, **options)(function))


_kernel = partial(_compiled, cache=True)
_inlined = partial(_compiled, forceinline=True)


def attend_alike(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    start: int,
    *,
    first: int = 0,
    window: int = 0,
    scale: float | None = None,
) -> Tensor:
    """softmax(Q·Kᵀ · scale)·V of the last positions of one sequence over all that they see.

    Args:
        queries: bfloat16 [1, query_heads, new, key_dim], of the positions start … start + new - 1.
        keys, values: bfloat16 [1, kv_heads, slots, key_dim or value_dim], contiguous in the last dimension; slot j holds the
            position first + j, and there is one for each up to the last query's.
        window: positions that a query sees, its own among them; 0: all up to its own.
        scale: factor of the scores; `None`: 1 / sqrt(key_dim).

    Returns:
        bfloat16 [1, query_heads, new, value_dim].
    """
    heads, new, width = queries.shape[1:]
    kv_heads, value_width = keys.shape[1], values.shape[-1]
    rows, end = new * (heads // kv_heads), start + new
    line = end - first + 2 * _TOGETHER
    mixed = torch.empty((1, new, heads, value_width), dtype=torch.bfloat16)
    scores = np.empty(rows * line, np.float32)
    wide = np.zeros(_STRETCH * max(width, value_width), np.float32)
    sums = np.empty(rows * value_width, np.float32)
    _attend(
        _numbers(queries), _numbers(keys), _numbers(values),
        (queries.stride(1), queries.stride(2), keys.stride(1), keys.stride(2), values.stride(1), values.stride(2)),
        (new, kv_heads, heads // kv_heads, width, value_width), (start, first, window, line),
        np.float32(width**-0.5 if scale is None else scale), np.empty(rows * width, np.float32), scores,
        scores.view(np.int32), np.empty(line, np.int32), wide, wide.view(np.uint32), sums, sums.view(np.uint32),
        mixed.view(-1).view(torch.uint16).numpy(),
    )  # fmt: skip
    return mixed.transpose(1, 2)


def _numbers(x: Tensor) -> UInt16:
    """The memory from the first to the last number of `x` [1, a, b, c], as their bits."""
    _, a, b, c = x.shape
    length = (a - 1) * x.stride(1) + (b - 1) * x.stride(2) + c
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
    queries: UInt16, keys: UInt16, values: UInt16, strides: tuple[int, ...], sizes: tuple[int, ...],
    places: tuple[int, ...], scale: np.float32, turned: Float32, scores: Float32, score_bits: NDArray[np.int32],
    powers: NDArray[np.int32], wide: Float32, wide_bits: UInt32, sums: Float32, sum_bits: UInt32, mixed: UInt16,
) -> None:  # fmt: skip
    query_head, query_row, key_head, key_slot, value_head, value_slot = strides
    new, kv_heads, group, width, value_width = sizes
    start, first, window, line = places
    end, seen = start + new, first
    if window > 0:
        seen = max(first, start + 1 - window)
    # Stretches begin at multiples of their length, whatever the cache has forgotten and wherever the window begins.
    begin_of_all = seen - seen % _STRETCH
    origin = first - first % _TOGETHER  # the position of a line's first score
    for head in range(kv_heads):
        for row in range(new * group):
            at = head * group + row % group
            _widen(queries[at * query_head + row // group * query_row :][:width], wide_bits[:width])
            query = turned[row * width : (row + 1) * width]
            for d in range(width):
                query[d] = wide[d] * scale
        for begin in range(begin_of_all, end, _STRETCH):
            stop = min(begin + _STRETCH, end)
            for position in range(max(begin, first), stop):
                place = head * key_head + (position - first) * key_slot
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
                place = head * value_head + (position - first) * value_slot
                to = (position - begin) * value_width
                _widen(values[place : place + value_width], wide_bits[to : to + value_width])
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
            at = (row // group * kv_heads * group + head * group + row % group) * value_width
            total_bits = sum_bits[row * value_width : (row + 1) * value_width]
            to_bits = mixed[at : at + value_width]
            for d in range(value_width):
                # To the nearest bfloat16, ties to even.
                bits = total_bits[d]
                to_bits[d] = np.uint16(
                    (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
                )
