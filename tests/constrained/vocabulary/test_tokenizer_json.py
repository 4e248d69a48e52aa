from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from constrained.vocabulary import Vocabulary, VocabularyError

Write = Callable[..., Path]

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
SENTENCEPIECE = {
    "type": "Sequence",
    "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ],
}
METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}


def added(token: int, content: str, special: bool = False) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": token, "content": content, "special": special, **flags}


def bpe(vocab: dict[str, int], **more: Any) -> dict[str, Any]:
    return {"type": "BPE", "vocab": vocab, "merges": [], **more}


@pytest.fixture
def write(tmp_path: Path, own_cache: Path) -> Write:
    """Writes a tokenizer.json of the given parts, and files beside it, into an empty folder."""

    def written(beside: dict[str, Any] | None = None, **parts: Any) -> Path:
        for name, content in (beside or {}).items():
            text = content if isinstance(content, str) else json.dumps(content)
            (tmp_path / f"{name}.json").write_text(text)
        path = tmp_path / "tokenizer.json"
        parts = {"version": "1.0", "added_tokens": [], "decoder": BYTE_LEVEL} | parts
        path.write_text(json.dumps(parts, ensure_ascii=False))
        return path

    return written


def test_byte_level_pieces_are_bytes(write: Write) -> None:
    vocab = {"a": 0, "Ġa": 1, "Ċ": 2, "ðŁĺĢ": 3, "Ã": 4, "Ā": 5, "ÿ": 6, "Ń": 7, "<0x0A>": 8, "▁": 9}
    vocabulary = Vocabulary.from_tokenizer_json(write(model=bpe(vocab)))
    assert vocabulary.tokens[:9] == (
        b"a", b" a", b"\n", "😀".encode(), b"\xc3", b"\x00", b"\xff", b"\xad", b"<0x0A>",
    )  # fmt: skip
    assert vocabulary.tokens[9] == "▁".encode()  # outside the byte alphabet: the decoder leaves such pieces alone


def test_sentencepiece_pieces_have_marked_spaces_and_byte_fallback(write: Write) -> None:
    vocab = {"<unk>": 0, "<0x0A>": 1, "<0xfF>": 2, "▁a": 3, "a▁▁b": 4, "é": 5, "<0x0A> ": 6, "Ġ": 7}
    model = bpe(vocab, unk_token="<unk>", byte_fallback=True)
    vocabulary = Vocabulary.from_tokenizer_json(write(model=model, decoder=SENTENCEPIECE))
    assert vocabulary.tokens == (None, b"\n", b"\xff", b" a", b"a  b", "é".encode(), b"<0x0A> ", "Ġ".encode())
    assert vocabulary.special_tokens == {"<unk>": 0}


def test_without_byte_fallback_such_pieces_are_text(write: Write) -> None:
    vocabulary = Vocabulary.from_tokenizer_json(write(model=bpe({"<0x0A>": 0, "▁": 1}), decoder=METASPACE))
    assert vocabulary.tokens == (b"<0x0A>", b" ")


def test_unigram_models_number_their_pieces_in_order(write: Write) -> None:
    model = {"type": "Unigram", "vocab": [["<unk>", 0.0], ["▁the", -3.5], ["s", -4.0]], "unk_id": 0}
    vocabulary = Vocabulary.from_tokenizer_json(write(model=model, decoder=METASPACE))
    assert vocabulary.tokens == (None, b" the", b"s")


def test_files_that_leave_the_model_type_out_are_bpe(write: Write) -> None:
    path = write(model={"vocab": {"Ġ": 0}, "merges": []}, decoder=None, pre_tokenizer=BYTE_LEVEL)
    assert Vocabulary.from_tokenizer_json(path).tokens == (b" ",)


def test_added_tokens_are_text_unless_special(write: Write) -> None:
    tokens = [added(1, "<s>", special=True), added(3, "<think>"), added(4, "Ġé "), added(6, "<pad>", special=True)]
    vocabulary = Vocabulary.from_tokenizer_json(write(model=bpe({"a": 0, "<s>": 1}), added_tokens=tokens))
    assert vocabulary.tokens == (b"a", None, None, b"<think>", "Ġé ".encode(), None, None)
    assert vocabulary.special_tokens == {"<s>": 1, "<pad>": 6}
    assert vocabulary.size == 7


def test_added_text_tokens_of_sentencepiece_kind_have_marked_spaces_but_no_bytes(write: Write) -> None:
    tokens = [added(1, "▁▁"), added(2, "<0x0A>")]
    model = bpe({"a": 0, "▁▁": 1}, byte_fallback=True)
    vocabulary = Vocabulary.from_tokenizer_json(write(model=model, added_tokens=tokens, decoder=SENTENCEPIECE))
    assert vocabulary.tokens == (b"a", b"  ", b"<0x0A>")


