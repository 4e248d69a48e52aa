"""Keys and values in 8 or 4 bits, but for the latest positions (KIVI, Liu et al. 2024, section 3).

With integers, scales of keys, which have a few channels that are large at every position, are per channel, over groups of
positions; those of values, which have none, are per position.  The latest positions matter most and stay as they are until a
group is full.

`"fp8"` (E4M3, Micikevicius et al. 2022) has one fixed scale for the keys of a layer and one for its values: 1, or what
`engine.quality.calibrate_scales` has measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import torch
from torch import Tensor

from engine.caches.base import Cache, write_slots
from engine.config import ModelConfig
from engine.errors import CacheError

GROUP = 32
"""Positions that share the scales of their keys."""

TAIL = 64
"""Latest positions that stay in full precision, at least."""

Bits = Literal[8, 4, "fp8"]

FP8_MOST = 448.0
"""The largest number of E4M3; what is beyond it is cut off."""

Scales = tuple[tuple[float, float], ...]
"""Of each layer, what its keys and its values are divided by before they are rounded to fp8."""


@dataclass(frozen=True)
class Packed:
    """Quantised numbers: x = code · step + low, codes 0 … 2^bits - 1.

    Attributes:
        codes: uint8 [..., width], or [..., width / 2] with two codes a byte; of `"fp8"` the bits of E4M3.
        step, low: of the cache's dtype, broadcastable to [..., width].
    """

    codes: Tensor
    step: Tensor
    low: Tensor
    bits: Bits

    @classmethod
    def of(cls, x: Tensor, dimension: int, bits: Literal[8, 4]) -> Packed:
        """`x` [..., width] with one step and low for all of `dimension`."""
        wide = x.float()
        low, high = wide.amin(dimension, keepdim=True), wide.amax(dimension, keepdim=True)
        step = ((high - low) / (2**bits - 1)).clamp(min=1e-8)
        # Rounded first: the codes are for the numbers that are kept.
        step, low = step.to(x.dtype), low.to(x.dtype)
        codes = ((wide - low.float()) / step.float()).round().clamp(0, 2**bits - 1).to(torch.uint8)
        if bits == 4:
            codes = codes[..., 0::2] | codes[..., 1::2] << 4
        return cls(codes, step, low, bits)

    @classmethod
    def of_fp8(cls, x: Tensor, scale: float) -> Packed:
        """`x` [..., width] in E4M3 after a division by `scale`."""
        codes = (x.float() / scale).clamp(-FP8_MOST, FP8_MOST).to(torch.float8_e4m3fn).view(torch.uint8)
        step = torch.full((x.shape[0], *(1,) * (x.dim() - 1)), scale, dtype=x.dtype, device=x.device)
        return cls(codes, step, torch.zeros_like(step), "fp8")

    def numbers(self) -> Tensor:
        """[..., width] in the cache's dtype."""
        codes = self.codes
        if self.bits == "fp8":
            return (codes.view(torch.float8_e4m3fn).float() * self.step.float()).to(self.step.dtype)
        if self.bits == 4:
            codes = torch.stack((codes & 15, codes >> 4), dim=-1).flatten(-2)
        return (codes.float() * self.step.float()).add_(self.low.float()).to(self.step.dtype)

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes + self.step.nbytes + self.low.nbytes

    def rows(self, index: Tensor) -> Packed:
        """The rows `index` of the batch."""
        return Packed(
            self.codes.index_select(0, index),
            self.step.index_select(0, index),
            self.low.index_select(0, index),
            self.bits,
        )


