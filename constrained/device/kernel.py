"""The Triton kernel that gathers rows by number and applies them; imported only where Triton is to be used."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

WORDS = 64
"""Words of a row that one program takes: 2,048 tokens."""


@triton.jit  # type: ignore[untyped-decorator]
def apply_rows_kernel(  # type: ignore[no-untyped-def]
    logits, table, numbers, batch_stride, token_stride, row_stride, vocab, words, WORDS: tl.constexpr
):
    """One program: `WORDS` words of one sequence's row.  Strides and lengths are in elements."""
    sequence = tl.program_id(0)
    number = tl.load(numbers + sequence)
    if number >= 0:
        word = tl.program_id(1) * WORDS + tl.arange(0, WORDS)
        # 64 bits: tables and batches of logits may have more than 2^31 elements
        row = tl.load(table + number.to(tl.int64) * row_stride + word, mask=word < words, other=0)
        bit = tl.arange(0, 32)
        token = word[:, None] * 32 + bit[None, :]
        forbidden = (((row[:, None] >> bit[None, :]) & 1) == 0) & (token < vocab)
        place = logits + sequence.to(tl.int64) * batch_stride + token.to(tl.int64) * token_stride
        # a NaN differs from itself; compared in float32, since the interpreter compares bfloat16 by its bits
        value = tl.load(place, mask=forbidden, other=0.0).to(tl.float32)
        tl.store(place, float("-inf"), mask=forbidden & (value == value))


def apply_rows_triton(logits: Tensor, table: Tensor, numbers: Tensor) -> Tensor:
    """`apply_rows` by one kernel; `table` is int32 with contiguous rows, `numbers` contiguous."""
    batch, vocab = logits.shape
    if batch and vocab:
        launch: Any = apply_rows_kernel[(batch, triton.cdiv(vocab, 32 * WORDS))]
        with torch.cuda.device(logits.device) if logits.is_cuda else nullcontext():
            launch(
                logits, table, numbers.contiguous(), logits.stride(0), logits.stride(1), table.stride(0), vocab,
                table.shape[1], WORDS=WORDS,
            )  # fmt: skip
    return logits
