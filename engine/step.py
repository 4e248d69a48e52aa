"""What all layers of one forward pass share: positions, rotations, masks, the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.attention import Backend, attend, causal_mask, note
from engine.caches import Cache
from engine.devices import upload
from engine.prompt_attention import attend_prompts, block_mask
from engine.rope import RotaryEmbedding

if TYPE_CHECKING:
    from engine.decode_attention import Places

Rotation = tuple[Tensor, Tensor]


class Step:
    """`new` tokens in each row, behind the `held` ones; masks and rotations are made when a layer first asks for them.

    Attributes:
        missing: rows of activations by which there are fewer than products take at once (`engine.layers.Linear`); with these
            the layers get [1, rows, width].
        alike: whether each token is to get, bit for bit, what it gets whatever comes with it (`attend_alike`).
        unpacked: whether packed weights are multiplied by as the bfloat16 matrices that they stand for.
        start: position of the first row's first new token.
    """

    def __init__(
        self,
        held: tuple[int, ...],
        new: int,
        cache: Cache | None,
        backend: Backend,
        device: torch.device,
        *,
        counts: tuple[int, ...] = (),
        prompt: bool = False,
        alike: bool = False,
        unpacked: bool = False,
        fewest: int = 1,
    ) -> None:
        """
        Args:
            counts: real tokens of each row; wanted with `alike`.
            fewest: rows of activations that the layers get at least (`fill`).
            prompt: whether the tokens are of prompts.
        """
        self.new, self.cache, self.backend = new, cache, backend
        self.alike, self.unpacked = alike, unpacked
        self.start = held[0]
        self._held, self._counts, self._prompt = held, counts, prompt
        self.missing = max(0, fewest - len(held) * new)
        self._end = max(held) + new
        self._positions: Tensor | None = None
        if held.count(self.start) != len(held):
            starts = upload(held, device).unsqueeze(1)
            self._positions = starts + torch.arange(new, device=device)
        self._device = device
        self._masks: dict[tuple[int, int], tuple[Tensor | None, bool]] = {}
        self._block_masks: dict[tuple[int, int, int, int], Tensor] = {}
        self._places: dict[tuple[int, int], Places] = {}
        self._rotations: dict[int, Rotation] = {}

    def fill(self, x: Tensor) -> Tensor:
        """Activations [batch, new, width] with the missing rows behind them, [1, rows, width]."""
        return F.pad(x.reshape(1, -1, x.shape[-1]), (0, 0, 0, self.missing)) if self.missing else x

    def real(self, x: Tensor) -> Tensor:
        """The other way round."""
        if not self.missing:
            return x
        return x.narrow(1, 0, x.shape[1] - self.missing).view(len(self._held), self.new, -1)

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

    def attend_alike(
        self,
        layer: int,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        *,
        window: int,
        scale: float | None,
        softcap: float,
    ) -> Tensor:
        """Writes a layer's new keys and values to the cache and attends; each query gets, bit for bit, what it gets however
        the tokens before it came, one by one or together, and whatever rows are beside it.

        Tokens of prompts and generated ones go different ways, so a token must always be the same of the two.

        Args:
            queries, keys, values: [batch, heads, new, width] of the new positions.

        Returns:
            [batch, query_heads, new, value_dim]
        """
        first = 0 if self.cache is None else self.cache.first(layer)
        if self._prompt:
            if self.cache is not None:
                keys, values = self.cache.update(layer, keys, values)

            def mask_of(begin: int, end: int, lowest: int) -> Tensor:
                key = (begin, end, lowest, window)
                if key not in self._block_masks:
                    self._block_masks[key] = block_mask(*key, self._device)
                return self._block_masks[key]

            return attend_prompts(
                queries, keys, values, self._held, self._counts, mask_of,
                first=first, window=window, scale=scale, softcap=softcap,
            )  # fmt: skip
        if softcap:
            if self.cache is not None:
                keys, values = self.cache.update(layer, keys, values)
            return self._attend_one_by_one(queries, keys, values, first, window, scale, softcap)
        from engine.decode_attention import attend_rows

        places = None
        if self.cache is not None:
            keys, values, places = self.cache.update_in_place(layer, keys, values)
        if places is None:
            keys, values, places = self._in_rows(keys, values, first)
        note("alike")
        return attend_rows(queries, keys, values, places, self._held, self._counts, window=window, scale=scale)

    def _in_rows(self, keys: Tensor, values: Tensor, first: int) -> tuple[Tensor, Tensor, Places]:
        """Keys and values [batch, kv_heads, slots, width], and where in them positions are."""
        from engine.decode_attention import Places

        batch = keys.shape[0]
        row_slots = keys.stride(0) // keys.stride(2)
        if batch > 1 and any(each.stride(0) != row_slots * each.stride(2) for each in (keys, values)):
            keys, values = keys.contiguous(), values.contiguous()
            row_slots = keys.stride(0) // keys.stride(2)
        key = (row_slots if batch > 1 else 0, first)
        if key not in self._places:
            self._places[key] = Places.in_rows(batch, row_slots, first, first + keys.shape[2])
        return keys, values, self._places[key]

    def _attend_one_by_one(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        first: int,
        window: int,
        scale: float | None,
        softcap: float,
    ) -> Tensor:
        """Each query over the keys that it sees and no others."""
        mixed = queries.new_zeros((*queries.shape[:3], values.shape[-1]))
        for row, (start, count) in enumerate(zip(self._held, self._counts, strict=True)):
            for at in range(count):
                end = start + at + 1
                low = max(first, end - window) if window else first
                seen = slice(low - first, end - first)
                mixed[row : row + 1, :, at : at + 1] = attend(
                    queries[row : row + 1, :, at : at + 1], keys[row : row + 1, :, seen], values[row : row + 1, :, seen],
                    None, False, scale=scale, softcap=softcap,
                )  # fmt: skip
        return mixed
