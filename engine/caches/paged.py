"""A cache in blocks: rows of any lengths without gaps, shared prefixes and forks without copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from engine.attention import Backend, note
from engine.caches.base import Cache
from engine.caches.blocks import BlockManager, BlockTable
from engine.config import ModelConfig
from engine.devices import has_triton, upload
from engine.errors import CacheError
from engine.paged_attention import MOST_QUERIES, paged_attend

if TYPE_CHECKING:
    from engine.decode_attention import Places

BLOCK_SIZE = 16


class BlockPool:
    """The memory of blocks, shared by all caches made on it.

    Attributes:
        manager: who holds which block.
        most: blocks it may grow to; 0: it grows as it must.
    """

    def __init__(
        self, config: ModelConfig, device: torch.device, dtype: torch.dtype, block_size: int = BLOCK_SIZE, most: int = 0
    ) -> None:
        self.config, self.most = config, most
        self.manager = BlockManager(block_size)
        widths = (config.head_dim, config.value_dim)
        # [block, kv_heads, block_size, width]; a layer's keys and values each in one tensor.  The last block is `spare`.
        self.tensors = [
            tuple(torch.zeros((1, config.kv_heads, block_size, width), device=device, dtype=dtype) for width in widths)
            for _ in range(config.layers)
        ]
        if most:
            self._grow(most)

    def make_available(self, blocks: int) -> None:
        """Grows, if it may, until so many blocks are available.

        Raises:
            CacheError: it may not; nothing has changed.
        """
        missing = blocks - self.manager.available
        if missing <= 0:
            return
        if self.most:
            raise CacheError(
                f"{blocks} blocks are needed and {self.manager.available} of {self.most} are free: finish or cancel "
                "sequences, or make the cache larger"
            )
        self._grow(max(missing, self.manager.blocks // 2, 8))

    def copy(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Copies the contents of blocks, (from, to)."""
        if not pairs:
            return
        sources, targets = zip(*pairs, strict=True)
        for pair in self.tensors:
            for tensor in pair:
                tensor[list(targets)] = tensor[list(sources)]

    def clear(self, blocks: Sequence[int]) -> None:
        """Writes zeros, which nobody finds any more: a masked NaN would still spoil what the next row mixes."""
        for block in blocks:
            self.manager.forget(block)
        for pair in self.tensors:
            for tensor in pair:
                tensor[list(blocks)] = 0

    @property
    def spare(self) -> int:
        """The block that belongs to nobody: padding is written there, and read from there."""
        return self.manager.blocks

    @property
    def nbytes(self) -> int:
        """Bytes of all blocks."""
        return sum(tensor.nbytes for pair in self.tensors for tensor in pair)

    def _grow(self, blocks: int) -> None:
        def grown(tensor: Tensor) -> Tensor:
            if self.manager.blocks:
                return torch.cat((tensor, tensor.new_zeros((blocks, *tensor.shape[1:]))))
            # Zeros that nobody has written take no memory of the host yet: a first allocation must not copy them.
            return tensor.new_zeros((1 + blocks, *tensor.shape[1:]))

        self.tensors = [tuple(map(grown, pair)) for pair in self.tensors]
        self.manager.grow(blocks)


