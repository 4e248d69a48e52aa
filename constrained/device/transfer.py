"""From host to device without waiting."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor


def send(array: NDArray[Any], device: torch.device) -> Tensor:
    """A copy of `array` on `device`; the host does not wait for it, and may change `array` afterwards."""
    return staged(array, device).to(device, non_blocking=True)


def staged(array: NDArray[Any], device: torch.device) -> Tensor:
    """A host copy of `array` out of which a `non_blocking` copy to `device` is one.

    CUDA copies behind the host's back only out of pinned memory.  Torch keeps the pinned blocks that are let go and
    hands one out again only when the copy from it is done, so no step after the first ones allocates any.
    """
    host = torch.from_numpy(array)
    return host.pin_memory() if device.type == "cuda" else host.clone()
