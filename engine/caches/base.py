"""What every key/value cache can do.

A forward pass opens a step with `begin`, hands each layer's new keys and values to `update`, and closes the step with
`advance`.  Until `advance` the cache has not moved, so a step that fails leaves it as it was.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Self

import torch
from torch import Tensor

from engine.attention import Backend
from engine.config import ModelConfig
from engine.devices import upload
from engine.errors import CacheError, TrainingError

if TYPE_CHECKING:
    from engine.decode_attention import Places


def write_slots(tensor: Tensor, slots: Tensor, fresh: Tensor) -> None:
    """Writes `fresh` [batch, heads, new, width] into `tensor` [batch, heads, capacity, width] at `slots`, int64 [batch, new].

    Whole heads are copied: `scatter_`, which goes number by number, takes 20 to 100 times as long on a CPU.
    """
    batch, heads, capacity, width = tensor.shape
    if not width:
        return
    of_heads = torch.arange(batch * heads, device=tensor.device).view(batch, heads, 1)
    rows = (of_heads * capacity + slots.unsqueeze(1)).flatten()
    tensor.view(-1, width).index_copy_(0, rows, fresh.reshape(-1, width))


class Cache(ABC):
    """Keys and values of `batch` rows; slot j of a row holds the row's position `first` + j, as a rule j.

    Attributes:
        name: what `engine.caches.create` calls this kind.
        options: keyword arguments of this kind alone.
        batch: number of rows.
        lengths: committed positions of each row.
    """

    name: ClassVar[str]
    options: ClassVar[tuple[str, ...]] = ()

    def __init__(self, config: ModelConfig, batch: int, device: torch.device, dtype: torch.dtype) -> None:
        if batch < 1:
            raise CacheError(f"a cache for {batch} rows: ask for at least 1")
        self.config, self.batch, self.device, self.dtype = config, batch, device, dtype
        self.lengths: tuple[int, ...] = (0,) * batch
        self._new = 0
        self._slots: Tensor | None = None

    @property
    def longest(self) -> int:
        """Committed positions of the longest row."""
        return max(self.lengths)

    @property
    def is_uniform(self) -> bool:
        """Whether all rows have the same length."""
        return self.batch == 1 or self.lengths.count(self.lengths[0]) == self.batch

    @abstractmethod
    def reserve(self, positions: int) -> None:
        """Makes room for `positions` slots in every row.

        Raises:
            CacheError: this cache does not grow that far; it stays as it was.
        """

    @property
    @abstractmethod
    def capacity(self) -> int:
        """Slots of each row that are allocated now."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes allocated for keys and values now."""

    def first(self, layer: int) -> int:
        """Position in slot 0 of what `update` returns for `layer` in the step that is open."""
        return 0

    @property
    def together(self) -> int:
        """New positions that one step may take, at least 1, so that what each reads is what it reads in a step of its own,
        and that what is cut off again has left nothing behind."""
        return self.config.context_length

    @abstractmethod
    def _store(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Writes one layer's step and returns [batch, kv_heads, longest + new - first, head_dim or value_dim]."""

    @abstractmethod
    def _take(self, rows: Sequence[int]) -> Self:
        """A cache of the same kind with copies of `rows`."""

    def begin(self, new: int, counts: Sequence[int] | None = None) -> None:
        """Opens a step of `new` positions after the end of each row.

        `counts` are those of each row that will be committed at most, where that is known: the others take no room in
        caches that have it by the row.
        """
        self.reserve(self.longest + new)
        self._new = new
        self._slots = None
        if not self.is_uniform:
            ends = upload(self.lengths, self.device)
            self._slots = ends.unsqueeze(1) + torch.arange(new, device=self.device)

    def update(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Writes a layer's new keys and values, [batch, kv_heads, new, head_dim and value_dim], behind those of every row.

        Returns:
            The layer's keys and values from position `first` on, the new ones included: [batch, kv_heads,
            longest + new - first, head_dim and value_dim].  Slots above a row's own end hold nothing of meaning; the
            mask hides them.

        Raises:
            TrainingError: the tensors carry autograd history.
            CacheError: the step was not opened, or is of another width.
        """
        self._check(keys, values)
        return self._store(layer, keys, values)

    def _check(self, keys: Tensor, values: Tensor) -> None:
        if keys.requires_grad or values.requires_grad:
            raise TrainingError("keys with autograd history: a cache holds none; call the model in inference mode")
        if keys.shape[2] != self._new:
            raise CacheError(f"{keys.shape[2]} new positions in a step opened for {self._new}: call begin first")

    def update_in_place(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Places | None]:
        """As `update`, for kernels that read each row's positions where they lie.

        Returns:
            Keys and values, and where in them the positions are; `None`: as `update` returns them.
        """
        return *self.update(layer, keys, values), None

    def attend(
        self,
        layer: int,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        backend: Backend,
        *,
        window: int,
        scale: float | None,
        softcap: float,
    ) -> Tensor | None:
        """Writes as `update` and attends over what the cache holds where it lies; `None`, and nothing is written, where
        this cache cannot, or `backend` is another.

        Args:
            queries: [batch, query_heads, new, head_dim]; the others as `engine.paged_attention.paged_attend` has them.
        """
        return None

    def advance(self, counts: int | Sequence[int]) -> None:
        """Closes the step: the first `counts` of the new positions (of every row, or row by row) are committed."""
        counts = (counts,) * self.batch if isinstance(counts, int) else tuple(counts)
        if len(counts) != self.batch or min(counts) < 0 or max(counts) > self._new:
            raise CacheError(f"cannot commit {counts} of a step of {self._new} positions in {self.batch} rows")
        self.lengths = tuple(length + count for length, count in zip(self.lengths, counts, strict=True))
        self._new = 0

    def rollback(self, positions: int | Sequence[int]) -> None:
        """Forgets the last `positions` of every row, or of each row its own number."""
        positions = (positions,) * self.batch if isinstance(positions, int) else tuple(positions)
        if len(positions) != self.batch:
            raise CacheError(f"{len(positions)} rollbacks for {self.batch} rows")
        self.truncate([length - back for length, back in zip(self.lengths, positions, strict=True)])

    def truncate(self, lengths: int | Sequence[int]) -> None:
        """Shortens every row to `lengths`, or each row to its own length."""
        lengths = (lengths,) * self.batch if isinstance(lengths, int) else tuple(lengths)
        if len(lengths) != self.batch:
            raise CacheError(f"{len(lengths)} lengths for {self.batch} rows")
        if any(not 0 <= wanted <= held for wanted, held in zip(lengths, self.lengths, strict=True)):
            raise CacheError(f"cannot shorten rows of {self.lengths} positions to {lengths}")
        self.lengths = lengths

    def reset(self) -> None:
        """Forgets everything; the memory is kept."""
        self.truncate(0)

    def fork(self, rows: Sequence[int] | None = None) -> Self:
        """An independent copy, of all rows or of `rows` in that order (rows may repeat: beams; or be left out)."""
        chosen = list(range(self.batch)) if rows is None else list(rows)
        if any(not 0 <= row < self.batch for row in chosen):
            raise CacheError(f"rows {chosen} of a cache of {self.batch}")
        copy = self._take(chosen)
        copy.lengths = tuple(self.lengths[row] for row in chosen)
        return copy
