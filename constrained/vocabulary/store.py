"""Built vocabularies on disk, so that a process starts in milliseconds where the first one took a second.

An entry is one file: a magic line, the SHA-256 of what follows, a JSON head, and the arrays as raw little-endian bytes.
Files are written beside their place and renamed, so readers and concurrent writers see whole files only; whatever does
not check out is treated as absent and written again.

SHA-256, because processors have instructions for it: it is twice as fast as BLAKE2 here.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constrained.cache_folder import cache_folder, checksum, write_whole
from constrained.vocabulary.token_table import TokenTable
from constrained.vocabulary.trie import Trie

FORMAT = 1
"""Raised with every change of the entries' layout or of what loaders and the trie builder make of a source."""

_MAGIC = b"constrained vocabulary\n"
_DIGEST_BYTES = 32
_ALIGNMENT = 64
_DTYPES = {
    "blob": "<u1",
    "offsets": "<i8",
    "text": "|b1",
    "fallback": "|b1",
    "byte": "<u1",
    "end": "<i4",
    "depth": "<u2",
    "height": "<u2",
    "token_start": "<i4",
    "token_ids": "<i4",
}
_TABLE_ARRAYS = ("blob", "offsets", "text", "fallback")


def entry_key(*parts: object) -> str:
    """A file name for what was made from `parts`, values with a stable `repr`."""
    return hashlib.sha256(repr((FORMAT, *parts)).encode()).hexdigest()


def load_entry(key: str) -> tuple[TokenTable, Trie, str, dict[str, Any]] | None:
    """(table, trie, fingerprint, notes) of a kept vocabulary; None if there is no sound entry."""
    try:
        data = _entry_path(key).read_bytes()
    except OSError:
        return None
    start = len(_MAGIC) + _DIGEST_BYTES
    if not data.startswith(_MAGIC) or data[len(_MAGIC) : start] != checksum([memoryview(data)[start:]]):
        return None
    try:
        head = json.loads(data[start : data.index(b"\n", start)])
        arrays: dict[str, NDArray[Any]] = {
            name: np.frombuffer(data, dtype=_DTYPES[name], count=count, offset=offset)
            for name, (offset, count) in head["arrays"].items()
        }
        table = TokenTable(
            blob=arrays["blob"],
            offsets=arrays["offsets"],
            text=arrays["text"],
            fallback=arrays["fallback"],
            special_tokens=head["special_tokens"],
            eos_token_ids=tuple(head["eos_token_ids"]),
            size=head["size"],
            adds_leading_space=head["adds_leading_space"],
        )
        trie = Trie(**{field.name: arrays[field.name] for field in fields(Trie)})
        return table, trie, head["fingerprint"], head["notes"]
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def save_entry(key: str, table: TokenTable, trie: Trie, fingerprint: str, notes: dict[str, Any]) -> None:
    """Keep a vocabulary; a folder that cannot be written to only costs the next process the time to build again."""
    raw: dict[str, NDArray[Any]] = {
        name: np.ascontiguousarray(getattr(table if name in _TABLE_ARRAYS else trie, name), dtype=dtype)
        for name, dtype in _DTYPES.items()
    }
    head: dict[str, Any] = {
        "special_tokens": dict(table.special_tokens),
        "eos_token_ids": list(table.eos_token_ids),
        "size": table.size,
        "adds_leading_space": table.adds_leading_space,
        "fingerprint": fingerprint,
        "notes": notes,
        "arrays": {},
    }
    place = _aligned(len(_MAGIC) + _DIGEST_BYTES + len(json.dumps(head)) + 64 * len(raw))
    chunks: list[bytes | memoryview] = []
    offset = place
    for name, array in raw.items():
        head["arrays"][name] = (offset, len(array))
        padding = _aligned(array.nbytes) - array.nbytes
        chunks += [array.data.cast("B") if len(array) else b"", bytes(padding)]
        offset += array.nbytes + padding
    head_bytes = json.dumps(head).encode() + b"\n"
    body = [head_bytes.ljust(place - len(_MAGIC) - _DIGEST_BYTES, b"\0"), *chunks]
    with contextlib.suppress(OSError):
        write_whole(_entry_path(key), [_MAGIC, checksum(body), *body])


def _entry_path(key: str) -> Path:
    return cache_folder() / "vocabularies" / f"{key}.vocabulary"


def _aligned(count: int) -> int:
    return -(-count // _ALIGNMENT) * _ALIGNMENT
