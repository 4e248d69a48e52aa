"""Where everything that can be made again is kept on disk, and how it is written."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from platformdirs import user_cache_dir


def cache_folder() -> Path:
    """The folder for cached vocabularies, rows and models; it need not exist yet.

    The environment variable `CONSTRAINED_CACHE` overrides the user's cache folder of the operating system.
    """
    override = os.environ.get("CONSTRAINED_CACHE")
    return Path(override).expanduser() if override else Path(user_cache_dir("constrained", appauthor=False))


def checksum(chunks: Iterable[bytes | memoryview]) -> bytes:
    """The SHA-256 digest, 32 bytes, of the chunks joined."""
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return digest.digest()


def write_whole(path: Path, chunks: Iterable[bytes | memoryview]) -> None:
    """Write the chunks to `path`, whose folder is made; whoever reads it at the same time sees the old file or the new one.

    Raises:
        OSError: it cannot be written; nothing is left behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(chunks)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
