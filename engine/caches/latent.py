"""The cache of a model with latent attention: one compressed vector a token instead of keys and values for each head."""

from __future__ import annotations

from typing import ClassVar

import torch

from engine.caches.contiguous import DynamicCache
from engine.config import ModelConfig
from engine.errors import CacheError


class LatentCache(DynamicCache):
    """As `"dynamic"`; refuses models whose attention has no latents."""

    name: ClassVar[str] = "latent"

    def __init__(
        self, config: ModelConfig, batch: int, device: torch.device, dtype: torch.dtype, capacity: int = 0
    ) -> None:
        if config.latent is None:
            raise CacheError(
                f"a latent cache needs latent attention, which {config.architecture} models do not have; use "
                "cache='dynamic'"
            )
        super().__init__(config, batch, device, dtype, capacity)