def test_tokens_of_equal_bytes_are_both_kept_and_the_real_piece_is_preferred(write: Write) -> None:
    vocab = {"<0x61>": 0, "a": 1, "<0x62>": 2}
    vocabulary = Vocabulary.from_tokenizer_json(write(model=bpe(vocab, byte_fallback=True), decoder=SENTENCEPIECE))
    assert sorted(vocabulary.trie.token_ids.tolist()) == [0, 1, 2]
    assert vocabulary.shortest_tokenization(b"ab") == [1, 2]


ENDS = [added(1, "</s>", True), added(2, "<|im_end|>", True), added(3, "<x>", True), added(4, "<eos>")]


@pytest.mark.parametrize(
    ("beside", "ends", "size"),
    [
        ({}, (1, 2), 5),
        ({"generation_config": {"eos_token_id": [3, 1, 3]}, "config": {"eos_token_id": 2}}, (3, 1), 5),
        ({"generation_config": {}, "config": {"eos_token_id": 2, "vocab_size": 64}}, (2,), 64),
        ({"config": {"text_config": {"eos_token_id": 3, "vocab_size": 70}}}, (3,), 70),
        ({"generation_config": {"eos_token_id": 3}, "tokenizer_config": {"eos_token": "</s>"}}, (3,), 5),
        ({"tokenizer_config": {"eos_token": "<x>"}}, (3, 1, 2), 5),
        ({"tokenizer_config": {"eos_token": {"content": "<x>"}}}, (3, 1, 2), 5),
        ({"tokenizer_config": {"eos_token": "<eos>"}}, (4, 1, 2), 5),
        ({"tokenizer_config": {"eos_token": "not there"}}, (1, 2), 5),
        ({"generation_config": "{broken", "config": "[]", "tokenizer_config": {"eos_token": 7}}, (1, 2), 5),
        ({"generation_config": {"eos_token_id": None}, "config": {"eos_token_id": [], "vocab_size": "9"}}, (1, 2), 5),
    ],
)
def test_end_tokens_and_logits_come_from_the_files_beside(
    write: Write, beside: dict[str, Any], ends: tuple[int, ...], size: int
) -> None:
    vocabulary = Vocabulary.from_tokenizer_json(write(beside, model=bpe({"a": 0}), added_tokens=ENDS))
    assert vocabulary.eos_token_ids == ends
    assert vocabulary.size == size
    assert all(vocabulary.token_bytes(token) is None for token in ends)


def test_arguments_win_over_the_files_beside(write: Write) -> None:
    path = write({"config": {"eos_token_id": 2, "vocab_size": 64}}, model=bpe({"a": 0}), added_tokens=ENDS)
    assert Vocabulary.from_tokenizer_json(path).eos_token_ids == (2,)
    vocabulary = Vocabulary.from_tokenizer_json(path, logits_size=128, eos_token_ids=[3])
    assert (vocabulary.size, vocabulary.eos_token_ids) == (128, (3,))


def test_a_changed_file_beside_is_noticed_although_the_vocabulary_is_kept(write: Write) -> None:
    parts: dict[str, Any] = {"model": bpe({"a": 0}), "added_tokens": ENDS}
    assert Vocabulary.from_tokenizer_json(write({"config": {"eos_token_id": 2}}, **parts)).eos_token_ids == (2,)
    assert Vocabulary.from_tokenizer_json(write({"config": {"eos_token_id": 3}}, **parts)).eos_token_ids == (3,)


@pytest.mark.parametrize(
    ("names", "ends"),
    [
        (["<|endoftext|>", "<|end|>"], {"<|endoftext|>", "<|end|>"}),
        (["<|endoftext|>", "<|end|>", "<|return|>", "<|call|>"], {"<|endoftext|>", "<|return|>", "<|call|>"}),
        (["<｜end▁of▁sentence｜>", "<｜begin▁of▁sentence｜>"], {"<｜end▁of▁sentence｜>"}),
    ],
)
def test_the_end_of_a_message_ends_a_text_only_where_there_is_no_end_of_a_turn(
    write: Write, names: list[str], ends: set[str]
) -> None:
    tokens = [added(i + 1, name, True) for i, name in enumerate(names)]
    vocabulary = Vocabulary.from_tokenizer_json(write(model=bpe({"a": 0}), added_tokens=tokens))
    assert {names[i - 1] for i in vocabulary.eos_token_ids} == ends


