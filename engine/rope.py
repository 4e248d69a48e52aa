"""Rotary position embedding (Su et al. 2021, RoFormer) with the scaling kinds of long-context models.

A head's dimensions i and i + d/2 form a plane that is turned by position times frequency i.  (GGUF files of llama
models store the planes as neighbours instead; the loader puts their rows back.)
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from engine.config import RopeConfig


def frequencies(rope: RopeConfig, head_dim: int, factors: Tensor | None = None) -> tuple[Tensor, float]:
    """Angular frequencies, float32 [head_dim / 2], and the factor by which cosines and sines are multiplied.

    `factors` [head_dim / 2], where a file carries them, divide the plain frequencies and stand for their whole scaling.
    """
    exponents = torch.arange(0, head_dim, 2, dtype=torch.int64).float() / head_dim
    plain = 1.0 / rope.theta**exponents
    if factors is not None:
        temperature = _longrope_attention_factor(rope) if rope.kind == "longrope" else 1.0
        return plain / factors.float().cpu(), temperature
    if rope.kind == "linear":
        return plain / rope.factor, 1.0
    if rope.kind == "llama3":
        return _llama3(rope, plain), 1.0
    if rope.kind == "longrope":
        divisors = rope.long_factors if rope.is_stretched else rope.short_factors
        return plain / torch.tensor(divisors), _longrope_attention_factor(rope)
    if rope.kind == "dynamic" and rope.is_stretched:
        return 1.0 / _ntk_base(rope, head_dim) ** exponents, 1.0
    if rope.kind == "yarn":
        return _yarn(rope, plain, head_dim), _yarn_attention_factor(rope)
    return plain, 1.0


def _ntk_base(rope: RopeConfig, head_dim: int) -> float:
    """The base that turns the slowest plane as far at the end of `target` as the plain one at that of the original context."""
    stretch = rope.factor * rope.target / rope.original_context - (rope.factor - 1.0)
    return float(rope.theta * stretch ** (head_dim / (head_dim - 2)))


def _llama3(rope: RopeConfig, plain: Tensor) -> Tensor:
    """Long wavelengths are stretched, short ones kept, those between blended (Llama 3.1 release)."""
    wavelengths = 2 * math.pi / plain
    low, high = rope.low_frequency_factor, rope.high_frequency_factor
    smooth = ((rope.original_context / wavelengths - low) / (high - low)).clamp(0, 1)
    return (1 - smooth) * plain / rope.factor + smooth * plain


def _yarn(rope: RopeConfig, plain: Tensor, head_dim: int) -> Tensor:
    """NTK-by-parts interpolation (YaRN, section 3.2)."""

    def dimension_of(rotations: float) -> float:
        return head_dim * math.log(rope.original_context / (rotations * 2 * math.pi)) / (2 * math.log(rope.theta))

    low, high = dimension_of(rope.beta_fast), dimension_of(rope.beta_slow)
    if rope.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    if low == high:
        high += 0.001
    ramp = ((torch.arange(head_dim // 2, dtype=torch.float32) - low) / (high - low)).clamp(0, 1)
    return plain / rope.factor * ramp + plain * (1 - ramp)


def _yarn_attention_factor(rope: RopeConfig) -> float:
    """Temperature of the attention, applied to cosines and sines (YaRN, section 3.4)."""

    def scale(weight: float) -> float:
        return 1.0 if rope.factor <= 1 else 0.1 * weight * math.log(rope.factor) + 1.0

    if rope.attention_factor is not None:
        return rope.attention_factor
    if rope.mscale and rope.mscale_all_dim:
        return scale(rope.mscale) / scale(rope.mscale_all_dim)
    return scale(1.0)


def _longrope_attention_factor(rope: RopeConfig) -> float:
    """Temperature of the attention, applied to cosines and sines (LongRoPE as Phi-3 has it)."""
    if rope.attention_factor is not None:
        return rope.attention_factor
    return 1.0 if rope.factor <= 1 else math.sqrt(1 + math.log(rope.factor) / math.log(rope.original_context))


class RotaryEmbedding:
    """Tables of cosines and sines for all positions that have been asked for, grown by doubling.

    The sine table carries the sign of the rotation, so that turning is `x * cos + swap_halves(x) * sin`.
    """

    def __init__(
        self, rope: RopeConfig, head_dim: int, device: torch.device, dtype: torch.dtype, factors: Tensor | None = None
    ) -> None:
        self.half = head_dim // 2
        self._frequencies, self._scale = frequencies(rope, head_dim, factors)
        self._device, self._dtype = device, dtype
        self._tables = self._make(512)

    def _make(self, positions: int) -> tuple[Tensor, Tensor]:
        # Angles are taken in float32 whatever the model's dtype: bfloat16 cannot count past 256.
        with torch.inference_mode(False):  # the tables outlive the forward pass in which they are made
            angles = torch.outer(torch.arange(positions, dtype=torch.float32), self._frequencies)
            cos, sin = angles.cos() * self._scale, angles.sin() * self._scale
            return (
                torch.cat((cos, cos), dim=-1).to(self._device, self._dtype),
                torch.cat((-sin, sin), dim=-1).to(self._device, self._dtype),
            )

    def _reaching(self, positions: int) -> tuple[Tensor, Tensor]:
        """The tables, grown to `positions` rows at least; replaced as a whole: other threads may be reading."""
        if positions > self._tables[0].shape[0]:
            self._tables = self._make(max(positions, 2 * self._tables[0].shape[0]))
        return self._tables

    def reach(self, positions: int) -> None:
        """Has the tables hold so many positions."""
        self._reaching(positions)

    def at(self, start: int, count: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines of positions start … start + count - 1, each [count, 1, head_dim]."""
        cos, sin = self._reaching(start + count)
        stretch = slice(start, start + count)
        return cos[stretch].unsqueeze(1), sin[stretch].unsqueeze(1)

    def gather(self, positions: Tensor, most: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines of `positions` [batch, count], none above `most`: each [batch, count, 1, head_dim]."""
        cos, sin = self._reaching(most + 1)
        return cos[positions].unsqueeze(2), sin[positions].unsqueeze(2)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turns `x` [batch, new, heads, head_dim] by the angles whose cosines and signed sines are given.

    Where these are narrower than a head, its leading dimensions are turned and the others stay.
    """
    width = cos.shape[-1]
    if width < x.shape[-1]:
        return torch.cat((rotate(x[..., :width], cos, sin), x[..., width:]), dim=-1)
    return (x * cos).addcmul_(x.roll(width // 2, dims=-1), sin)
