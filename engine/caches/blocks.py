"""Blocks of a paged cache: who holds which, what is in them, which may go.  Numbers only; the tensors are `paged`'s.

A block holds the keys and values of `block_size` consecutive positions of a row, over all layers (PagedAttention, Kwon et
al. 2023).  Rows share blocks: each row that has one in its table counts as a reference, and a block with several is
copied before it is written.  A full block may be given a key that says what tokens it holds and what came before them;
it then stays findable after its last row has left, until its room is needed.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.errors import CacheError

Key = bytes


def content_key(before: Key, tokens: Sequence[int], generated: int = 0) -> Key:
    """The key of a block of `tokens`, the last `generated` of which were computed as generated ones, behind the block with
    key `before` (empty at the beginning)."""
    digest = hashlib.blake2b(before, digest_size=16)
    digest.update(b"".join(token.to_bytes(8, "little") for token in (*tokens, *([generated] if generated else []))))
    return digest.digest()


@dataclass
class BlockTable:
    """The blocks of one row, in order; the last may be partly filled.

    Attributes:
        keys: those of its first full blocks, as far as they were worked out.
    """

    blocks: list[int] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)


class BlockManager:
    """Hands out blocks.

    Attributes:
        block_size: positions of a block.
        references: for each block, how many tables hold it.
    """

    def __init__(self, block_size: int, blocks: int = 0) -> None:
        if block_size < 1:
            raise CacheError(f"blocks of {block_size} positions: at least 1")
        self.block_size = block_size
        self.references: list[int] = []
        self._free: deque[int] = deque()
        self._key_of: dict[int, Key] = {}
        self._block_of: dict[Key, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()
        self.grow(blocks)

    @property
    def blocks(self) -> int:
        """All blocks."""
        return len(self.references)

    @property
    def available(self) -> int:
        """Blocks that no table holds: free ones, and those kept only for what is in them."""
        return len(self._free) + len(self._idle)

    @property
    def used(self) -> int:
        """Blocks that tables hold, each counted once however many do."""
        return self.blocks - self.available

    @property
    def kept(self) -> int:
        """Blocks that no table holds and that can be found by what is in them."""
        return len(self._idle)

    def grow(self, blocks: int) -> None:
        """Adds free blocks."""
        first = len(self.references)
        self.references.extend([0] * blocks)
        self._free.extend(range(first, first + blocks))

    def needed(self, table: BlockTable, length: int, new: int) -> int:
        """Blocks that `extend` would take."""
        more = max(0, -(-(length + new) // self.block_size) - len(table.blocks))
        return more + (1 if new and self._must_copy(table, length) else 0)

    def extend(self, table: BlockTable, length: int, new: int) -> list[tuple[int, int]]:
        """Makes positions length … length + new - 1 writable; no block but the last and new ones is touched.

        Returns:
            (from, to) for each block whose contents must be copied, because other tables hold it too.

        Raises:
            CacheError: not enough blocks; nothing has changed.
        """
        needed = self.needed(table, length, new)
        if needed > self.available:
            raise CacheError(f"{needed} blocks are needed and {self.available} of {self.blocks} are free: finish or "
                             "cancel sequences, or make the cache larger")  # fmt: skip
        copies = []
        if new and length % self.block_size:
            at = length // self.block_size
            last = table.blocks[at]
            if self.references[last] > 1:
                fresh = self._take()
                table.blocks[at] = fresh
                self.references[last] -= 1
                copies.append((last, fresh))
            else:
                self.forget(last)  # what is written next is not what its key says
        while len(table.blocks) * self.block_size < length + new:
            table.blocks.append(self._take())
        return copies

    def truncate(self, table: BlockTable, length: int) -> None:
        """Gives back the blocks behind position `length`."""
        keep = -(-length // self.block_size)
        for block in table.blocks[keep:]:
            self._release(block)
        del table.blocks[keep:]
        del table.keys[length // self.block_size :]

    def fork(self, table: BlockTable, length: int) -> BlockTable:
        """Another table with the same first `length` positions."""
        shared = table.blocks[: -(-length // self.block_size)]
        for block in shared:
            self.references[block] += 1
        return BlockTable(list(shared), table.keys[: length // self.block_size])

    def remember(self, table: BlockTable, tokens: Sequence[int], prompt: int | None = None) -> None:
        """Gives the full blocks of a row that begins with `tokens` their keys, so that `reuse` finds them.

        `tokens` are those of the row's positions; a table is not to be remembered for others before it is truncated.  Of
        these and of what is looked for, the first `prompt` are a prompt's and the others were generated, which is another
        content even where the tokens are the same; `None`: it is all the same.
        """
        known = len(table.keys)
        self._extend_keys(table.keys, tokens, prompt, min(len(tokens) // self.block_size, len(table.blocks)))
        for block, key in zip(table.blocks[known:], table.keys[known:], strict=False):
            if key not in self._block_of and block not in self._key_of:
                self._block_of[key], self._key_of[block] = block, key

    def reuse(self, tokens: Sequence[int], prompt: int | None = None) -> BlockTable:
        """A table of the full blocks, from the beginning on, whose contents are those of `tokens`."""
        table = BlockTable()
        self.reuse_more(table, tokens, prompt)
        return table

    def reuse_more(self, table: BlockTable, tokens: Sequence[int], prompt: int | None = None) -> int:
        """Puts the blocks that are known to continue a table of full blocks behind them; the number of blocks."""
        before = len(table.blocks)
        found, keys = self._find(table.keys, before, tokens, prompt)
        for block in found:
            self._idle.pop(block, None)
            self.references[block] += 1
        table.blocks.extend(found)
        table.keys[:] = keys[: len(table.blocks)]
        return len(found)

    def held_by_others(self, tokens: Sequence[int], prompt: int | None = None) -> int:
        """Blocks that `reuse` would find and that some table holds, so that they take no room."""
        found, _ = self._find([], 0, tokens, prompt)
        return sum(self.references[block] > 0 for block in found)

    def _find(
        self, keys: Sequence[Key], blocks: int, tokens: Sequence[int], prompt: int | None
    ) -> tuple[list[int], list[Key]]:
        """The known blocks of `tokens` behind its first `blocks`, and the keys of all; `keys` are the known ones."""
        found, keys, size = list[int](), list(keys), self.block_size
        for at in range(blocks, len(tokens) // size):
            self._extend_keys(keys, tokens, prompt, at + 1)
            block = self._block_of.get(keys[at])
            if block is None:
                break
            found.append(block)
        return found, keys

    def _extend_keys(self, keys: list[Key], tokens: Sequence[int], prompt: int | None, blocks: int) -> None:
        """Works out the keys of the first `blocks` blocks of `tokens` that are not among `keys` yet."""
        size = self.block_size
        for at in range(len(keys), blocks):
            begin, end = at * size, (at + 1) * size
            generated = 0 if prompt is None else end - max(begin, min(end, prompt))
            keys.append(content_key(keys[-1] if keys else b"", tokens[begin:end], generated))

    def _must_copy(self, table: BlockTable, length: int) -> bool:
        return bool(length % self.block_size) and self.references[table.blocks[length // self.block_size]] > 1

    def _take(self) -> int:
        if self._free:
            block = self._free.popleft()
        else:
            block, _ = self._idle.popitem(last=False)  # the one that has been without a row for longest
            self.forget(block)
        self.references[block] = 1
        return block

    def _release(self, block: int) -> None:
        self.references[block] -= 1
        if self.references[block] == 0:
            if block in self._key_of:
                self._idle[block] = None
            else:
                self._free.append(block)

    def forget(self, block: int) -> None:
        """Takes a block's key from it, because what is in it changes."""
        key = self._key_of.pop(block, None)
        if key is not None:
            del self._block_of[key]

    def check(self, tables: Sequence[BlockTable]) -> None:
        """Raises `CacheError` unless references are those of `tables` and every block is in exactly one state."""
        counts = [0] * self.blocks
        for table in tables:
            for block in table.blocks:
                counts[block] += 1
        if counts != self.references:
            raise CacheError("references are not those of the tables: a block leaks, or is held without being counted")
        unheld = {block for block, count in enumerate(counts) if count == 0}
        if set(self._free) | set(self._idle) != unheld or self.available != len(unheld):
            raise CacheError("a block is neither held, nor idle, nor free, or more than one of these")
        if any(self._block_of[key] != block for block, key in self._key_of.items()):
            raise CacheError("a key and its block do not name each other")
