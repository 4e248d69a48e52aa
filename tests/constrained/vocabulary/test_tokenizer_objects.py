"""The same vocabulary read from objects of three libraries and from a tokenizer.json is the same vocabulary."""

from __future__ import annotations

import io
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from constrained.vocabulary import Vocabulary, VocabularyError

SENTENCES = [
    "The vocabulary of a tokenizer says what each token means in bytes.",
    "def walk(node):\n    for child in node.children:\n        yield child",
    '{"name": "Zoë", "city": "東京", "tags": ["a", "b"], "emoji": "👩‍👩‍👧"}',
    "Ein Wörterbuch mit Umlauten: ä ö ü ß, und Zahlen 1 22 333 4444.",
] * 4

SAMPLES = ["The token", '{"name": "Zoë"}', " leading", "two  spaces", "東京 👩‍👩‍👧 \x00\x7f", "ÿ\ufffd", "new\n\nlines"]


@pytest.fixture(scope="module")
def byte_level() -> Any:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(SENTENCES, trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet))
    return tokenizer


@pytest.fixture(scope="module")
def with_specials(byte_level: Any) -> Any:
    tokenizer = Tokenizer.from_str(byte_level.to_str())
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens([AddedToken("<think>", special=False)])
    return tokenizer


@pytest.fixture
def saved(with_specials: Any, tmp_path: Path, own_cache: Path) -> Path:
    path = tmp_path / "model" / "tokenizer.json"
    path.parent.mkdir()
    with_specials.save(str(path))
    return path


def test_a_tokenizers_object_gives_the_vocabulary_of_its_file(with_specials: Any, saved: Path) -> None:
    from_file = Vocabulary.from_tokenizer_json(saved)
    from_object = Vocabulary.from_huggingface(with_specials)
    assert from_object == from_file
    assert from_object.tokens[with_specials.token_to_id("<think>")] == b"<think>"
    for text in SAMPLES:
        ids = with_specials.encode(text).ids
        assert b"".join(from_file.tokens[i] or b"" for i in ids) == text.encode()
        assert from_object.canonical(text) == from_file.canonical(text) == ids


def test_a_transformers_tokenizer_gives_the_vocabulary_of_its_file(with_specials: Any, saved: Path) -> None:
    transformers = pytest.importorskip("transformers")
    from_file = Vocabulary.from_tokenizer_json(saved)
    wrapped = transformers.PreTrainedTokenizerFast(tokenizer_object=with_specials, eos_token="<|im_end|>")
    vocabulary = Vocabulary.from_huggingface(wrapped)
    assert vocabulary.tokens == from_file.tokens
    assert vocabulary.eos_token_ids[0] == with_specials.token_to_id("<|im_end|>")
    assert set(vocabulary.eos_token_ids) == set(from_file.eos_token_ids)
    assert Vocabulary.from_huggingface(wrapped, logits_size=512).size == 512


def test_a_transformers_tokenizer_from_a_folder_reads_the_files_there(with_specials: Any, saved: Path) -> None:
    transformers = pytest.importorskip("transformers")
    start = with_specials.token_to_id("<|im_start|>")
    (saved.parent / "generation_config.json").write_text(json.dumps({"eos_token_id": [start]}))
    (saved.parent / "config.json").write_text(json.dumps({"model_type": "llama", "vocab_size": 448}))
    (saved.parent / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(saved.parent))
    vocabulary = Vocabulary.from_huggingface(tokenizer)
    assert vocabulary == Vocabulary.from_tokenizer_json(saved)
    assert (vocabulary.eos_token_ids, vocabulary.size) == ((start,), 448)


def test_a_tokenizer_without_the_tokenizers_library_is_refused() -> None:
    with pytest.raises(VocabularyError, match=r"^object: not backed by the tokenizers library; load it with"):
        Vocabulary.from_huggingface(object())


