"""Where and in which numbers a model runs, and what the machine's kernels can do for it."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any, Literal

import torch
from torch import Tensor

from engine.errors import DeviceError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

Packing = Literal["int8", "int4"]
PACKINGS: tuple[Packing, ...] = ("int8", "int4")


def choose_device(device: str | torch.device) -> torch.device:
    """`"auto"` → CUDA where there is one, else the CPU.

    Raises:
        DeviceError: no such device here.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError):
        raise DeviceError(f"unknown device {device!r}: pass 'cpu', 'cuda', 'cuda:1' or 'auto'") from None
    if chosen.type == "cpu":
        return torch.device("cpu")
    if chosen.type != "cuda":
        raise DeviceError(f"device {str(device)!r}: models run on 'cpu' and 'cuda'; pass one of these, or 'auto'")
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not there:
        raise DeviceError(f"device {str(device)!r}: this torch sees no CUDA device; pass 'cpu' or 'auto'")
    if chosen.index is not None and chosen.index >= there:
        raise DeviceError(f"device {str(device)!r}: this machine has {there} CUDA device(s); pass 'cuda:{there - 1}'")
    return chosen


def choose_dtype(dtype: str | torch.dtype, device: torch.device) -> torch.dtype:
    """`"auto"` → bfloat16 where `device` multiplies it in hardware, else float16 on CUDA and float32 on the CPU.

    Raises:
        DeviceError: not a dtype that models run in.
    """
    if dtype == "auto":
        if device.type == "cuda":
            return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
        return torch.bfloat16 if cpu_multiplies_bfloat16() else torch.float32
    chosen = DTYPES.get(dtype) if isinstance(dtype, str) else dtype
    if chosen is None or chosen not in DTYPES.values():
        names = ", ".join((*DTYPES, *PACKINGS))
        raise DeviceError(f"unknown dtype {dtype!r}: pass one of {names} or 'auto'")
    return chosen


def choose_numbers(dtype: str | torch.dtype, device: torch.device) -> tuple[torch.dtype, Packing | None]:
    """The dtype that the model computes in, and how its weights are packed: `"int8"` and `"int4"` compute in bfloat16.

    Raises:
        DeviceError: not a dtype that models run in, or packed weights on another device than the CPU.
    """
    if dtype not in PACKINGS:
        return choose_dtype(dtype, device), None
    if device.type != "cpu":
        raise DeviceError(f"{dtype} weights run on the CPU, not on {device}: pass dtype='bfloat16' or device='cpu'")
    return torch.bfloat16, dtype


def upload(values: Any, device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """`torch.tensor(values)` on a device that nobody waits for.

    A copy out of ordinary memory makes the host wait until the device has done all that it was given; one out of pinned memory
    goes on behind the host's back, and torch keeps that memory until it has been read.
    """
    host = torch.tensor(values, dtype=dtype)
    return host.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else host.to(device)


@cache
def has_triton() -> bool:
    """Whether Triton is installed (the extra `cuda`; CUDA builds of torch bring it along)."""
    return find_spec("triton") is not None


@cache
def cpu_multiplies_bfloat16() -> bool:
    """Whether oneDNN has bfloat16 products for this CPU."""
    if not torch._C._has_mkldnn:
        return False
    supported: bool = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return supported
