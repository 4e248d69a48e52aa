from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from constrained.vocabulary import Vocabulary, VocabularyError, vocabulary
from constrained.vocabulary.gguf_metadata import read_gguf_metadata

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


def write(path: Path, kind: str | None, tokens: list[tuple[str, int]], **keys: int | bool) -> Path:
    """A GGUF file with a tokenizer, written by the reference library."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(8192)
    writer.add_array("general.languages", ["en", "de"])
    writer.add_array("general.numbers", [1.5, 2.5])
    if kind is not None:
        writer.add_tokenizer_model(kind)
        writer.add_token_list([piece for piece, _ in tokens])
        writer.add_token_types([type_ for _, type_ in tokens])
        writer.add_token_merges(["a b"] * 50)
    for key, value in keys.items():
        add = writer.add_bool if isinstance(value, bool) else writer.add_uint32
        add(f"tokenizer.ggml.{key}", value)
    writer.add_tensor("token_embd.weight", np.zeros((len(tokens), 4), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


GPT2 = [("a", NORMAL), ("Ġé", NORMAL), ("<|end|>", CONTROL), (" Ġ é", USER_DEFINED), ("[PAD4]", UNUSED), ("Ġx", NORMAL)]
LLAMA = [
    ("<unk>", UNKNOWN),
    ("<s>", CONTROL),
    ("</s>", CONTROL),
    ("<0x0A>", BYTE),
    ("▁a", NORMAL),
    ("▁▁", USER_DEFINED),
]


@pytest.fixture
def path(tmp_path: Path, own_cache: Path) -> Path:
    return tmp_path / "model.gguf"


def test_byte_level_tokens(path: Path) -> None:
    read = Vocabulary.from_gguf(write(path, "gpt2", GPT2, eos_token_id=2))
    assert read.tokens == (b"a", b" \xe9", None, " Ġ é".encode(), None, b" x")
    assert read.special_tokens == {"<|end|>": 2}
    assert (read.eos_token_ids, read.size) == ((2,), 6)
    assert not read.table.adds_leading_space


def test_sentencepiece_tokens(path: Path) -> None:
    read = Vocabulary.from_gguf(write(path, "llama", LLAMA, eos_token_id=2))
    assert read.tokens == (None, None, None, b"\n", b" a", b"  ")
    assert read.special_tokens == {"<unk>": 0, "<s>": 1, "</s>": 2}
    assert read.eos_token_ids == (2,)
    assert read.table.adds_leading_space
    again = Vocabulary.from_gguf(write(path, "llama", LLAMA, add_space_prefix=False))
    assert not again.table.adds_leading_space
    byte_level = Vocabulary.from_gguf(write(path, "gpt2", GPT2, add_space_prefix=True))
    assert not byte_level.table.adds_leading_space  # the key is SentencePiece's


def test_end_tokens_are_those_of_all_keys_and_the_control_tokens_with_known_names(path: Path) -> None:
    tokens = [
        ("a", NORMAL),
        ("<x>", CONTROL),
        ("<y>", CONTROL),
        ("<|im_end|>", CONTROL),
        ("</s>", NORMAL),
        ("<z>", CONTROL),
    ]
    read = Vocabulary.from_gguf(write(path, "gpt2", tokens, eos_token_id=5, eot_token_id=1, eom_token_id=2))
    assert read.eos_token_ids == (5, 1, 2, 3)
    assert Vocabulary.from_gguf(path, eos_token_ids=[1]).eos_token_ids == (1,)
    assert Vocabulary.from_gguf(path, logits_size=64).size == 64


def test_the_second_load_takes_the_kept_vocabulary(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = Vocabulary.from_gguf(write(path, "llama", LLAMA, eos_token_id=2))
    monkeypatch.setattr(vocabulary, "read_gguf_tokens", lambda *_: pytest.fail("parsed again"))
    kept = Vocabulary.from_gguf(path)
    assert kept == built
    assert kept.tokens == built.tokens


def test_a_change_far_into_the_metadata_is_noticed_although_head_and_size_are_the_same(path: Path) -> None:
    tokens = [(f"token{i:05}", NORMAL) for i in range(10_000)]
    before = Vocabulary.from_gguf(write(path, "gpt2", tokens))
    size = path.stat().st_size
    tokens[-1] = ("another!!!", NORMAL)
    after = Vocabulary.from_gguf(write(path, "gpt2", tokens))
    assert path.stat().st_size == size
    assert before.tokens[-1] == b"token09999"
    assert after.tokens[-1] == b"another!!!"


def test_the_metadata_are_those_that_the_reference_library_reads(path: Path) -> None:
    write(path, "llama", LLAMA, eos_token_id=2, add_space_prefix=True)
    found, length = read_gguf_metadata(path, lambda key: True)
    reader = gguf.GGUFReader(path)
    names = [name for name in reader.fields if not name.startswith("GGUF.")]
    assert list(found) == names

    def plain(value: Any) -> Any:
        return [plain(item) for item in value] if isinstance(value, list) else (
            value.decode() if isinstance(value, bytes) else value
        )  # fmt: skip

    for name in names:
        assert plain(found[name]) == reader.fields[name].contents(), name
    assert length <= reader.data_offset
    some, same_length = read_gguf_metadata(path, lambda key: key == "tokenizer.ggml.model")
    assert some == {"tokenizer.ggml.model": b"llama"}
    assert same_length == length


@pytest.mark.parametrize(
    ("kind", "tokens", "keys", "message"),
    [
        (None, [], {}, "no tokenizer in the metadata; use the model's tokenizer.json"),
        ("bert", LLAMA, {}, "unsupported tokenizer kind 'bert'"),
        ("llama", [("a", BYTE)], {}, "byte token 0 is spelled 'a'"),
        ("llama", [("a", 9)], {}, "token 0 has the unknown type 9"),
        ("llama", LLAMA, {"eos_token_id": 99}, "end token 99 is outside the 6 logits"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_file_and_the_reason(
    path: Path, kind: str | None, tokens: list[tuple[str, int]], keys: dict[str, int], message: str
) -> None:
    write(path, kind, tokens, **keys)
    with pytest.raises(VocabularyError) as caught:
        Vocabulary.from_gguf(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_cut_anywhere_in_its_metadata_is_refused(path: Path) -> None:
    write(path, "llama", LLAMA, eos_token_id=2)
    whole = path.read_bytes()
    _, length = read_gguf_metadata(path, lambda key: True)
    for cut in [0, 3, 4, 8, 20, 24, *range(25, length, 7), length - 1]:
        path.write_bytes(whole[:cut])
        with pytest.raises(VocabularyError, match=r"model\.gguf: [^\n]+$"):
            Vocabulary.from_gguf(path)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (b"ELF!" + bytes(60), "not a GGUF file"),
        (b"GGUF\x01\0\0\0" + bytes(60), "GGUF version 0x1;"),
        (b"GGUF\0\0\0\x03" + bytes(60), "little-endian versions 2 and 3 are supported"),
        (b"GGUF\x03\0\0\0" + b"\xff" * 60, "truncated or damaged GGUF metadata"),
        (b"GGUF\x03\0\0\0" + bytes(8) + b"\1" + bytes(7) + b"\1" + bytes(7) + b"k\x63\0\0\0", "damaged GGUF metadata"),
    ],
)
def test_other_files_are_refused(path: Path, start: bytes, message: str) -> None:
    path.write_bytes(start)
    with pytest.raises(VocabularyError) as caught:
        Vocabulary.from_gguf(path)
    assert message in str(caught.value)


def test_a_missing_file_is_an_error_with_its_name(path: Path) -> None:
    with pytest.raises(VocabularyError, match=r"model\.gguf: cannot be read: No such file"):
        Vocabulary.from_gguf(path)
