"""Where and in which numbers a model runs, and what the machine's kernels can do for it."""

from __future__ import annotations

from functools import cache

import torch

from engine.errors import ModelError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def choose_device(device: str | torch.device) -> torch.device:
    """`"auto"` → CUDA where there is one, else the CPU.

    Raises:
        ModelError: no such device here.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError:
        raise ModelError(f"unknown device {device!r}: 'cpu', 'cuda' or 'auto'") from None
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise ModelError(f"device {str(device)!r}: this torch sees no CUDA device; use device='cpu'")
    return chosen


def choose_dtype(dtype: str | torch.dtype, device: torch.device) -> torch.dtype:
    """`"auto"` → bfloat16 where `device` multiplies it in hardware, else float16 on CUDA and float32 on the CPU.

    Raises:
        ModelError: not a dtype that models run in.
    """
    if dtype == "auto":
        if device.type == "cuda":
            return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
        return torch.bfloat16 if cpu_multiplies_bfloat16() else torch.float32
    chosen = DTYPES.get(dtype) if isinstance(dtype, str) else dtype
    if chosen is None or chosen not in DTYPES.values():
        raise ModelError(f"unknown dtype {dtype!r}: {', '.join(DTYPES)} or 'auto'")
    return chosen


@cache
def cpu_multiplies_bfloat16() -> bool:
    """Whether oneDNN has bfloat16 products for this CPU."""
    if not torch._C._has_mkldnn:
        return False
    supported: bool = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return supported
