"""The vocabulary of a tokenizer: what each token id means in bytes, ready to be walked."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from constrained.vocabulary.errors import VocabularyError
from constrained.vocabulary.model_files import read_model_facts
from constrained.vocabulary.token_table import TokenTable, make_token_table
from constrained.vocabulary.tokenizer_json import parse_tokenizer_json, token_table
from constrained.vocabulary.trie import Trie, build_trie


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Token bytes, trie and end tokens of one tokenizer; immutable, safe to share between threads, picklable.

    Two vocabularies are equal when their fingerprints are.

    Attributes:
        table: the tokens as flat arrays.
        trie: the tokens as a trie.
        fingerprint: hex SHA-256 over everything that a mask depends on.
    """

    table: TokenTable = field(repr=False)
    trie: Trie = field(repr=False)
    fingerprint: str

    @classmethod
    def from_token_bytes(
        cls,
        tokens: Sequence[bytes | None],
        eos_token_ids: Iterable[int] = (),
        logits_size: int | None = None,
        special_tokens: Mapping[str, int] | None = None,
    ) -> Vocabulary:
        """A vocabulary from the bytes of each token id; None stands for a token that no text produces.

        Raises:
            VocabularyError: an id out of range, an item that is neither bytes nor None, `logits_size` too small.
        """
        table = make_token_table(
            tokens, eos_token_ids=eos_token_ids, logits_size=logits_size, special_tokens=special_tokens
        )
        return cls._of(table)

    @classmethod
    def from_tokenizer_json(
        cls,
        path: str | os.PathLike[str],
        logits_size: int | None = None,
        eos_token_ids: Iterable[int] | None = None,
    ) -> Vocabulary:
        """A vocabulary from a Hugging Face tokenizer.json.

        End tokens and the length of the logits, where not passed, come from generation_config.json, config.json and
        tokenizer_config.json in the same folder, else from well-known names and from the number of tokens.

        Raises:
            VocabularyError: unreadable or malformed file, or a kind of tokenizer whose tokens have no bytes of their own.
        """
        path = Path(path)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise VocabularyError(f"cannot be read: {error.strerror}", path) from None
        facts = read_model_facts(path.parent)
        file = parse_tokenizer_json(data, str(path))
        if eos_token_ids is None:
            eos_token_ids = facts.end_tokens(file.special_tokens, {piece: i for i, piece in file.pieces.items()})
        if logits_size is None:
            logits_size = facts.logits_size
        return cls._of(token_table(file, eos_token_ids, logits_size, str(path)))

    @classmethod
    def _of(cls, table: TokenTable) -> Vocabulary:
        return cls(table, build_trie(table), table.fingerprint())

    @property
    def size(self) -> int:
        """Length of the logits; at least the number of tokens."""
        return self.table.size

    @property
    def row_words(self) -> int:
        """Words of a mask row: uint32[ceil(size / 32)]."""
        return (self.table.size + 31) // 32

    @property
    def eos_token_ids(self) -> tuple[int, ...]:
        """Ids that end a sequence."""
        return self.table.eos_token_ids

    @property
    def special_tokens(self) -> Mapping[str, int]:
        """Name to id of the special and control tokens, read-only."""
        return MappingProxyType(dict(self.table.special_tokens))

    @cached_property
    def longest_token(self) -> int:
        """Bytes of the longest token."""
        return int(np.diff(self.table.offsets).max(initial=0))

    @cached_property
    def tokens(self) -> tuple[bytes | None, ...]:
        """The bytes of every token, None where no text produces it; materialised on first use."""
        return self.table.tokens()

    def token_bytes(self, token: int) -> bytes | None:
        """The bytes of a token; None for special tokens, end tokens, holes, and ids of padded logits.

        Raises:
            IndexError: not an id of the logits.
        """
        if not 0 <= token < self.table.size:
            raise IndexError(f"token {token} is outside the {self.table.size} logits")
        return self.table.token_bytes(token) if token < len(self.table) else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __getstate__(self) -> dict[str, Any]:
        return {"table": self.table, "trie": self.trie, "fingerprint": self.fingerprint}
