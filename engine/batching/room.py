"""How many blocks an engine gets where its memory is not given."""

from __future__ import annotations

import math
import os
from pathlib import Path

import torch

from engine.errors import EngineError
from engine.model import Model

CPU_SHARE = 0.25
"""Share of the host's available memory that keys and values get by default."""

CPU_MOST = 4 * 2**30
"""Bytes of the host that they get at most by default."""

CUDA_SHARE = 0.8
"""Share of a device's free memory that they get."""


def blocks_for(model: Model, kv_bytes: int | None, max_sequences: int, block_size: int = 16) -> int:
    """Blocks of `block_size` positions for keys and values.

    Args:
        kv_bytes: memory that they may take.  `None`: a quarter of what the host has available, 4 GiB at most, or four fifths
            of what a CUDA device has free; never more than `max_sequences` sequences as long as the model's context would
            fill.

    Raises:
        EngineError: not even one block fits.
    """
    block_bytes = model.config.kv_values_per_token * block_size * model.dtype.itemsize
    if kv_bytes is not None:
        blocks = kv_bytes // block_bytes
    else:
        most = max_sequences * -(-model.config.context_length // block_size)
        blocks = min(most, free_bytes(model.device) // block_bytes)
    if blocks < 1:
        raise EngineError(
            f"a block of {block_size} positions takes {block_bytes} bytes of keys and values, more than there is room for: "
            "give them more memory (kv_memory)"
        )
    return blocks


def free_bytes(device: torch.device) -> int:
    """Memory of `device` that keys and values may take when nobody says how much."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free * CUDA_SHARE)
    return min(CPU_MOST, int(_available_on_host() * CPU_SHARE))


def _available_on_host() -> int:
    return int(min(_available_to_all(), _available_to_group()))


def _available_to_group() -> float:
    """What a control group, a container's say, leaves to its processes."""
    try:
        limit, used = (Path("/sys/fs/cgroup", name).read_text("ascii") for name in ("memory.max", "memory.current"))
        return max(0, int(limit) - int(used))
    except (OSError, ValueError):  # no such group, or "max"
        return math.inf


def _available_to_all() -> int:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass  # no Linux
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    return 4 * 2**30
