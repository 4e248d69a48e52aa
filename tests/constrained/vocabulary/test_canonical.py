from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrained.kernels import tokenization
from constrained.vocabulary import Vocabulary, VocabularyError

letters = st.lists(st.sampled_from(b"abc"), max_size=12).map(bytes)
words = st.lists(st.sampled_from(b"abc"), min_size=1, max_size=4).map(bytes)


def shortest(tokens: list[bytes], data: bytes) -> list[int] | None:
    """The slow twin: fewest tokens, the first as long as that allows, the lowest id of equal ones."""
    best: list[list[int] | None] = [None] * len(data) + [[]]
    for start in range(len(data) - 1, -1, -1):
        for i in sorted(range(len(tokens)), key=lambda i: (-len(tokens[i]), i)):
            rest = best[start + len(tokens[i])] if data.startswith(tokens[i], start) else None
            if rest is not None and (best[start] is None or 1 + len(rest) < len(best[start] or [])):
                best[start] = [i, *rest]
    return best[0]


@pytest.mark.parametrize("compiled", [True, False])
@given(tokens=st.lists(words, min_size=1, max_size=12), data=letters)
def test_the_shortest_tokenisation_is_that_of_the_slow_twin(compiled: bool, tokens: list[bytes], data: bytes) -> None:
    vocabulary = Vocabulary.from_token_bytes(tokens)
    with pytest.MonkeyPatch.context() as patch:
        if not compiled:
            kernel = tokenization.shortest_tokenization
            patch.setattr(tokenization, "shortest_tokenization", getattr(kernel, "py_func", kernel))
        assert vocabulary.shortest_tokenization(data) == shortest(tokens, data)


def test_the_shortest_tokenisation_is_not_greedy() -> None:
    vocabulary = Vocabulary.from_token_bytes([b"a", b"b", b"c", b"d", b"abc", b"ab", b"cd"])
    assert vocabulary.shortest_tokenization(b"abcd") == [4, 3]
    assert vocabulary.shortest_tokenization(b"abcdab") == [4, 3, 5]
    assert vocabulary.shortest_tokenization(b"") == []
    assert vocabulary.shortest_tokenization(b"abx") is None


def test_special_and_end_tokens_never_write_bytes() -> None:
    vocabulary = Vocabulary.from_token_bytes([b"a", b"aa", b"aaa"], eos_token_ids=[2], special_tokens={"aa": 1})
    assert vocabulary.shortest_tokenization(b"aaa") == [0, 0, 0]


def test_without_a_tokenizer_the_canonical_tokens_are_the_shortest(make_vocabulary: Callable[..., Vocabulary]) -> None:
    vocabulary = make_vocabulary("ab", "abc", "é")
    assert vocabulary.canonical("abcé") == [257, 258]
    assert vocabulary.canonical(b"ab\xff") == [256, 255]
    assert vocabulary.canonical("") == []


def test_text_that_no_tokens_make_up_is_an_error() -> None:
    with pytest.raises(VocabularyError, match=r"no tokens make up b'ab'"):
        Vocabulary.from_token_bytes([b"a"]).canonical("ab")
    assert Vocabulary.from_token_bytes([b"a"]).missing_bytes == set(range(256)) - {ord("a")}


@pytest.mark.parametrize(
    ("encoded", "expected"),
    [
        ([97, 98, 99], [97, 98, 99]),  # the tokenizer's own, although shorter ones exist
        ([97, 257], [97, 257]),
        ([256], [256, 99]),  # not the text
        ([258], [256, 99]),  # a special token
        ([97, 98, 99, 258], [256, 99]),
        ([120, 97, 98, 99], [256, 99]),  # something in front
    ],
)
def test_the_tokenizers_tokens_count_only_if_they_are_exactly_the_text(
    make_vocabulary: Callable[..., Vocabulary], encoded: list[int], expected: list[int]
) -> None:
    vocabulary = make_vocabulary("ab", "bc").with_encoder(lambda text: encoded)
    assert vocabulary.canonical("abc") == expected
    assert vocabulary.with_encoder(None).canonical("abc") == [256, 99]


def tokenizer_file(folder: Path, extra: str) -> Path:
    """A byte-level tokenizer without merges, so that its own tokens are single characters."""
    path = folder / "tokenizer.json"
    vocab = {"a": 0, "b": 1, "ab": 2, extra: 3}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    model = {"type": "BPE", "vocab": vocab, "merges": []}
    parts = {"version": "1.0", "added_tokens": [], "model": model}
    path.write_text(json.dumps(parts | {"pre_tokenizer": byte_level, "decoder": byte_level}))
    return path


def test_the_tokenizer_of_a_file_is_attached_and_survives_pickling(tmp_path: Path, own_cache: Path) -> None:
    vocabulary = Vocabulary.from_tokenizer_json(tokenizer_file(tmp_path, "c"))
    assert vocabulary.canonical("ab") == [0, 1]
    assert pickle.loads(pickle.dumps(vocabulary)).canonical("ab") == [0, 1]
    kept = Vocabulary.from_tokenizer_json(tmp_path / "tokenizer.json")
    assert kept.canonical("ab") == [0, 1]


def test_a_tokenizer_file_that_changed_meanwhile_is_an_error(tmp_path: Path, own_cache: Path) -> None:
    vocabulary = Vocabulary.from_tokenizer_json(tokenizer_file(tmp_path, "c"))
    path = tokenizer_file(tmp_path, "d")
    with pytest.raises(VocabularyError, match="has changed since the vocabulary was made; load the vocabulary again"):
        vocabulary.canonical("ab")
    path.unlink()
    with pytest.raises(VocabularyError, match="cannot be read any more"):
        vocabulary.canonical("ab")
    assert vocabulary.with_encoder(None).canonical("ab") == [2]
