"""Logits, tables and numbers of all kinds, and what has to come out; for the torch path and for the kernel."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


class Case(NamedTuple):
    logits: Tensor
    table: Tensor
    numbers: Tensor


def make_case(
    dtype: torch.dtype, batch: int, vocab: int, rows: int, words: int, seed: int, device: str = "cpu"
) -> Case:
    """Random bits; numbers from -1; NaN, both infinities and both zeros among the logits."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 30, (batch, vocab)).astype(np.float32)
    for value in (np.nan, np.inf, -np.inf, 0.0, -0.0):
        logits[rng.random((batch, vocab)) < 0.05] = value
    table = rng.integers(0, 2**32, (rows, words), dtype=np.uint32).view(np.int32)
    numbers = rng.integers(-1, rows, batch).astype(np.int32)
    return Case(*(torch.from_numpy(array).to(device) for array in (logits, table, numbers)))._replace(
        logits=torch.from_numpy(logits).to(dtype).to(device)
    )


def expected(case: Case) -> Tensor:
    """The slow twin: one token at a time."""
    out = case.logits.cpu().clone()
    for sequence, number in enumerate(case.numbers.tolist()):
        if number < 0:
            continue
        row = case.table[number].tolist()
        for token in range(out.shape[1]):
            allowed = token // 32 < len(row) and row[token // 32] >> token % 32 & 1
            if not allowed and not out[sequence, token].isnan():
                out[sequence, token] = -torch.inf
    return out


def bits(logits: Tensor) -> Tensor:
    """The logits as integers, so that NaN equals itself and 0 does not equal -0."""
    return logits.cpu().contiguous().view(torch.int32 if logits.dtype is torch.float32 else torch.int16)