def test_a_tiktoken_encoding_gives_the_vocabulary_of_the_equal_tokenizer_json(
    byte_level: Any, with_specials: Any, own_cache: Path
) -> None:
    tiktoken = pytest.importorskip("tiktoken")
    by_id = Vocabulary.from_huggingface(byte_level).tokens
    ranks = {data: i for i, data in enumerate(by_id) if data is not None}
    assert len(ranks) == len(by_id), "tiktoken needs distinct tokens"
    special = {name: with_specials.token_to_id(name) for name in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")}
    pattern = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"  # ByteLevel's own
    encoding = tiktoken.Encoding("small", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)
    vocabulary = Vocabulary.from_tiktoken(encoding)

    with_specials = Tokenizer.from_str(byte_level.to_str())
    with_specials.add_special_tokens(list(special))
    from_json = Vocabulary.from_huggingface(with_specials)
    assert vocabulary == from_json
    assert set(vocabulary.eos_token_ids) == {special["<|endoftext|>"], special["<|im_end|>"]}
    for text in SAMPLES:
        assert vocabulary.canonical(text) == from_json.canonical(text) == encoding.encode(text)
    assert Vocabulary.from_tiktoken(encoding, logits_size=500, eos_token_ids=[special["<|im_start|>"]]).size == 500


def test_holes_in_a_tiktoken_encoding_are_no_tokens() -> None:
    tiktoken = pytest.importorskip("tiktoken")
    ranks = {bytes((byte,)): byte for byte in range(256)}
    encoding = tiktoken.Encoding("holes", pat_str=r"[\s\S]", mergeable_ranks=ranks, special_tokens={"<|end|>": 300})
    vocabulary = Vocabulary.from_tiktoken(encoding)
    assert vocabulary.size == 301
    assert vocabulary.tokens[255:] == (b"\xff", *[None] * 45)
    assert vocabulary.eos_token_ids == (300,)


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def sentencepiece_model(request: pytest.FixtureRequest) -> bytes:
    sentencepiece = pytest.importorskip("sentencepiece")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([line for sentence in SENTENCES for line in sentence.split("\n")]),
        model_writer=model,
        model_type=request.param,
        vocab_size=420,
        byte_fallback=True,
        hard_vocab_limit=False,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        user_defined_symbols=["<think>", "▁▁"],
        control_symbols=["<end_of_turn>"],
        minloglevel=2,
    )
    return model.getvalue()


def as_tokenizer_json(processor: Any) -> dict[str, Any]:
    """A tokenizer.json (Unigram) of the same pieces, put together by hand."""
    count = processor.get_piece_size()
    special = [i for i in range(count) if processor.is_control(i) or processor.is_unknown(i)]
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {
        "version": "1.0",
        "added_tokens": [{"id": i, "content": processor.id_to_piece(i), "special": True, **flags} for i in special],
        "normalizer": None,
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": False},
        "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Metaspace"}]},
        "model": {
            "type": "Unigram",
            "vocab": [[processor.id_to_piece(i), processor.get_score(i)] for i in range(count)],
            "unk_id": processor.unk_id(),
            "byte_fallback": True,
        },
    }


def test_a_sentencepiece_model_gives_the_vocabulary_of_the_equal_tokenizer_json(
    sentencepiece_model: bytes, tmp_path: Path, own_cache: Path
) -> None:
    sentencepiece = pytest.importorskip("sentencepiece")
    processor = sentencepiece.SentencePieceProcessor(model_proto=sentencepiece_model)
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(as_tokenizer_json(processor)))
    vocabulary, from_json = Vocabulary.from_sentencepiece(processor), Vocabulary.from_tokenizer_json(path)
    assert vocabulary == from_json
    assert set(vocabulary.special_tokens) == {"<unk>", "<s>", "</s>", "<end_of_turn>"}
    assert {processor.id_to_piece(i) for i in vocabulary.eos_token_ids} == {"</s>", "<end_of_turn>"}
    assert vocabulary.tokens[processor.piece_to_id("▁▁")] == b"  "
    for text in SAMPLES:
        if "\x00" in text:
            continue  # SentencePiece's C strings end there
        ids = processor.encode(text)
        assert b"".join(vocabulary.tokens[i] or b"" for i in ids) == b" " + text.encode()  # the dummy prefix
        canonical = vocabulary.canonical(text)
        assert b"".join(vocabulary.tokens[i] or b"" for i in canonical) == text.encode()


def test_a_sentencepiece_file_gives_the_vocabulary_of_the_object(sentencepiece_model: bytes, tmp_path: Path) -> None:
    sentencepiece = pytest.importorskip("sentencepiece")
    path = tmp_path / "tokenizer.model"
    path.write_bytes(sentencepiece_model)
    processor = sentencepiece.SentencePieceProcessor(model_proto=sentencepiece_model)
    vocabulary = Vocabulary.from_sentencepiece(path)
    assert vocabulary == Vocabulary.from_sentencepiece(str(path)) == Vocabulary.from_sentencepiece(processor)
    back = pickle.loads(pickle.dumps(vocabulary))
    assert back.canonical("The token") == vocabulary.canonical("The token")


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x0a\xff\xff\xff\xff"])
def test_a_damaged_sentencepiece_file_is_refused(tmp_path: Path, content: bytes) -> None:
    pytest.importorskip("sentencepiece")
    path = tmp_path / "tokenizer.model"
    path.write_bytes(content)
    with pytest.raises(VocabularyError, match=r"tokenizer\.model: not a SentencePiece model; fetch the file again"):
        Vocabulary.from_sentencepiece(path)
    with pytest.raises(VocabularyError, match=r"nowhere\.model: cannot be read"):
        Vocabulary.from_sentencepiece(tmp_path / "nowhere.model")
