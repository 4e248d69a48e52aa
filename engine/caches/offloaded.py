"""A cache outside the device's memory, of which two layers at a time are on the device.

From CUDA it lies in pinned host memory, and while one layer attends, the next one's keys and values are copied on a stream
of their own.  From the CPU it lies in a file that the system maps and writes out as it needs the memory.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from typing import ClassVar, Self

import torch
from torch import Tensor

from engine.caches.base import write_slots
from engine.caches.contiguous import DynamicCache
from engine.config import ModelConfig


class OffloadedCache(DynamicCache):
    """As `"dynamic"`, elsewhere."""

    name: ClassVar[str] = "offloaded"

    def __init__(
        self, config: ModelConfig, batch: int, device: torch.device, dtype: torch.dtype, capacity: int = 0
    ) -> None:
        self._on_cuda = device.type == "cuda"
        self._copies = torch.cuda.Stream(device) if self._on_cuda else None  # type: ignore[no-untyped-call]
        self._buffers: list[tuple[Tensor, Tensor]] = []
        self._fetched: dict[int, torch.cuda.Event | None] = {}
        super().__init__(config, batch, device, dtype, capacity)

    @property
    def device_nbytes(self) -> int:
        """Bytes on the device: the two buffers."""
        return sum(tensor.nbytes for pair in self._buffers for tensor in pair)

    def _allocate(self, slots: int, width: int) -> Tensor:
        shape = (self.batch, self.config.kv_heads, slots, width)
        if self._on_cuda:
            return torch.zeros(shape, dtype=self.dtype, pin_memory=True)
        if not math.prod(shape):
            return torch.zeros(shape, dtype=self.dtype)
        with tempfile.NamedTemporaryFile(prefix="kv-") as file:
            # The mapping outlives the name, and the space is given back with the last tensor on it; it begins as zeros.
            flat = torch.from_file(file.name, shared=True, size=math.prod(shape), dtype=self.dtype)
        return flat.view(shape)

    def begin(self, new: int, counts: Sequence[int] | None = None) -> None:
        super().begin(new, counts)
        self._fetched.clear()
        shapes = [(self.batch, self.config.kv_heads, self._capacity, tensor[0].shape[-1]) for tensor in self._sides]
        if not self._buffers or self._buffers[0][0].shape != shapes[0]:
            keys, values = shapes
            self._buffers = [
                (
                    torch.zeros(keys, device=self.device, dtype=self.dtype),
                    torch.zeros(values, device=self.device, dtype=self.dtype),
                )
                for _ in range(2)
            ]
        self._fetch(0)

    @property
    def _sides(self) -> tuple[list[Tensor], list[Tensor]]:
        return self._keys, self._values

    def _fetch(self, layer: int) -> None:
        """Copies what `layer` holds into its buffer, behind whatever the device still does with the buffer."""
        if layer >= self.config.layers:
            return
        if self._copies is None:
            self._copy_in(layer)
            self._fetched[layer] = None
            return
        self._copies.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self._copies):
            self._copy_in(layer)
            self._fetched[layer] = self._copies.record_event()

    def _copy_in(self, layer: int) -> None:
        held = self.longest
        for buffer, side in zip(self._buffers[layer % 2], self._sides, strict=True):
            buffer.narrow(2, 0, held).copy_(side[layer].narrow(2, 0, held), non_blocking=True)

    def _store(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        if layer not in self._fetched:  # layers out of their order
            self._fetch(layer)
        event = self._fetched.pop(layer)
        if event is not None:
            torch.cuda.current_stream(self.device).wait_event(event)
        start, end = self.longest, self.longest + self._new
        views = []
        for buffer, side, fresh in zip(self._buffers[layer % 2], self._sides, (keys, values), strict=True):
            if self._slots is None:
                buffer.narrow(2, start, self._new).copy_(fresh)
            else:
                write_slots(buffer, self._slots, fresh)
            first = min(self.lengths)
            side[layer].narrow(2, first, end - first).copy_(buffer.narrow(2, first, end - first), non_blocking=True)
            views.append(buffer.narrow(2, 0, end))
        self._fetch(layer + 1)
        return views[0], views[1]

    def _take(self, rows: Sequence[int]) -> Self:
        if self._on_cuda:
            torch.cuda.current_stream(self.device).synchronize()  # the last step's copies back
        copy = type(self)(self.config, len(rows), self.device, self.dtype, self._capacity)
        index = torch.tensor(list(rows))
        for mine, theirs in zip((*self._keys, *self._values), (*copy._keys, *copy._values), strict=True):
            theirs.narrow(2, 0, self.longest).copy_(mine.narrow(2, 0, self.longest).index_select(0, index))
        return copy

    def reserve(self, positions: int) -> None:
        if self._on_cuda and positions > self._capacity:
            torch.cuda.current_stream(self.device).synchronize()
        super().reserve(positions)
