"""The tokenizer's part of a GGUF file's metadata, without touching the tensors.

Layout: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3, little-endian.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from constrained.vocabulary.errors import VocabularyError

_STRING, _ARRAY, _BOOL = 8, 9, 7
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", _BOOL: "?", 10: "Q", 11: "q", 12: "d"}
_LENGTH = struct.Struct("<Q")
_HEADER = struct.Struct("<4sIQQ")


class _Reader:
    """A cursor over the metadata; every read checks that the file is long enough."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.at = _HEADER.size

    def scalar(self, kind: int) -> Any:
        code = _SCALARS[kind]
        (value,) = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize(code)
        return value

    def string(self) -> bytes:
        (length,) = _LENGTH.unpack_from(self.data, self.at)
        start = self.at + _LENGTH.size
        self.at = start + length
        if self.at > len(self.data):
            raise struct.error("string past the end of the file")
        return self.data[start : self.at]

    def array(self, keep: bool) -> Any:
        kind, count = struct.unpack_from("<IQ", self.data, self.at)
        self.at += 12
        if kind != _STRING:
            width = struct.calcsize(_SCALARS[kind])
            start, self.at = self.at, self.at + count * width
            if self.at > len(self.data):
                raise struct.error("array past the end of the file")
            return np.frombuffer(self.data[start : self.at], dtype="<" + _SCALARS[kind]).tolist() if keep else None
        if count * _LENGTH.size > len(self.data) - self.at:
            raise struct.error("array past the end of the file")
        if keep:
            return [self.string() for _ in range(count)]
        unpack, data, at = _LENGTH.unpack_from, self.data, self.at
        for _ in range(count):
            at += unpack(data, at)[0] + 8
        self.at = at
        return None

    def value(self, keep: bool) -> Any:
        kind = self.scalar(4)
        if kind == _STRING:
            return self.string()
        return self.array(keep) if kind == _ARRAY else self.scalar(kind)


def read_gguf_metadata(path: Path, wanted: Callable[[str], bool]) -> tuple[dict[str, Any], int]:
    """The metadata values under wanted keys, and the length in bytes of header and metadata.

    Strings come as bytes, arrays as lists.

    Raises:
        VocabularyError: unreadable, not GGUF, truncated, or of a version or byte order that is not supported.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _read(data, wanted, path)
    except OSError as error:
        raise VocabularyError(f"cannot be read: {error.strerror or error}", path) from None
    except (struct.error, KeyError, UnicodeDecodeError, ValueError) as error:
        if isinstance(error, VocabularyError):
            raise
        raise VocabularyError(f"truncated or damaged GGUF metadata ({error}); fetch the file again", path) from None


def _read(data: mmap.mmap, wanted: Callable[[str], bool], path: Path) -> tuple[dict[str, Any], int]:
    magic, version, _tensors, count = _HEADER.unpack_from(data, 0)
    if magic != b"GGUF":
        raise VocabularyError(f"not a GGUF file (it starts with {magic!r})", path)
    if version not in (2, 3):
        raise VocabularyError(f"GGUF version {version:#x}; little-endian versions 2 and 3 are supported", path)
    reader = _Reader(data)
    found = {}
    for _ in range(count):
        key = reader.string().decode()
        value = reader.value(keep := wanted(key))
        if keep:
            found[key] = value
    if reader.at > len(data):
        raise struct.error("metadata past the end of the file")
    return found, reader.at
