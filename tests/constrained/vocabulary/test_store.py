from __future__ import annotations

import json
import multiprocessing
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from constrained.cache_folder import cache_folder, checksum
from constrained.vocabulary import Vocabulary, store, vocabulary


def write_tokenizer(path: Path, pieces: int = 300) -> Path:
    vocab = {f"p{i}": i for i in range(pieces)}
    special = {"id": pieces, "content": "</s>", "special": True}
    decoder = {"type": "ByteLevel"}
    content = {"model": {"type": "BPE", "vocab": vocab}, "decoder": decoder, "added_tokens": [special]}
    path.write_text(json.dumps(content))
    return path


@pytest.fixture
def tokenizer(tmp_path: Path, own_cache: Path) -> Path:
    return write_tokenizer(tmp_path / "tokenizer.json")


def entries(folder: Path) -> list[Path]:
    return sorted((folder / "vocabularies").iterdir())


def no_building(*_: Any) -> Any:
    pytest.fail("built again although it was kept")


def same(one: Vocabulary, other: Vocabulary) -> bool:
    arrays = ("byte", "end", "depth", "height", "token_start", "token_ids")
    return (
        one == other
        and one.tokens == other.tokens
        and one.special_tokens == other.special_tokens
        and one.eos_token_ids == other.eos_token_ids
        and one.table.fingerprint() == other.fingerprint
        and all(getattr(one.trie, name).tolist() == getattr(other.trie, name).tolist() for name in arrays)
        and all(getattr(one.trie, name).dtype == getattr(other.trie, name).dtype for name in arrays)
    )


def test_the_folder_is_the_users_unless_the_environment_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CONSTRAINED_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("CONSTRAINED_CACHE")
    assert cache_folder().name == "constrained"
    assert cache_folder().is_absolute()


def test_the_second_load_takes_the_kept_vocabulary(
    tokenizer: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = Vocabulary.from_tokenizer_json(tokenizer)
    assert len(entries(own_cache)) == 1
    monkeypatch.setattr(vocabulary, "build_trie", no_building)
    kept = Vocabulary.from_tokenizer_json(tokenizer)
    assert same(kept, built)
    assert not kept.trie.end.flags.writeable
    assert kept.trie.end.flags.c_contiguous
    assert kept.trie.end.flags.aligned


def test_other_arguments_and_other_content_are_kept_apart(tokenizer: Path, own_cache: Path) -> None:
    assert Vocabulary.from_tokenizer_json(tokenizer).size == 301
    assert Vocabulary.from_tokenizer_json(tokenizer, logits_size=320).size == 320
    assert Vocabulary.from_tokenizer_json(tokenizer, eos_token_ids=[5]).eos_token_ids == (5,)
    write_tokenizer(tokenizer, pieces=10)
    assert Vocabulary.from_tokenizer_json(tokenizer).size == 11
    assert len(entries(own_cache)) == 4


def test_a_new_format_does_not_read_old_entries(
    tokenizer: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Vocabulary.from_tokenizer_json(tokenizer)
    monkeypatch.setattr(store, "FORMAT", store.FORMAT + 1)
    Vocabulary.from_tokenizer_json(tokenizer)
    assert len(entries(own_cache)) == 2


def resealed(content: bytes, change: Any) -> bytes:
    """An entry whose head was changed and whose checksum is right again."""
    start = len(store._MAGIC) + store._DIGEST_BYTES
    end = content.index(b"\n", start)
    head = json.loads(content[start:end])
    change(head)
    body = json.dumps(head).encode() + content[end:]
    return store._MAGIC + checksum([body]) + body


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:10],
        lambda content: content[: len(content) // 2],
        lambda content: content[:-1],
        lambda content: content + b"x",
        lambda content: content[:-100] + bytes([content[-100] ^ 1]) + content[-99:],
        lambda content: b"another program's file\n" * 100,
        lambda content: content.replace(b"vocabulary", b"wocabulary", 1),
        lambda content: resealed(content, lambda head: head.pop("size")),
        lambda content: resealed(content, lambda head: head.pop("arrays")),
        lambda content: resealed(content, lambda head: head["arrays"].pop("end")),
        lambda content: resealed(content, lambda head: head["arrays"].update(end=[1 << 40, 5])),
        lambda content: resealed(content, lambda head: head["arrays"].update(other=[0, 5])),
        lambda content: resealed(content, lambda head: head.update(arrays=[])),
    ],
)
def test_a_damaged_or_foreign_entry_is_ignored_and_written_again(tokenizer: Path, own_cache: Path, damage: Any) -> None:
    built = Vocabulary.from_tokenizer_json(tokenizer)
    (entry,) = entries(own_cache)
    sound = entry.read_bytes()
    entry.write_bytes(damage(sound))
    assert same(Vocabulary.from_tokenizer_json(tokenizer), built)
    assert entries(own_cache) == [entry]
    assert entry.read_bytes() == sound


def test_without_a_place_to_write_the_vocabulary_is_built_all_the_same(
    tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("CONSTRAINED_CACHE", str(tmp_path / "file"))
    assert Vocabulary.from_tokenizer_json(tokenizer).size == 301
    assert (tmp_path / "file").read_text() == "not a folder"


def test_a_write_that_fails_half_way_leaves_nothing_behind(
    tokenizer: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", full)
    assert Vocabulary.from_tokenizer_json(tokenizer).size == 301
    assert entries(own_cache) == []


def load_often(path: str, go: Any, found: Any) -> None:
    go.wait()
    prints = set()
    for _ in range(30):
        for entry in (cache_folder() / "vocabularies").glob("*.vocabulary"):
            entry.unlink(missing_ok=True)  # so that both keep writing
        prints.add(Vocabulary.from_tokenizer_json(path).fingerprint)
    found.put(prints)


@pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be replaced there")
def test_two_processes_that_write_at_once_both_get_whole_vocabularies(tokenizer: Path, own_cache: Path) -> None:
    expected = Vocabulary.from_tokenizer_json(tokenizer).fingerprint
    context = multiprocessing.get_context("spawn")
    go, found = context.Event(), context.Queue()
    workers = [context.Process(target=load_often, args=(str(tokenizer), go, found)) for _ in range(2)]
    for worker in workers:
        worker.start()
    go.set()
    assert [found.get(timeout=60) for _ in workers] == [{expected}, {expected}]
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert all(entry.suffix == ".vocabulary" for entry in entries(own_cache))
