"""Token masks, from bit rows to logits.

A row is uint32[ceil(vocabulary/32)]; token i is allowed where bit i%32 of word i//32 is set.  Applying one is a minimum
with +inf or -inf: unlike a select, it is vectorised on every CPU, and a NaN stays visible wherever it stands.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.constraint import DeviceRows
from engine.devices import upload

Rows = NDArray[np.uint32] | Tensor
Masks = Rows | DeviceRows
"""Masks of a batch: rows of bits, or something that applies them on the device."""


def row_words(vocab_size: int) -> int:
    """Words of uint32 in the row of a vocabulary of `vocab_size` logits."""
    return (vocab_size + 31) // 32


def apply_mask(logits: Tensor, rows: Rows, constrained: Sequence[bool] | None = None) -> Tensor:
    """Logits with the forbidden tokens at `-inf`; the argument is left alone.

    Args:
        logits: [batch, vocab], float32, float16 or bfloat16, on any device.
        rows: [batch, words] uint32 (or the same bits as an int32 tensor).  Tokens past the end of the row are
            forbidden, bits past the end of the logits are ignored.
        constrained: which rows of the batch the mask holds for; the others stay as they are.  `None`: all.

    Raises:
        ValueError: shapes that do not fit, or a dtype that is not one of the above.
    """
    if logits.dim() != 2 or len(rows.shape) != 2 or rows.shape[0] != logits.shape[0]:
        raise ValueError(
            f"logits {list(logits.shape)} and rows {list(rows.shape)}: want [batch, vocab] and [batch, words]"
        )
    on_host = logits.device.type == "cpu" and sys.byteorder == "little"
    ceiling = _ceiling_on_host(rows, logits.dtype) if on_host else _ceiling_on_device(rows, logits)
    vocab_size, covered = logits.shape[1], ceiling.shape[1]
    if constrained is not None and not all(constrained):
        free = upload([not flag for flag in constrained], logits.device)
        ceiling.masked_fill_(free.unsqueeze(-1), torch.inf)
    if covered >= vocab_size:
        return torch.minimum(logits, ceiling[:, :vocab_size])
    held = upload([True] * logits.shape[0] if constrained is None else list(constrained), logits.device)
    masked = logits.clone()
    masked[:, :covered] = torch.minimum(logits[:, :covered], ceiling)
    masked[:, covered:].masked_fill_(held.unsqueeze(-1), -torch.inf)
    return masked


def allowed_tokens(row: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Ids of the tokens that a row (uint32[words]) allows, ascending."""
    words = np.flatnonzero(row)
    bits = (row[words, None] >> np.arange(32, dtype=np.uint32)) & np.uint32(1)
    where, bit = np.nonzero(bits)
    return words[where] * 32 + bit


def best_allowed(
    logits: Tensor, rows: NDArray[np.uint32], constrained: Sequence[bool] | None = None
) -> tuple[Tensor, Tensor]:
    """The best token of each row under its mask, as of `apply_mask(logits, rows, constrained)`, and its score; on the host.

    The best token of all is the best under the mask too where it is allowed; only the other rows are masked, one by one, in a
    piece of memory that stays in the processor's cache.

    Args:
        logits: float32 [batch, vocab] on a CPU.
        rows, constrained: as in `apply_mask`.

    Returns:
        int64 [batch], ties going to the lowest id, and float32 [batch]: `-inf` where nothing is allowed, and NaN where one
        stands anywhere in the row.
    """
    values = logits.numpy()
    batch, vocab_size = values.shape
    tokens = values.argmax(-1)
    best = values[np.arange(batch), tokens]
    room: NDArray[np.float32] | None = None
    table = _byte_table(torch.float32).view(np.float32)
    for at in range(batch):
        token = int(tokens[at])
        if (constrained is not None and not constrained[at]) or np.isnan(best[at]):
            continue
        row = rows[at]
        if token >> 5 < len(row) and int(row[token >> 5]) >> (token & 31) & 1:
            continue
        if room is None:
            room = np.empty((rows.shape[1] * 4, 8), np.float32)
        np.take(table, row.view(np.uint8), axis=0, out=room, mode="clip")
        masked = room.reshape(-1)[:vocab_size]
        np.minimum(masked, values[at, : len(masked)], out=masked)
        tokens[at] = masked.argmax()
        best[at] = masked[tokens[at]]
    return torch.from_numpy(tokens), torch.from_numpy(best)


def _ceiling_on_host(rows: Rows, dtype: torch.dtype) -> Tensor:
    """[batch, 32 * words] of +inf (allowed) and -inf, by a table with the eight entries of each byte."""
    words = rows.cpu().numpy() if isinstance(rows, Tensor) else rows
    octets = np.ascontiguousarray(words).view(np.uint8)
    table = _byte_table(dtype)
    # mode="clip" skips numpy's bounds check, which costs more than the copy; an octet is always in range.
    expanded = np.take(table, octets, axis=0, mode="clip").reshape(words.shape[0], -1)
    return torch.from_numpy(expanded).view(dtype)


@cache
def _byte_table(dtype: torch.dtype) -> NDArray[Any]:
    """[256, 8]: bit patterns of +inf where the bit is set and of -inf where it is not."""
    if dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise ValueError(f"logits are {dtype}; a mask takes float32, float16 or bfloat16")
    bits = (torch.arange(256)[:, None] >> torch.arange(8)) & 1
    table = torch.where(bits.bool(), torch.inf, -torch.inf).to(dtype)
    patterns: NDArray[Any] = table.view(torch.int32 if dtype is torch.float32 else torch.int16).numpy()
    return patterns


def _ceiling_on_device(rows: Rows, logits: Tensor) -> Tensor:
    words = rows if isinstance(rows, Tensor) else torch.from_numpy(np.ascontiguousarray(rows).view(np.int32))
    words = words.view(torch.int32).to(logits.device, non_blocking=True)
    bits = (words.unsqueeze(-1) >> torch.arange(32, dtype=torch.int32, device=logits.device)) & 1
    ceiling = torch.where(bits.bool(), torch.inf, -torch.inf).to(logits.dtype)
    return ceiling.reshape(words.shape[0], -1)
