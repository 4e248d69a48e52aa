"""SHA-256 of files, worked out once: what was found is remembered beside the file by its size and time."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path


def sha256_of(path: Path) -> str:
    """The file's SHA-256 in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remembered_sha256(path: Path) -> str:
    """The file's SHA-256, read anew where the file is not the one that was last looked at (another size or time)."""
    stat = path.stat()
    state = {"size": stat.st_size, "mtime_ns": stat.st_mtime_ns}
    record = _record_of(path)
    try:
        known = json.loads(record.read_text("utf-8"))
        if {name: known[name] for name in state} == state:
            return str(known["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # no record, or one that cannot be read: the file itself says
    found = sha256_of(path)
    remember(path, found, state)
    return found


def remember(path: Path, sha256: str, state: dict[str, int] | None = None) -> None:
    """Notes the SHA-256 of a file; one in a folder that cannot be written is simply read again next time."""
    if state is None:
        stat = path.stat()
        state = {"size": stat.st_size, "mtime_ns": stat.st_mtime_ns}
    try:
        _record_of(path).write_text(json.dumps({"sha256": sha256, **state}), "utf-8")
    except OSError:
        return


def _record_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256.json")