class PagedCache(Cache):
    """Rows as tables of blocks.

    `fork` shares blocks instead of copying them, `reuse` takes up what earlier rows of the same pool have left.  A cache
    gives its blocks back when it is closed or goes out of use.
    """

    name: ClassVar[str] = "paged"
    options: ClassVar[tuple[str, ...]] = ("block_size", "pool")

    def __init__(
        self,
        config: ModelConfig,
        batch: int,
        device: torch.device,
        dtype: torch.dtype,
        capacity: int = 0,
        *,
        block_size: int = BLOCK_SIZE,
        pool: BlockPool | None = None,
    ) -> None:
        """`capacity` positions a row are the most that a pool of its own holds; 0: it grows as it must."""
        super().__init__(config, batch, device, dtype)
        most = batch * -(-capacity // block_size) if capacity else 0
        self.pool = BlockPool(config, device, dtype, block_size, most) if pool is None else pool
        self.tables = [BlockTable() for _ in range(batch)]
        self._owns_blocks = True
        self._index: Tensor | None = None
        self._held: Tensor | None = None
        self._places: Tensor | None = None
        self._gathered: Tensor | None = None
        self._in_place: Places | None = None

    @classmethod
    def over(cls, pool: BlockPool, tables: Sequence[BlockTable], lengths: Sequence[int]) -> Self:
        """Rows that belong to somebody else, put together for a step: what it writes stays in `tables`, and they keep
        their blocks when this cache goes out of use."""
        keys = pool.tensors[0][0]
        cache = cls(pool.config, len(tables), keys.device, keys.dtype, pool=pool)
        cache.tables, cache.lengths, cache._owns_blocks = list(tables), tuple(lengths), False
        return cache

    def __del__(self) -> None:
        if getattr(self, "_owns_blocks", False):
            self.close()

    def close(self) -> None:
        """Gives all blocks back; the rows are empty."""
        for table in self.tables:
            self.pool.manager.truncate(table, 0)
        self.lengths = (0,) * self.batch

    @property
    def capacity(self) -> int:
        return min(len(table.blocks) for table in self.tables) * self.pool.manager.block_size

    @property
    def nbytes(self) -> int:
        """Bytes of the pool, which other caches may share."""
        return self.pool.nbytes

    def reuse(self, row: int, tokens: Sequence[int]) -> int:
        """Begins an empty row with what the pool holds of `tokens`; the number of positions that need not be computed.

        The last token is always left to compute, since its logits are wanted.
        """
        if self.lengths[row]:
            raise CacheError(f"row {row} holds {self.lengths[row]} positions: only an empty row can take up a prefix")
        table = self.pool.manager.reuse(tokens[:-1])
        self.tables[row] = table
        found = len(table.blocks) * self.pool.manager.block_size
        self.lengths = (*self.lengths[:row], found, *self.lengths[row + 1 :])
        return found

    def remember(self, row: int, tokens: Sequence[int]) -> None:
        """Lets later rows find what this one holds; `tokens` are those of its positions, from the first on."""
        self.pool.manager.remember(self.tables[row], tokens[: self.lengths[row]])

    def reserve(self, positions: int) -> None:
        self._extend([max(0, positions - length) for length in self.lengths])

    def open(self, new: int, counts: Sequence[int] | None = None) -> None:
        """`begin` for steps that know from the tables where to write and read."""
        self._extend([new] * self.batch if counts is None else counts)
        self._new, self._slots = new, None

    def begin(self, new: int, counts: Sequence[int] | None = None) -> None:
        self.open(new, counts)
        size = self.pool.manager.block_size
        width = -(-(self.longest + new) // size)
        # Rows that are shorter end in the spare block, which the mask hides.
        spare = self.pool.spare
        rows = [table.blocks[:width] + [spare] * (width - len(table.blocks)) for table in self.tables]
        self._index = upload(rows, self.device)
        self._held = upload(self.lengths, self.device)
        positions = self._held.unsqueeze(1) + torch.arange(new, device=self.device)
        blocks = self._index.gather(1, positions // size)
        if counts is not None and min(counts) < new:
            # Not into a row's own blocks: others may share the one in which it ends.
            padding = torch.arange(new, device=self.device) >= upload(counts, self.device).unsqueeze(1)
            blocks.masked_fill_(padding, spare)
        # Where each head's positions lie, the pool seen as [blocks · heads · block_size, width]; all layers have the same.
        heads = torch.arange(self.config.kv_heads, device=self.device).unsqueeze(1)
        of_heads = blocks.unsqueeze(1) * self.config.kv_heads + heads
        self._places = (of_heads * size + (positions % size).unsqueeze(1)).flatten()
        self._gathered = self._in_place = None

    def advance(self, counts: int | Sequence[int]) -> None:
        super().advance(counts)
        self._trim()

    def truncate(self, lengths: int | Sequence[int]) -> None:
        super().truncate(lengths)
        self._trim()

    def _trim(self) -> None:
        for table, length in zip(self.tables, self.lengths, strict=True):
            self.pool.manager.truncate(table, length)

    def _extend(self, new: Sequence[int]) -> None:
        manager = self.pool.manager
        rows = list(zip(self.tables, self.lengths, new, strict=True))
        self.pool.make_available(sum(manager.needed(*row) for row in rows))
        for row in rows:
            self.pool.copy(manager.extend(*row))

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
        by_kernel = queries.is_cuda and has_triton()
        if self._new > MOST_QUERIES or not (backend == "paged" or (backend == "sdpa" and by_kernel)):
            return None
        assert self._index is not None and self._held is not None
        self._write(layer, keys, values)
        note("paged triton" if by_kernel else "paged torch")
        all_keys, all_values = self.pool.tensors[layer]
        return paged_attend(
            queries, all_keys, all_values, self._index, self._held, self.longest,
            window=window, scale=scale, softcap=softcap,
        )  # fmt: skip

    def update_in_place(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Places | None]:
        if self.device.type != "cpu":
            return super().update_in_place(layer, keys, values)
        self._check(keys, values)
        self._write(layer, keys, values)
        if self._in_place is None:
            self._in_place = self._find_places()
        all_keys, all_values = self.pool.tensors[layer]
        return all_keys, all_values, self._in_place

    def _find_places(self) -> Places:
        """The slots of every row's positions, the pool seen as one head's: a block's other heads lie between."""
        from engine.decode_attention import Places

        assert self._index is not None
        size = self.pool.manager.block_size
        of_blocks = self._index * (self.config.kv_heads * size)
        slots = (of_blocks.unsqueeze(-1) + torch.arange(size)).flatten()
        return Places(slots.numpy(), np.arange(self.batch) * (self._index.shape[1] * size))

    def _write(self, layer: int, keys: Tensor, values: Tensor) -> None:
        assert self._places is not None
        for tensor, fresh in zip(self.pool.tensors[layer], (keys, values), strict=True):
            width = tensor.shape[-1]
            if width:
                tensor.view(-1, width).index_copy_(0, self._places, fresh.reshape(-1, width))

    def _store(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        assert self._index is not None
        self._write(layer, keys, values)
        if self._gathered is None:
            heads = torch.arange(self.config.kv_heads, device=self.device).unsqueeze(1)
            self._gathered = (self._index.unsqueeze(1) * self.config.kv_heads + heads).flatten()
        all_keys, all_values = self.pool.tensors[layer]
        return self._rows_of(all_keys, self._gathered), self._rows_of(all_values, self._gathered)

    def _rows_of(self, tensor: Tensor, places: Tensor) -> Tensor:
        """What the rows hold, [batch, kv_heads, slots, width]: one copy, a head of a block at a time."""
        blocks, heads, size, width = tensor.shape
        rows = tensor.view(blocks * heads, size * width).index_select(0, places)
        slots = places.shape[0] // (self.batch * heads) * size
        return rows.view(self.batch, heads, slots, width).narrow(2, 0, self.longest + self._new)

    def _take(self, rows: Sequence[int]) -> Self:
        copy = type(self)(self.config, len(rows), self.device, self.dtype, pool=self.pool)
        copy.tables = [self.pool.manager.fork(self.tables[row], self.lengths[row]) for row in rows]
        return copy
