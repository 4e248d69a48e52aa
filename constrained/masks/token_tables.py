"""The tokens of a vocabulary as the kernels read them, made once for all stores on it."""

from __future__ import annotations

import threading
import weakref

import numpy as np
from numpy.typing import NDArray

from constrained.kernels import tables as t
from constrained.kernels.branches import branch
from constrained.vocabulary import Vocabulary


class TokenTables:
    """Tables of `constrained.kernels.tables` that depend on the vocabulary alone; nobody writes to them.

    Attributes:
        trie: int32[n + 1, 4], in preorder, with one entry past the last node, so that its tokens have an end.
        nodes, bytes, below: the trie with siblings side by side, see `branch`.
        lengths: int32[tokens], how many characters begin in each token, in the order of the trie.
        token_ids: int32[tokens], the tokens in the order of the trie.
        eos: int32[ends], the end tokens that have a place in the logits.
        blob: uint8[...], the bytes of all tokens; those of token i begin at bounds[i] and end at bounds[i + 1].
        bounds: int64[vocabulary size + 1].
        bounds_list: the same as a list, which is quicker to look up one by one.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        trie = vocabulary.trie
        nodes = len(trie.byte)
        self.trie: NDArray[np.int32] = np.zeros((nodes + 1, t.TRIE_COLUMNS), dtype=np.int32)
        self.trie[:nodes, t.T_BYTE_DEPTH] = trie.byte.astype(np.int32) | (trie.depth.astype(np.int32) << 8)
        self.trie[:nodes, t.T_END] = trie.end
        self.trie[: nodes + 1, t.T_TOKENS] = trie.token_start
        self.trie[:nodes, t.T_HEIGHT] = trie.height
        self.nodes: NDArray[np.int32] = np.empty((nodes, t.NODE_COLUMNS), dtype=np.int32)
        self.bytes: NDArray[np.uint8] = np.empty(nodes, dtype=np.uint8)
        self.below: NDArray[np.uint64] = np.zeros((nodes, 2), dtype=np.uint64)
        self.lengths: NDArray[np.int32] = np.zeros(len(trie.token_ids), dtype=np.int32)
        branch(self.trie, self.nodes, self.bytes, self.below, self.lengths)
        self.token_ids: NDArray[np.int32] = np.ascontiguousarray(trie.token_ids)
        self.eos: NDArray[np.int32] = np.array(
            [token for token in vocabulary.eos_token_ids if 0 <= token < vocabulary.size], dtype=np.int32
        )
        self.blob: NDArray[np.uint8] = np.ascontiguousarray(vocabulary.table.blob)
        self.bounds: NDArray[np.int64] = np.ascontiguousarray(vocabulary.table.offsets, dtype=np.int64)
        self.bounds_list: list[int] = self.bounds.tolist()


def token_tables(vocabulary: Vocabulary) -> TokenTables:
    """The tables of a vocabulary; they go when it does."""
    with _lock:
        found = _made.get(vocabulary)
        if found is None:
            found = _made[vocabulary] = TokenTables(vocabulary)
        return found


_lock = threading.Lock()
_made: weakref.WeakKeyDictionary[Vocabulary, TokenTables] = weakref.WeakKeyDictionary()
