"""Caches that keep each layer's keys and values in one tensor: `"dynamic"` grows it, `"static"` never does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, Self

import torch
from torch import Tensor

from engine.caches.base import Cache, write_slots
from engine.config import ModelConfig
from engine.errors import CacheError
from engine.fixed_step import RUNNERS, FixedDecoder, Runner

GROWTH = 256
"""Slots by which a dynamic cache grows at least; it grows by a half of what it holds where that is more."""


class ContiguousCache(Cache):
    """One pair of tensors [batch, kv_heads, capacity, head_dim] per layer."""

    def __init__(
        self, config: ModelConfig, batch: int, device: torch.device, dtype: torch.dtype, capacity: int = 0
    ) -> None:
        super().__init__(config, batch, device, dtype)
        self._capacity = capacity
        self._keys = [self._allocate(capacity, config.head_dim) for _ in range(config.layers)]
        self._values = [self._allocate(capacity, config.value_dim) for _ in range(config.layers)]

    def _allocate(self, slots: int, width: int) -> Tensor:
        # Zeros, not whatever was in memory: a masked NaN would still spoil the product with the values.
        shape = (self.batch, self.config.kv_heads, slots, width)
        with torch.inference_mode(False):  # so that compiled steps may write them
            return torch.zeros(shape, device=self.device, dtype=self.dtype)

    @property
    def capacity(self) -> int:
        return self._capacity

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in (*self._keys, *self._values))

    def _store(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        all_keys, all_values = self._keys[layer], self._values[layer]
        start, end = self.longest, self.longest + self._new
        if self._slots is None:
            all_keys.narrow(2, start, self._new).copy_(keys)
            all_values.narrow(2, start, self._new).copy_(values)
        else:
            write_slots(all_keys, self._slots, keys)
            write_slots(all_values, self._slots, values)
        return all_keys.narrow(2, 0, end), all_values.narrow(2, 0, end)

    def _take(self, rows: Sequence[int]) -> Self:
        copy = type(self)(self.config, len(rows), self.device, self.dtype, self._capacity)
        used = self.longest
        index = torch.tensor(list(rows), device=self.device)
        for mine, theirs in zip((*self._keys, *self._values), (*copy._keys, *copy._values), strict=True):
            theirs.narrow(2, 0, used).copy_(mine.narrow(2, 0, used).index_select(0, index))
        return copy


class DynamicCache(ContiguousCache):
    """Grows as the sequences do, up to the model's context; the memory is what the longest row needs, and a little."""

    name: ClassVar[str] = "dynamic"

    def reserve(self, positions: int) -> None:
        if positions <= self._capacity:
            return
        capacity = max(positions, self._capacity + max(GROWTH, self._capacity // 2))
        # The slots past the context are never committed, but a padded step may write there.
        capacity = max(positions, min(capacity, self.config.context_length))
        used = self.longest
        for tensors in (self._keys, self._values):
            for layer, old in enumerate(tensors):
                tensors[layer] = self._allocate(capacity, old.shape[-1])
                tensors[layer].narrow(2, 0, used).copy_(old.narrow(2, 0, used))
        self._capacity = capacity


class StaticCache(ContiguousCache):
    """All slots are allocated at the start and never move: stable addresses for compiled and captured decoding.

    Attributes:
        runner: how steps of one token a row are run; see `engine.fixed_step`.
        decoder: what runs them, made by the model at the first such step.
    """

    name: ClassVar[str] = "static"
    options: ClassVar[tuple[str, ...]] = ("runner",)

    def __init__(
        self,
        config: ModelConfig,
        batch: int,
        device: torch.device,
        dtype: torch.dtype,
        capacity: int = 0,
        *,
        runner: Runner | Literal["auto"] = "auto",
    ) -> None:
        """`"auto"`: CUDA graphs on CUDA but for mixtures of experts, ordinary steps elsewhere."""
        super().__init__(config, batch, device, dtype, capacity or config.context_length)
        if runner not in (*RUNNERS, "auto"):
            raise CacheError(f"unknown runner {runner!r}: choose {', '.join(map(repr, (*RUNNERS, 'auto')))}")
        if runner == "auto":
            runner = "graph" if device.type == "cuda" and config.experts is None else "plain"
        self.runner: Runner = runner
        self.decoder: FixedDecoder | None = None

    @property
    def keys(self) -> list[Tensor]:
        """Of each layer, [batch, kv_heads, capacity, head_dim]."""
        return self._keys

    @property
    def values(self) -> list[Tensor]:
        """Of each layer, [batch, kv_heads, capacity, value_dim]."""
        return self._values

    def reserve(self, positions: int) -> None:
        if positions > self._capacity:
            raise CacheError(
                f"static cache of {self._capacity} positions cannot hold {positions}: "
                "create it with a larger capacity, or use cache='dynamic'"
            )

    def _take(self, rows: Sequence[int]) -> Self:
        copy = super()._take(rows)
        copy.runner = self.runner
        return copy
