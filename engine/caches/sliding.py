"""A cache that forgets what no window reaches: the memory of a windowed layer stops growing at its window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

import torch
from torch import Tensor

from engine.caches.base import Cache, write_slots
from engine.caches.contiguous import GROWTH
from engine.config import ModelConfig
from engine.errors import CacheError

SLACK = 64
"""Positions behind the window that are kept for rollbacks."""


class SlidingCache(Cache):
    """Layers with a window keep that many positions and `slack` more; layers without keep all.

    A row can be shortened by at most `slack` positions below what it has once reached; beyond that is only `reset`.
    Rows of very different lengths keep what the shortest needs.
    """

    name: ClassVar[str] = "sliding"
    options: ClassVar[tuple[str, ...]] = ("slack",)

    def __init__(
        self,
        config: ModelConfig,
        batch: int,
        device: torch.device,
        dtype: torch.dtype,
        capacity: int = 0,
        *,
        slack: int = SLACK,
    ) -> None:
        super().__init__(config, batch, device, dtype)
        self.slack = slack
        self._first = [0] * config.layers
        self._keys = [self._allocate(0, config.head_dim) for _ in range(config.layers)]
        self._values = [self._allocate(0, config.value_dim) for _ in range(config.layers)]
        if capacity:
            self.reserve(capacity)

    def _allocate(self, slots: int, width: int) -> Tensor:
        return torch.zeros((self.batch, self.config.kv_heads, slots, width), device=self.device, dtype=self.dtype)

    @property
    def capacity(self) -> int:
        return min(first + keys.shape[2] for first, keys in zip(self._first, self._keys, strict=True))

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in (*self._keys, *self._values))

    def first(self, layer: int) -> int:
        return self._first[layer]

    def reserve(self, positions: int) -> None:
        for layer in range(self.config.layers):
            self._make_room(layer, positions)

    def truncate(self, lengths: int | Sequence[int]) -> None:
        wanted = (lengths,) * self.batch if isinstance(lengths, int) else tuple(lengths)
        if any(wanted) and len(wanted) == self.batch:
            # A query at the new end sees its window; what has been dropped below that is gone.
            for layer, first in enumerate(self._first):
                window = self.config.window(layer)
                short = [length for length in wanted if first > max(0, length + 1 - window)]
                if window and short:
                    raise CacheError(
                        f"a sliding cache cannot go back to {short[0]} positions: it holds those from {first} on, and "
                        f"keeps {self.slack} for that; make it with a larger slack, or use cache='dynamic'"
                    )
        super().truncate(lengths)
        if not any(self.lengths):
            self._first = [0] * self.config.layers

    def _make_room(self, layer: int, positions: int) -> None:
        """Room up to `positions`, first by forgetting, then by growing."""
        keys, first = self._keys[layer], self._first[layer]
        if positions - first <= keys.shape[2]:
            return
        window = self.config.window(layer)
        if window:
            first = max(first, min(self.lengths) + 1 - window - self.slack)
        needed = positions - first
        held = max(0, self.longest - first)
        for tensors in (self._keys, self._values):
            old = tensors[layer]
            kept = old.narrow(2, first - self._first[layer], held)
            if needed <= old.shape[2]:
                old.narrow(2, 0, held).copy_(kept.clone())
                continue
            growth = max(GROWTH, old.shape[2] // 2) if not window else min(GROWTH, window + self.slack)
            tensors[layer] = self._allocate(max(needed, old.shape[2] + growth), old.shape[-1])
            tensors[layer].narrow(2, 0, held).copy_(kept)
        self._first[layer] = first

    def _store(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        first = self._first[layer]
        end = self.longest + self._new - first
        views = []
        for tensor, fresh in ((self._keys[layer], keys), (self._values[layer], values)):
            if self._slots is None:
                tensor.narrow(2, self.longest - first, self._new).copy_(fresh)
            else:
                write_slots(tensor, self._slots - first, fresh)
            views.append(tensor.narrow(2, 0, end))
        return views[0], views[1]

    def _take(self, rows: Sequence[int]) -> Self:
        copy = type(self)(self.config, len(rows), self.device, self.dtype, slack=self.slack)
        index = torch.tensor(list(rows), device=self.device)
        copy._keys = [tensor.index_select(0, index) for tensor in self._keys]
        copy._values = [tensor.index_select(0, index) for tensor in self._values]
        copy._first = list(self._first)
        return copy
