"""Scaled dot-product attention with grouped query heads, and the masks that it needs.

Key slots are absolute positions: slot j of a row's cache holds position j.  So one rule makes every mask, for batches
of unequal length and for several new tokens after many cached ones: the query at position p sees slot j iff j <= p.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from engine.errors import EngineError

Backend = Literal["sdpa", "math", "flash", "paged"]
BACKENDS: tuple[Backend, ...] = ("sdpa", "math", "flash", "paged")

Kernel = Literal["flash", "efficient", "cudnn", "products", "reference", "alike", "paged triton", "paged torch"]
"""What computes an attention: one of torch's fused kernels, matrix products and a softmax, `attend_by_repeating`,
`attend_rows`, or what reads the blocks of a paged cache."""

_SDP_KERNELS: dict[object, Kernel] = {
    SDPBackend.MATH.value: "products",
    SDPBackend.FLASH_ATTENTION.value: "flash",
    SDPBackend.EFFICIENT_ATTENTION.value: "efficient",
    SDPBackend.CUDNN_ATTENTION.value: "cudnn",
}

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
        backend: `"sdpa"` (the one of torch's kernels that it chooses), `"flash"` (its flash kernel and no other), or
            `"math"` (`attend_by_repeating`); `"paged"` is as `"sdpa"` here (see `Cache.attend`).
        scale: factor of the scores; `None`: 1 / sqrt(key_dim).
        softcap: c · tanh(score / c), before the mask (Gemma 2); 0: none.  No fused kernel has it.

    Returns:
        [batch, query_heads, new, value_dim].

    Raises:
        EngineError: an unknown backend, or `"flash"` where its kernel cannot run.
    """
    if backend == "math":
        note("reference")
        return attend_by_repeating(queries, keys, values, mask, causal, scale=scale, softcap=softcap)
    if backend == "flash":
        return _attend_by_flash(queries, keys, values, mask, causal, scale, softcap)
    if backend not in BACKENDS:
        raise EngineError(f"unknown attention backend {backend!r}: choose {', '.join(BACKENDS)}")
    if softcap:
        if not torch.compiler.is_compiling():
            note("products")
        return _attend_with_softcap(queries, keys, values, mask, causal, scale, softcap)
    # Asking for grouping where there is none would keep torch from its fused kernels on some devices.
    grouped = queries.shape[1] != keys.shape[1]
    if grouped and queries.shape[2] <= GROUPED_ROWS and not causal:
        return _attend_in_groups(queries, keys, values, mask, scale)
    return _sdpa(queries, keys, values, mask, causal, scale, grouped)


def which() -> Kernel | None:
    """What computed the last `attend` of this thread; `None` before the first."""
    last: Kernel | Callable[[], Kernel] | None = getattr(_last, "kernel", None)
    return last() if callable(last) else last


def note(kernel: Kernel | Callable[[], Kernel]) -> None:
    """Remember what has just computed an attention, or how to find out, for `which`."""
    _last.kernel = kernel


_last = threading.local()


def _sdpa(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None,
    causal: bool,
    scale: float | None,
    grouped: bool = False,
) -> Tensor:
    """`scaled_dot_product_attention`; torch is asked for its choice when somebody wants to know it."""
    if not torch.compiler.is_compiling():
        shapes = queries.shape, keys.shape, values.shape, None if mask is None else mask.shape
        note(lambda: _choice(shapes, queries.dtype, queries.device, causal, grouped))
    mixed: Tensor = F.scaled_dot_product_attention(
        queries, keys, values, mask, 0.0, causal, scale=scale, enable_gqa=grouped
    )
    return mixed


def _choice(shapes: Any, dtype: torch.dtype, device: torch.device, causal: bool, grouped: bool) -> Kernel:
    *tensors, mask = shapes
    queries, keys, values = (torch.empty(shape, dtype=dtype, device=device) for shape in tensors)
    masked = None if mask is None else torch.empty(mask, dtype=torch.bool, device=device)
    with torch.inference_mode():
        choice: int = torch._fused_sdp_choice(queries, keys, values, masked, 0.0, causal, enable_gqa=grouped)
    return _SDP_KERNELS[choice]


def _attend_by_flash(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None,
    causal: bool,
    scale: float | None,
    softcap: float,
) -> Tensor:
    if softcap:
        raise EngineError("backend='flash': the kernel has no soft cap of scores, which this model needs; use 'sdpa'")
    try:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            mixed: Tensor = F.scaled_dot_product_attention(
                queries, keys, values, mask, 0.0, causal, scale=scale, enable_gqa=queries.shape[1] != keys.shape[1]
            )
    except RuntimeError as error:
        why = "it takes no mask there" if mask is not None and queries.is_cuda else str(error).partition("\n")[0]
        raise EngineError(
            f"backend='flash': the kernel does not run on {queries.device} for {queries.dtype} queries of shape "
            f"{list(queries.shape)} ({why}); use 'sdpa'"
        ) from None
    note("flash")
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
    mixed = _sdpa(queries.reshape(batch, kv_heads, group * new, width), keys, values, mask, False, scale)
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