def test_an_end_token_that_is_text_is_no_longer_text(write: Write) -> None:
    path = write(model=bpe({"a": 0, "b": 1}))
    assert Vocabulary.from_tokenizer_json(path, eos_token_ids=[1]).tokens == (b"a", None)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"model": {"type": "WordPiece", "vocab": {"##a": 0}}}, "unsupported model type 'WordPiece'; byte-level BPE"),
        ({"model": {"type": "WordLevel", "vocab": {"a": 0}}}, "unsupported model type 'WordLevel'"),
        ({"model": {"vocab": {"a": 0}}}, "unsupported model type None"),
        ({"model": bpe({"a": 0}, continuing_subword_prefix="##")}, "continuing_subword_prefix '##'"),
        ({"model": bpe({"a": 0}, end_of_word_suffix="</w>")}, "end_of_word_suffix '</w>'"),
        ({"model": bpe({"a": 0}), "decoder": None}, "no decoder says what the pieces stand for"),
        ({"model": bpe({"a": 0}), "decoder": {"type": "WordPiece", "prefix": "##"}}, "unsupported decoder 'WordPiece'"),
        ({"model": bpe({"a": 0}), "decoder": {"type": "BPEDecoder", "suffix": "</w>"}}, "decoder 'BPEDecoder'"),
        ({"model": bpe({"a": 0}), "decoder": {"type": "CTC"}}, "unsupported decoder 'CTC'"),
        (
            {"model": bpe({"a": 0}), "decoder": {"type": "Replace", "pattern": {"Regex": "a+"}, "content": ""}},
            "unsupported decoder 'Replace'",
        ),
        ({"model": bpe({"a": 0}), "decoder": {"type": "Strip", "content": " ", "start": 1, "stop": 0}}, "'Strip'"),
        ({"model": bpe({"a": "0"})}, "model.vocab gives 'a' the bad id '0'"),
        ({"model": bpe({"a": -1})}, "model.vocab gives 'a' the bad id -1"),
        ({"model": bpe({"a": 1 << 40})}, "the bad id 1099511627776"),
        ({"model": bpe({"a": 0, "b": 0})}, "model.vocab gives two pieces the same id"),
        ({"model": bpe([])}, "model.vocab is missing or of the wrong type"),  # type: ignore[arg-type]
        ({"model": {"type": "Unigram", "vocab": [["a"]]}}, "model.vocab is not a list of [piece, score]"),
        ({"model": {"type": "Unigram", "vocab": [[1, 0.5]]}}, "model.vocab has a piece that is not text"),
        ({"model": bpe({"a": 0}), "added_tokens": [{"id": 1}]}, "added_tokens has the malformed entry {'id': 1}"),
        ({"model": bpe({"a": 0}), "added_tokens": {}}, "added_tokens is not a list"),
        ({"model": []}, 'it has no "model" object'),
        ({"model": bpe({})}, "0 logits for 0 tokens"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_file_and_the_reason(
    write: Write, parts: dict[str, Any], message: str
) -> None:
    path = write(**parts)
    with pytest.raises(VocabularyError) as caught:
        Vocabulary.from_tokenizer_json(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{", b"null", b"\xff\xfe", b"[1]", b"[" * 100_000, b'{"model": {"vocab": {'])
def test_a_file_that_is_not_json_is_refused(tmp_path: Path, own_cache: Path, content: bytes) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(VocabularyError, match=r"tokenizer\.json: not a tokenizer\.json: [^\n]*$"):
        Vocabulary.from_tokenizer_json(path)


def test_a_missing_file_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(VocabularyError, match=r"nowhere\.json: cannot be read: No such file"):
        Vocabulary.from_tokenizer_json(tmp_path / "nowhere.json")


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"normalizer": {"type": "Prepend", "prepend": "▁"}, "decoder": SENTENCEPIECE}, True),
        ({"pre_tokenizer": METASPACE, "decoder": METASPACE}, True),
        ({"pre_tokenizer": METASPACE | {"prepend_scheme": "never"}, "decoder": METASPACE}, False),
        ({"pre_tokenizer": BYTE_LEVEL | {"add_prefix_space": True}}, True),
        ({"pre_tokenizer": BYTE_LEVEL}, False),
        ({"pre_tokenizer": None}, False),
    ],
)
def test_the_dummy_space_in_front_is_kept_out_of_canonical_tokens(
    write: Write, parts: dict[str, Any], expected: bool
) -> None:
    vocab = {"a": 0, "b": 1, "▁": 2, "Ġ": 3, "\n": 4, "Ċ": 5, "(": 6, "?": 7}
    path = write(model=bpe(vocab, unk_token="?"), **parts)
    encoded = Tokenizer.from_file(str(path)).encode("ab").ids
    assert (encoded != [0, 1]) == expected, "the fixture is not what it says"
    assert Vocabulary.from_tokenizer_json(path).canonical("ab") == [0, 1]
