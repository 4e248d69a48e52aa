"""Rows of a table applied to logits by number: one kernel on CUDA, plain torch elsewhere, the same bits from both."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
UNCONSTRAINED = -1


def apply_rows(logits: Tensor, table: Tensor, numbers: Tensor) -> Tensor:
    """Put `-inf` where a row forbids a token, in place; nothing is copied to the host and nothing waits for the device.

    Sequence i is held to `table[numbers[i]]`; -1 leaves its logits alone.  Tokens past the end of a row are forbidden,
    bits past the end of the logits are ignored.  NaN stays NaN wherever it stands, so that it is found.

    Args:
        logits: [batch, vocab], float32, float16 or bfloat16, of any strides.
        table: int32 or uint32 [rows, words] on the same device, one row or more; token i is bit i % 32 of word i // 32.
        numbers: int32 [batch] on the same device, each from -1 to rows - 1: a larger one is not looked for.

    Returns:
        `logits`.

    Raises:
        ValueError: shapes, dtypes or devices that do not fit together.
    """
    check(logits, table, numbers)
    if logits.device.type == "cuda" and has_triton():
        from constrained.device.kernel import apply_rows_triton

        return apply_rows_triton(logits, table.view(torch.int32), numbers)
    return apply_rows_torch(logits, table.view(torch.int32), numbers)


def apply_rows_torch(logits: Tensor, table: Tensor, numbers: Tensor) -> Tensor:
    """`apply_rows` in terms of torch alone; `table` is int32."""
    words = table.index_select(0, numbers.clamp(min=0))
    bits = (words.unsqueeze(-1) >> torch.arange(32, dtype=torch.int32, device=logits.device)) & 1
    forbidden = bits.eq(0).flatten(1)[:, : logits.shape[1]]
    missing = logits.shape[1] - forbidden.shape[1]
    if missing:
        forbidden = torch.nn.functional.pad(forbidden, (0, missing), value=True)
    return logits.masked_fill_(forbidden & (numbers >= 0).unsqueeze(-1) & ~logits.isnan(), -torch.inf)


@cache
def has_triton() -> bool:
    """Whether Triton is installed (the extra `cuda`; CUDA builds of torch bring it along)."""
    return find_spec("triton") is not None


def check(logits: Tensor, table: Tensor, numbers: Tensor) -> None:
    """Raise ValueError unless the arguments of `apply_rows` fit together."""
    if logits.dim() != 2 or table.dim() != 2 or numbers.shape != logits.shape[:1] or table.shape[0] < 1:
        raise ValueError(
            f"logits {list(logits.shape)}, table {list(table.shape)} and numbers {list(numbers.shape)}: "
            "want [batch, vocab], [rows, words] with at least one row, and [batch]"
        )
    if logits.dtype not in DTYPES:
        raise ValueError(f"logits are {logits.dtype}; rows are applied to float32, float16 or bfloat16")
    if table.dtype not in (torch.int32, torch.uint32) or numbers.dtype is not torch.int32:
        raise ValueError(f"table is {table.dtype}, numbers are {numbers.dtype}; want int32 (or uint32) and int32")
    if table.stride(1) != 1 and table.shape[1] > 1:
        raise ValueError("the rows of the table must be contiguous")
    if not logits.device == table.device == numbers.device:
        raise ValueError(f"logits are on {logits.device}, table on {table.device}, numbers on {numbers.device}")
