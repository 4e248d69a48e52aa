"""The token trie as flat arrays in preorder, so that a kernel walks it with one index and skips with one look-up."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from constrained.vocabulary.errors import VocabularyError
from constrained.vocabulary.token_table import TokenTable

LONGEST_TOKEN = np.iinfo(np.uint16).max


@dataclass(frozen=True, eq=False)
class Trie:
    """A byte trie over the tokens that are text and have at least one byte; node 0 is the root.

    Nodes are in preorder with children in ascending byte order, so the subtree of `v` is `v .. end[v] - 1`, the first
    child of `v` is `v + 1`, and the next sibling of a child `c` is `end[c]` as long as that is below `end[v]`.
    All arrays are read-only and C-contiguous; n is the number of nodes.

    Attributes:
        byte: uint8[n], the byte on the edge into the node (0 for the root).
        end: int32[n], exclusive end of the node's subtree.
        depth: uint16[n], bytes from the root.
        height: uint16[n], bytes of the longest path below the node (0 for a leaf).
        token_start: int32[n + 1], the tokens that end at `v` are `token_ids[token_start[v]:token_start[v + 1]]`; those
            of its whole subtree are `token_ids[token_start[v]:token_start[end[v]]]`.
        token_ids: int32[tokens], ids in preorder; tokens of the same bytes by ascending id, byte-fallback tokens last.
    """

    byte: NDArray[np.uint8]
    end: NDArray[np.int32]
    depth: NDArray[np.uint16]
    height: NDArray[np.uint16]
    token_start: NDArray[np.int32]
    token_ids: NDArray[np.int32]

    def __post_init__(self) -> None:
        self._freeze()

    def __setstate__(self, state: dict[str, NDArray[np.generic]]) -> None:
        self.__dict__.update(state)
        self._freeze()  # numpy's pickles forget that an array was read-only

    def _freeze(self) -> None:
        for field in fields(self):
            getattr(self, field.name).flags.writeable = False

    def __len__(self) -> int:
        return len(self.byte)

    def is_proper_prefix(self, data: bytes) -> bool:
        """Whether some token starts with `data` and goes on."""
        if not data:
            return len(self) > 1
        node = self._begins.get(data[0], 0)
        if not node:
            return False
        for byte in data[1:]:
            child, end = node + 1, int(self.end[node])
            while child < end and self.byte[child] != byte:
                child = int(self.end[child])
            if child >= end:
                return False
            node = child
        return int(self.end[node]) > node + 1

    @cached_property
    def _begins(self) -> dict[int, int]:
        """The root's children by their bytes: it has many, the other nodes few."""
        children, node = dict[int, int](), 1
        while node < len(self):
            children[int(self.byte[node])] = node
            node = int(self.end[node])
        return children

    def shortest_tokenization(self, data: bytes) -> list[int] | None:
        """The fewest tokens whose bytes joined are `data`; None if no tokens make it up."""
        from constrained.kernels.tokenization import shortest_tokenization

        out = np.empty(len(data), dtype=np.int32)
        source = np.frombuffer(data, dtype=np.uint8)
        count = shortest_tokenization(source, self.byte, self.end, self.token_start, self.token_ids, out)
        return None if count < 0 else out[:count].tolist()


def build_trie(table: TokenTable) -> Trie:
    """Build the trie by sorting the tokens: in sorted order each token adds one unbranched run of new nodes.

    Raises:
        VocabularyError: a token of more than 65,535 bytes.
    """
    lengths = np.diff(table.offsets)
    if len(lengths) and int(lengths.max()) > LONGEST_TOKEN:
        token = int(lengths.argmax())
        raise VocabularyError(f"token {token} has {lengths[token]} bytes; at most {LONGEST_TOKEN} are supported")
    ids = _sorted_ids(table, lengths)
    starts, lengths = table.offsets[ids], lengths[ids]
    shared = _shared_with_previous(table.blob, starts, lengths)
    added = lengths - shared
    run_end = np.cumsum(added) + 1  # the root comes first
    nodes = int(run_end[-1]) if len(ids) else 1

    within = np.arange(1, nodes) - np.repeat(run_end - added, added)
    depth = np.zeros(nodes, dtype=np.int64)
    depth[1:] = np.repeat(shared, added) + within + 1
    byte = np.zeros(nodes, dtype=np.uint8)
    byte[1:] = table.blob[np.repeat(starts + shared, added) + within]
    end, height = _ends_and_heights(depth)

    # A token ends at the last node of its run, or, where it adds nothing, at the node of the equal token before it.
    counts = np.bincount(run_end - 1, minlength=nodes)
    token_start = np.zeros(nodes + 1, dtype=np.int32)
    np.cumsum(counts, out=token_start[1:])
    return Trie(byte, end, depth.astype(np.uint16), height, token_start, ids.astype(np.int32))


def _sorted_ids(table: TokenTable, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ids of the tokens in the trie, by (bytes, fallback, id)."""
    ids = np.flatnonzero(table.text & (lengths > 0))
    ids = np.concatenate([ids[~table.fallback[ids]], ids[table.fallback[ids]]])  # the sort is stable
    whole, ends = table.blob.tobytes(), table.offsets.tolist()
    words = [whole[ends[i] : ends[i + 1]] for i in ids.tolist()]
    order = sorted(range(len(words)), key=words.__getitem__)
    return ids[order]


def _shared_with_previous(
    blob: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> NDArray[np.int64]:
    """int64[tokens]: how many leading bytes each sorted token shares with the token before it."""
    shared = np.zeros(len(starts), dtype=np.int64)
    pairs = np.arange(1, len(starts))
    limit = np.minimum(lengths[1:], lengths[:-1])
    at = 0
    while len(pairs):
        pairs = pairs[limit[pairs - 1] > at]
        pairs = pairs[blob[starts[pairs] + at] == blob[starts[pairs - 1] + at]]
        at += 1
        shared[pairs] = at
    return shared


def _ends_and_heights(depth: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.uint16]]:
    """Subtree ends and heights from the preorder depths, one level at a time from the deepest up."""
    nodes = len(depth)
    end = np.arange(1, nodes + 1, dtype=np.int32)
    height = np.zeros(nodes, dtype=np.uint16)
    by_depth = np.argsort(depth, kind="stable")
    bounds = np.searchsorted(depth[by_depth], np.arange(int(depth.max()) + 2))
    for level in range(len(bounds) - 2, 0, -1):
        children = by_depth[bounds[level] : bounds[level + 1]]
        above = by_depth[bounds[level - 1] : bounds[level]]
        parents = above[np.searchsorted(above, children) - 1]
        np.maximum.at(end, parents, end[children])
        np.maximum.at(height, parents, height[children] + np.uint16(1))
    return end, height
