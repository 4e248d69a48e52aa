"""Tokenizers as functions from text to ids: what canonical tokenisation asks.  All of them pickle."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from constrained.vocabulary.errors import VocabularyError


class Encoder(Protocol):
    """Text to token ids, without any special tokens in front or behind."""

    def __call__(self, text: str, /) -> Sequence[int]: ...


@dataclass(frozen=True)
class TokenizerFileEncoder:
    """The tokenizer of a tokenizer.json, loaded when it is first asked (a large one takes half a second).

    Attributes:
        path: the file.
        digest: SHA-256 of its content when the vocabulary was made.
    """

    path: Path
    digest: str

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        try:
            data = self.path.read_bytes()
        except OSError as error:
            raise VocabularyError(f"cannot be read any more: {error.strerror}", self.path) from None
        if content_digest(data) != self.digest:
            raise VocabularyError("has changed since the vocabulary was made; load the vocabulary again", self.path)
        return Tokenizer.from_buffer(data)

    def __call__(self, text: str, /) -> Sequence[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "digest": self.digest}


@dataclass(frozen=True)
class TokenizersEncoder:
    """A `tokenizers.Tokenizer` object."""

    tokenizer: Any

    def __call__(self, text: str, /) -> Sequence[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return ids


@dataclass(frozen=True)
class TiktokenEncoder:
    """A `tiktoken.Encoding` object."""

    encoding: Any

    def __call__(self, text: str, /) -> Sequence[int]:
        ids: list[int] = self.encoding.encode_ordinary(text)
        return ids


@dataclass(frozen=True)
class SentencePieceEncoder:
    """A `sentencepiece.SentencePieceProcessor` object."""

    processor: Any

    def __call__(self, text: str, /) -> Sequence[int]:
        ids: list[int] = self.processor.encode(text)
        return ids


def content_digest(data: bytes) -> str:
    """SHA-256 (hex) of a file's content."""
    return hashlib.sha256(data).hexdigest()
