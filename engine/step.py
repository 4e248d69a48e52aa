"""What all layers of one forward pass share: positions, rotations, masks, the cache."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.attention import Backend, causal_mask
from engine.caches import Cache
from engine.devices import upload
from engine.layers import ALIKE
from engine.rope import RotaryEmbedding

Rotation = tuple[Tensor, Tensor]


class Step:
    """`new` tokens in each row, behind the `held` ones; masks and rotations are made when a layer first asks for them.

    Attributes:
        alone: whether these are a few tokens of one sequence, each to be computed as if it came alone.
        start: position of the first row's first new token.
    """

    def __init__(
        self, held: tuple[int, ...], new: int, cache: Cache | None, backend: Backend, device: torch.device
    ) -> None:
        self.new, self.cache, self.backend = new, cache, backend
        self.alone = len(held) == 1 and 0 < new <= ALIKE and cache is not None
        self.start = held[0]
        self._end = max(held) + new
        self._positions: Tensor | None = None
        if held.count(self.start) != len(held):
            starts = upload(held, device).unsqueeze(1)
            self._positions = starts + torch.arange(new, device=device)
        self._device = device
        self._masks: dict[tuple[int, int], tuple[Tensor | None, bool]] = {}
        self._rotations: dict[int, Rotation] = {}

    def rotation(self, rotary: RotaryEmbedding) -> Rotation:
        """Cosines and sines of the new positions."""
        found = self._rotations.get(id(rotary))
        if found is None:
            if self._positions is None:
                found = rotary.at(self.start, self.new)
            else:
                found = rotary.gather(self._positions, self._end - 1)
            self._rotations[id(rotary)] = found
        return found

    def mask(self, window: int, layer: int) -> tuple[Tensor | None, bool]:
        """The mask for `attend`, and whether it is plainly causal instead.

        Args:
            window: positions that a query sees, its own among them; 0: all.
            layer: whose cache it is for: the first slot of a sliding one is not position 0.
        """
        first = 0 if self.cache is None else self.cache.first(layer)
        key = (window, first)
        if key not in self._masks:
            self._masks[key] = self._make_mask(window, first)
        return self._masks[key]

    def _make_mask(self, window: int, first: int) -> tuple[Tensor | None, bool]:
        if self._positions is None:
            seen_whole = window == 0 or self._end - first <= window
            if self.new == 1 and seen_whole:
                return None, False
            if self.start == first and seen_whole:
                return None, True
            positions = torch.arange(self.start, self._end, device=self._device).unsqueeze(0)
        else:
            positions = self._positions
        return causal_mask(positions, self._end, window, first), False
