from __future__ import annotations

import pickle
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from constrained.vocabulary import Trie, Vocabulary, VocabularyError

# Few distinct bytes, so that prefixes and equal tokens are common; the extremes, so that the order is by unsigned byte.
token = st.none() | st.lists(st.sampled_from([0, 97, 98, 255]), max_size=6).map(bytes) | st.binary(max_size=3)


@dataclass
class DictNode:
    """The slow twin: a trie of dictionaries."""

    children: dict[int, DictNode] = field(default_factory=dict)
    ids: list[int] = field(default_factory=list)


def dict_trie(tokens: list[bytes | None]) -> DictNode:
    root = DictNode()
    for number, data in enumerate(tokens):
        if data:
            node = root
            for byte in data:
                node = node.children.setdefault(byte, DictNode())
            node.ids.append(number)
    return root


def preorder(node: DictNode, byte: int = 0, depth: int = 0) -> list[tuple[int, int, int, int, list[int]]]:
    """(byte, depth, nodes in the subtree, height, ids) of every node."""
    below = [row for edge in sorted(node.children) for row in preorder(node.children[edge], edge, depth + 1)]
    deepest = max((row[1] for row in below), default=depth)
    return [(byte, depth, 1 + len(below), deepest - depth, node.ids), *below]


@given(st.lists(token, max_size=40))
@example([])
@example([None, b""])
@example([b"\x00", b"", b"\x00\x00", b"\x00"])
@example([b"\xff" * 5, b"\xff"])
def test_the_flat_arrays_say_what_a_trie_of_dictionaries_says(tokens: list[bytes | None]) -> None:
    trie = Vocabulary.from_token_bytes(tokens, logits_size=len(tokens) + 1).trie
    expected = preorder(dict_trie(tokens))
    assert len(trie) == len(expected)
    for node, (byte, depth, count, height, ids) in enumerate(expected):
        assert trie.byte[node] == byte
        assert trie.depth[node] == depth
        assert trie.end[node] == node + count
        assert trie.height[node] == height
        assert trie.token_ids[trie.token_start[node] : trie.token_start[node + 1]].tolist() == ids


@given(st.lists(token, max_size=40))
def test_the_tokens_of_a_subtree_are_one_slice(tokens: list[bytes | None]) -> None:
    trie = Vocabulary.from_token_bytes(tokens, logits_size=len(tokens) + 1).trie
    path: list[int] = []
    for node in range(len(trie)):
        path[max(int(trie.depth[node]) - 1, 0) :] = [int(trie.byte[node])] if node else []
        inside = trie.token_ids[trie.token_start[node] : trie.token_start[trie.end[node]]].tolist()
        prefix = bytes(path)
        assert sorted(inside) == [i for i, data in enumerate(tokens) if data and data.startswith(prefix)]


def test_the_arrays_are_read_only_and_contiguous_also_after_pickling() -> None:
    trie = Vocabulary.from_token_bytes([b"a", b"ab"]).trie
    for one in (trie, pickle.loads(pickle.dumps(trie))):
        for name, dtype in (
            ("byte", np.uint8),
            ("end", np.int32),
            ("depth", np.uint16),
            ("height", np.uint16),
            ("token_start", np.int32),
            ("token_ids", np.int32),
        ):
            array = getattr(one, name)
            assert array.dtype == dtype
            assert array.flags.c_contiguous
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1


def test_a_token_too_long_for_the_depths_is_refused() -> None:
    longest = Vocabulary.from_token_bytes([b"x" * 65_535])
    assert isinstance(longest.trie, Trie)
    assert longest.trie.height[0] == longest.longest_token == 65_535
    with pytest.raises(VocabularyError, match="token 1 has 65536 bytes"):
        Vocabulary.from_token_bytes([b"a", b"x" * 65_536])
