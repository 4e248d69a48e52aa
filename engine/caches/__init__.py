"""Key/value caches behind one interface (`Cache`), made by name (`create`), and the arithmetic of their size."""

from __future__ import annotations

import torch

from engine.caches.base import Cache
from engine.caches.contiguous import DynamicCache, StaticCache
from engine.caches.plan import kv_cache_bytes, required_blocks
from engine.config import ModelConfig
from engine.errors import CacheError

__all__ = ["NAMES", "Cache", "DynamicCache", "StaticCache", "create", "kv_cache_bytes", "required_blocks"]

_KINDS: dict[str, type[DynamicCache] | type[StaticCache]] = {kind.name: kind for kind in (DynamicCache, StaticCache)}
NAMES = tuple(_KINDS)


def create(
    name: str,
    config: ModelConfig,
    batch: int = 1,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    capacity: int = 0,
) -> Cache:
    """An empty cache of the kind `name` for `batch` rows.

    Args:
        name: one of `NAMES`; `"auto"` is `"dynamic"`.
        device, dtype: those of the model (`Model.new_cache` fills them in).
        capacity: slots per row to allocate at once; 0 lets the kind choose (`"dynamic"`: none yet, `"static"`: the
            model's whole context).

    Raises:
        CacheError: no cache of that name.
    """
    kind = _KINDS.get("dynamic" if name == "auto" else name)
    if kind is None:
        raise CacheError(f"no cache named {name!r}: choose {', '.join(map(repr, NAMES))} or 'auto'")
    return kind(config, batch, torch.device(device), dtype, capacity)
