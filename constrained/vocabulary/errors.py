"""Errors of the vocabulary loaders."""

from __future__ import annotations

from pathlib import Path


class VocabularyError(ValueError):
    """A tokenizer that cannot be turned into token bytes; one line that says where, what was found, and the remedy.

    Attributes:
        message: what is wrong and the remedy.
        source: the file, or the kind of object, that was read; `None` for tokens passed in directly.
    """

    def __init__(self, message: str, source: str | Path | None = None) -> None:
        self.message = message
        self.source = None if source is None else str(source)
        super().__init__(message if source is None else f"{source}: {message}")

    def __reduce__(self) -> tuple[type[VocabularyError], tuple[str, str | None]]:
        return (type(self), (self.message, self.source))
