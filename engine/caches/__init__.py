"""Key/value caches behind one interface (`Cache`), made by name (`create`), and the arithmetic of their size."""

from __future__ import annotations

from typing import Any

import torch

from engine.caches.base import Cache
from engine.caches.blocks import BlockManager, BlockTable
from engine.caches.contiguous import DynamicCache, StaticCache
from engine.caches.latent import LatentCache
from engine.caches.offloaded import OffloadedCache
from engine.caches.paged import BlockPool, PagedCache
from engine.caches.plan import kv_cache_bytes, required_blocks
from engine.caches.quantized import QuantizedCache
from engine.caches.sliding import SlidingCache
from engine.config import ModelConfig
from engine.errors import CacheError

__all__ = [
    "NAMES",
    "BlockManager",
    "BlockPool",
    "BlockTable",
    "Cache",
    "DynamicCache",
    "LatentCache",
    "OffloadedCache",
    "PagedCache",
    "QuantizedCache",
    "SlidingCache",
    "StaticCache",
    "create",
    "kv_cache_bytes",
    "required_blocks",
]

_KINDS: dict[str, Any] = {
    kind.name: kind
    for kind in (DynamicCache, StaticCache, PagedCache, SlidingCache, OffloadedCache, QuantizedCache, LatentCache)
}
NAMES = tuple(_KINDS)


def create(
    name: str,
    config: ModelConfig,
    batch: int = 1,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    capacity: int = 0,
    **options: Any,
) -> Cache:
    """An empty cache of the kind `name` for `batch` rows.

    Args:
        name: one of `NAMES`; `"auto"` is `"latent"` for a model with latent attention and `"dynamic"` for the others,
            which are exact and allow every rollback.  Take `"static"` for compiled decoding, `"paged"` for shared
            prefixes and many rows, `"sliding"` for long texts of models with windows, `"offloaded"` where memory ends,
            `"quantized"` where a long context is most of it.
        device, dtype: those of the model (`Model.new_cache` fills them in).
        capacity: slots per row to allocate at once; 0 lets the kind choose (`"static"`: the model's whole context; the
            others: none yet).  The most that `"static"` and `"paged"` hold, where it is given.
        options: `runner` (`"static"`), `block_size`, `pool` (`"paged"`), `slack` (`"sliding"`), `bits`, `tail`, `scales`
            (`"quantized"`).

    Raises:
        CacheError: no cache of that name, or an option that it does not have.
    """
    if name == "auto":
        name = "dynamic" if config.latent is None else "latent"
    kind = _KINDS.get(name)
    if kind is None:
        raise CacheError(f"no cache named {name!r}: choose {', '.join(map(repr, NAMES))} or 'auto'")
    unknown = sorted(set(options) - set(kind.options))
    if unknown:
        known = f"it takes {', '.join(kind.options)}" if kind.options else "it takes none"
        raise CacheError(f"a {name} cache has no option {unknown[0]!r}: {known}")
    cache: Cache = kind(config, batch, torch.device(device), dtype, capacity, **options)
    return cache