class QuantizedCache(Cache):
    """Whole groups of positions that every row has left behind by `tail` are packed; the others are as they came."""

    name: ClassVar[str] = "quantized"
    options: ClassVar[tuple[str, ...]] = ("bits", "tail", "scales")

    def __init__(
        self,
        config: ModelConfig,
        batch: int,
        device: torch.device,
        dtype: torch.dtype,
        capacity: int = 0,
        *,
        bits: Bits = 8,
        tail: int = TAIL,
        scales: Scales | None = None,
    ) -> None:
        """`scales` are for `bits="fp8"`; `None`: 1 everywhere."""
        super().__init__(config, batch, device, dtype)
        if bits not in (8, 4, "fp8"):
            raise CacheError(f"a quantized cache of {bits!r} bits: choose 8, 4 or 'fp8'")
        if bits == "fp8" and not hasattr(torch, "float8_e4m3fn"):
            raise CacheError("this torch has no float8: take bits=8")
        if scales is not None and (bits != "fp8" or len(scales) != config.layers):
            raise CacheError(
                f"scales of {len(scales)} layers for a cache of {bits!r} bits in {config.layers} layers: they are for "
                "bits='fp8', one pair a layer"
            )
        if config.latent is not None:
            raise CacheError("a quantized cache of latents: keys and values are one there; use cache='latent'")
        if config.head_dim % 2:
            raise CacheError(f"heads of {config.head_dim} dimensions cannot be packed in pairs; use cache='dynamic'")
        self.bits, self.tail, self.scales = bits, tail, scales
        self._packed: list[list[tuple[Packed, Packed]]] = [[] for _ in range(config.layers)]
        self._keys = [self._allocate(config.head_dim) for _ in range(config.layers)]
        self._values = [self._allocate(config.value_dim) for _ in range(config.layers)]
        if capacity:
            self.reserve(min(capacity, tail + GROUP))

    def _allocate(self, width: int, slots: int = 0) -> Tensor:
        return torch.zeros((self.batch, self.config.kv_heads, slots, width), device=self.device, dtype=self.dtype)

    @property
    def packed_positions(self) -> int:
        """Positions of each row that are packed."""
        return len(self._packed[0]) * GROUP

    @property
    def capacity(self) -> int:
        return self.packed_positions + self._keys[0].shape[2]

    @property
    def nbytes(self) -> int:
        full = sum(tensor.nbytes for tensor in (*self._keys, *self._values))
        return full + sum(part.nbytes for groups in self._packed for pair in groups for part in pair)

    def reserve(self, positions: int) -> None:
        needed = positions - self.packed_positions
        held = self._keys[0].shape[2]
        if needed <= held:
            return
        slots = max(needed, held + GROUP)
        for tensors in (self._keys, self._values):
            for layer, old in enumerate(tensors):
                tensors[layer] = self._allocate(old.shape[-1], slots)
                tensors[layer].narrow(2, 0, held).copy_(old)

    def _store(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        begin = self.packed_positions
        end = self.longest + self._new - begin
        results = []
        for side, tensor, fresh in ((0, self._keys[layer], keys), (1, self._values[layer], values)):
            if self._slots is None:
                tensor.narrow(2, self.longest - begin, self._new).copy_(fresh)
            else:
                write_slots(tensor, self._slots - begin, fresh)
            groups = [pair[side].numbers() for pair in self._packed[layer]]
            results.append(
                torch.cat((*groups, tensor.narrow(2, 0, end)), dim=2) if groups else tensor.narrow(2, 0, end)
            )
        return results[0], results[1]

    @property
    def together(self) -> int:
        # What is packed once stays rounded, so a block must not be what makes a group fall behind the tail.
        until_packed = self.packed_positions + self.tail + GROUP - min(self.lengths)
        return max(1, until_packed - 1)

    def advance(self, counts: int | Sequence[int]) -> None:
        super().advance(counts)
        groups = (min(self.lengths) - self.packed_positions - self.tail) // GROUP
        if groups < 1:
            return
        gone = groups * GROUP
        for layer, (keys, values) in enumerate(zip(self._keys, self._values, strict=True)):
            for at in range(0, gone, GROUP):
                key_group, value_group = keys.narrow(2, at, GROUP), values.narrow(2, at, GROUP)
                self._packed[layer].append(self._pack(layer, key_group, value_group))
            # Copies, so that a long prompt's room is given back.
            self._keys[layer] = keys.narrow(2, gone, keys.shape[2] - gone).clone()
            self._values[layer] = values.narrow(2, gone, values.shape[2] - gone).clone()

    def _pack(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Packed, Packed]:
        """A group of positions, [batch, kv_heads, GROUP, head_dim or value_dim]."""
        if self.bits == "fp8":
            key_scale, value_scale = (1.0, 1.0) if self.scales is None else self.scales[layer]
            return Packed.of_fp8(keys, key_scale), Packed.of_fp8(values, value_scale)
        return Packed.of(keys, 2, self.bits), Packed.of(values, 3, self.bits)

    def truncate(self, lengths: int | Sequence[int]) -> None:
        super().truncate(lengths)
        keep = min(self.lengths) // GROUP
        if keep >= len(self._packed[0]):
            return
        for layer, groups in enumerate(self._packed):
            # The group in which a row now ends is written again, so it and those behind it are unpacked: longer rows need them.
            behind = groups[keep:]
            del groups[keep:]
            for side, tensors in ((0, self._keys), (1, self._values)):
                opened = [pair[side].numbers() for pair in behind]
                tensors[layer] = torch.cat((*opened, tensors[layer]), dim=2)

    def _take(self, rows: Sequence[int]) -> Self:
        copy = type(self)(
            self.config, len(rows), self.device, self.dtype, bits=self.bits, tail=self.tail, scales=self.scales
        )
        index = torch.tensor(list(rows), device=self.device)
        copy._packed = [[(k.rows(index), v.rows(index)) for k, v in groups] for groups in self._packed]
        copy._keys = [tensor.index_select(0, index) for tensor in self._keys]
        copy._values = [tensor.index_select(0, index) for tensor in self._values]
        return copy
