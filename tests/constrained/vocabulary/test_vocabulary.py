from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrained.vocabulary import Vocabulary, VocabularyError


def test_tokens_keep_their_bytes_and_other_ids_have_none() -> None:
    vocabulary = Vocabulary.from_token_bytes(
        [b"a", None, b"", b"\xf0\x9f", b"<end>", b"<tool>"], eos_token_ids=[4], special_tokens={"<tool>": 5}
    )
    assert vocabulary.tokens == (b"a", None, b"", b"\xf0\x9f", None, None)
    assert [vocabulary.token_bytes(i) for i in range(6)] == list(vocabulary.tokens)
    assert vocabulary.eos_token_ids == (4,)
    assert vocabulary.special_tokens == {"<tool>": 5}
    assert vocabulary.longest_token == 2


def test_end_tokens_special_tokens_and_empty_tokens_are_not_in_the_trie() -> None:
    vocabulary = Vocabulary.from_token_bytes(
        [b"a", None, b"", b"b", b"<end>", b"<tool>"], eos_token_ids=[4], special_tokens={"<tool>": 5}
    )
    assert vocabulary.trie.token_ids.tolist() == [0, 3]


def test_padded_logits_lengthen_the_rows_with_ids_that_are_no_tokens() -> None:
    vocabulary = Vocabulary.from_token_bytes([b"a"] * 32, logits_size=65)
    assert (vocabulary.size, vocabulary.row_words) == (65, 3)
    assert vocabulary.token_bytes(64) is None
    assert len(vocabulary.tokens) == 32
    with pytest.raises(IndexError, match="outside the 65 logits"):
        vocabulary.token_bytes(65)
    with pytest.raises(IndexError):
        vocabulary.token_bytes(-1)


def test_an_end_token_may_lie_in_the_padding() -> None:
    assert Vocabulary.from_token_bytes([b"a"], eos_token_ids=[3], logits_size=4).eos_token_ids == (3,)


def test_logits_shorter_than_the_tokenizer_drop_what_is_not_text() -> None:
    vocabulary = Vocabulary.from_token_bytes([b"a", b"b", None], logits_size=2, special_tokens={"<pad>": 2})
    assert vocabulary.size == len(vocabulary.tokens) == 2
    assert vocabulary.special_tokens == {}
    with pytest.raises(
        VocabularyError, match=r"logits_size 1 loses token 1 \(b'b'\), the tokenizer has 3 tokens; for a model"
    ):
        Vocabulary.from_token_bytes([b"a", b"b", None], logits_size=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tokens": [b"a"], "eos_token_ids": [1]}, "end token 1 is outside the 1 logits"),
        ({"tokens": [b"a"], "eos_token_ids": [-1]}, "end token -1 is outside the 1 logits"),
        ({"tokens": [b"a"], "eos_token_ids": ["0"]}, "end token is '0', not an integer"),
        ({"tokens": [b"a"], "eos_token_ids": [True]}, "end token is True, not an integer"),
        ({"tokens": ["a"]}, "token 0 is str, not bytes or None"),
        ({"tokens": []}, "0 logits for 0 tokens"),
        ({"tokens": [b"a"], "logits_size": 1 << 30}, "1073741824 logits for 1 tokens"),
        ({"tokens": [b"a"], "special_tokens": {"<x>": -2}}, "special token '<x>' has the impossible id -2"),
    ],
)
def test_bad_arguments_are_named_in_one_line(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(VocabularyError) as caught:
        Vocabulary.from_token_bytes(**arguments)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_fingerprint_is_the_same_on_every_machine_and_in_every_version() -> None:
    vocabulary = Vocabulary.from_token_bytes(
        [b"a", None, b"\xff\x00", b""], eos_token_ids=[1], logits_size=40, special_tokens={"<s>": 5}
    )
    assert vocabulary.fingerprint == "a4efb8ef4647ed3f23cf7acb9b15967abf6ec7a2ec5415d81b43f54282766334"


BASE: dict[str, Any] = {
    "tokens": [b"a", b"bc", None, b""],
    "eos_token_ids": [2],
    "logits_size": 6,
    "special_tokens": {"<s>": 4},
}


@pytest.mark.parametrize(
    "change",
    [
        {"tokens": [b"ab", b"c", None, b""]},
        {"tokens": [b"a", b"bc", None, None]},
        {"tokens": [b"a", b"bd", None, b""]},
        {"tokens": [b"a", b"bc", None, b"", None]},
        {"eos_token_ids": [5]},
        {"eos_token_ids": [2, 5]},
        {"logits_size": 7},
        {"special_tokens": {"<t>": 4}},
        {"special_tokens": {"<s>": 5}},
    ],
)
def test_whatever_changes_masks_changes_the_fingerprint(change: dict[str, Any]) -> None:
    base, other = Vocabulary.from_token_bytes(**BASE), Vocabulary.from_token_bytes(**(BASE | change))
    assert base.fingerprint != other.fingerprint
    assert base != other


def test_the_order_of_end_tokens_and_names_does_not_change_the_fingerprint() -> None:
    one = Vocabulary.from_token_bytes([b"a"], [1, 2], logits_size=5, special_tokens={"x": 3, "y": 4})
    two = Vocabulary.from_token_bytes([b"a"], [2, 1], logits_size=5, special_tokens={"y": 4, "x": 3})
    assert one == two
    assert hash(one) == hash(two)
    assert one != "vocabulary"


@given(st.lists(st.none() | st.binary(max_size=4), min_size=1), st.integers(0, 3))
def test_a_pickled_vocabulary_comes_back_equal_and_read_only(tokens: list[bytes | None], padding: int) -> None:
    vocabulary = Vocabulary.from_token_bytes(tokens, logits_size=len(tokens) + padding)
    assert vocabulary.tokens == tuple(tokens)
    back = pickle.loads(pickle.dumps(vocabulary))
    assert back == vocabulary
    assert back.tokens == vocabulary.tokens
    assert back.trie.end.tolist() == vocabulary.trie.end.tolist()
    assert not back.table.blob.flags.writeable


def test_a_vocabulary_cannot_be_changed() -> None:
    vocabulary = Vocabulary.from_token_bytes([b"a"], special_tokens={"<s>": 0})
    with pytest.raises(dataclasses.FrozenInstanceError):
        vocabulary.fingerprint = ""  # type: ignore[misc]
    with pytest.raises(TypeError):
        vocabulary.special_tokens["<t>"] = 1  # type: ignore[index]


def test_an_error_survives_pickling() -> None:
    error = VocabularyError("what is wrong", "file.json")
    back = pickle.loads(pickle.dumps(error))
    assert (str(back), back.message, back.source) == ("file.json: what is wrong", "what is wrong", "file.json")


def test_the_factory_for_other_tests_gives_the_ids_that_it_promises(make_vocabulary: Callable[..., Vocabulary]) -> None:
    vocabulary = make_vocabulary("ab", b"\xf0\x9f", "ab", padding=3)
    assert [vocabulary.token_bytes(i) for i in (0, 255, 256, 257, 258, 259, 262)] == [
        b"\x00", b"\xff", b"ab", b"\xf0\x9f", b"ab", None, None,
    ]  # fmt: skip
    assert vocabulary.special_tokens == {"<end>": 259}
    assert (vocabulary.eos_token_ids, vocabulary.size) == ((259,), 263)
