"""The vocabulary of a tokenizer: what each token id means in bytes, ready to be walked."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from constrained.vocabulary.canonical import anchored_encoding
from constrained.vocabulary.encoders import (
    Encoder,
    SentencePieceEncoder,
    TiktokenEncoder,
    TokenizerFileEncoder,
    TokenizersEncoder,
    content_digest,
)
from constrained.vocabulary.errors import VocabularyError
from constrained.vocabulary.gguf_tokens import read_gguf_tokens
from constrained.vocabulary.model_files import ModelFacts, read_model_facts
from constrained.vocabulary.spelled import spelled_table
from constrained.vocabulary.store import entry_key, load_entry, save_entry
from constrained.vocabulary.token_table import TokenTable, make_token_table
from constrained.vocabulary.tokenizer_json import parse_tokenizer_json, token_table
from constrained.vocabulary.tokenizer_objects import (
    fast_tokenizer,
    load_sentencepiece,
    sentencepiece_table,
    tiktoken_table,
    transformers_facts,
)
from constrained.vocabulary.trie import Trie, build_trie

_GGUF_HEAD_BYTES = 1 << 16


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Token bytes, trie and end tokens of one tokenizer; immutable, safe to share between threads, picklable.

    Two vocabularies are equal when their fingerprints are.  Built vocabularies of files are kept in the cache folder.

    Attributes:
        table: the tokens as flat arrays.
        trie: the tokens as a trie.
        fingerprint: hex SHA-256 over everything that a mask depends on.
        encoder: the tokenizer as a function, for canonical tokenisation; None where there is none.
    """

    table: TokenTable = field(repr=False)
    trie: Trie = field(repr=False)
    fingerprint: str
    encoder: Encoder | None = field(default=None, repr=False)

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
        return cls._built(
            make_token_table(
                tokens, eos_token_ids=eos_token_ids, logits_size=logits_size, special_tokens=special_tokens
            )
        )

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
            VocabularyError: unreadable or malformed file, or tokens that have no bytes of their own (WordPiece).
        """
        path = Path(path)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise VocabularyError(f"cannot be read: {error.strerror}", path) from None
        digest, facts = content_digest(data), read_model_facts(path.parent)
        encoder = TokenizerFileEncoder(path.absolute(), digest)
        return cls._from_tokenizer(data, digest, str(path), facts, logits_size, eos_token_ids, encoder)

    @classmethod
    def from_huggingface(
        cls,
        tokenizer: Any,
        logits_size: int | None = None,
        eos_token_ids: Iterable[int] | None = None,
    ) -> Vocabulary:
        """A vocabulary from a Transformers tokenizer or a `tokenizers.Tokenizer`.

        End tokens and the length of the logits are found as for a tokenizer.json if the tokenizer came from a folder;
        otherwise the tokenizer's `eos_token` and well-known names are the end tokens.  Pass `logits_size` where the
        model's logits are longer than the tokenizer (`model.config.vocab_size`).

        Raises:
            VocabularyError: a tokenizer written in Python, or of a kind whose tokens have no bytes of their own.
        """
        inner = fast_tokenizer(tokenizer)
        data = inner.to_str().encode("utf-8", "surrogatepass")
        facts = transformers_facts(tokenizer)
        source = f"tokenizer {getattr(tokenizer, 'name_or_path', '') or type(tokenizer).__name__}"
        digest, encoder = content_digest(data), TokenizersEncoder(inner)
        return cls._from_tokenizer(data, digest, source, facts, logits_size, eos_token_ids, encoder)

    @classmethod
    def from_tiktoken(
        cls, encoding: Any, logits_size: int | None = None, eos_token_ids: Iterable[int] | None = None
    ) -> Vocabulary:
        """A vocabulary from a `tiktoken.Encoding`."""
        return cls._built(tiktoken_table(encoding, eos_token_ids, logits_size), TiktokenEncoder(encoding))

    @classmethod
    def from_sentencepiece(
        cls, model: Any, logits_size: int | None = None, eos_token_ids: Iterable[int] | None = None
    ) -> Vocabulary:
        """A vocabulary from a SentencePiece model: a `SentencePieceProcessor` or the path of a model file.

        Raises:
            VocabularyError: unreadable or damaged file.
        """
        source = "SentencePiece model"
        if isinstance(model, str | os.PathLike):
            source, model = str(model), load_sentencepiece(Path(model))
        table = sentencepiece_table(model, eos_token_ids, logits_size, source)
        return cls._built(table, SentencePieceEncoder(model))

    @classmethod
    def from_gguf(
        cls,
        path: str | os.PathLike[str],
        logits_size: int | None = None,
        eos_token_ids: Iterable[int] | None = None,
    ) -> Vocabulary:
        """A vocabulary from the metadata of a GGUF model; the tensors are not read.

        No tokenizer is attached: see `with_encoder`.

        Raises:
            VocabularyError: unreadable or damaged file, or a kind of tokenizer that is not supported.
        """
        path = Path(path)
        eos = None if eos_token_ids is None else tuple(eos_token_ids)
        try:
            with path.open("rb") as file:
                head = file.read(_GGUF_HEAD_BYTES)
                key = entry_key("gguf", content_digest(head), os.fstat(file.fileno()).st_size, eos, logits_size)
                # How long the metadata are is only known after a slow parse, so the entry says how much it rests on.
                if (kept := load_entry(key)) is not None:
                    table, trie, fingerprint, notes = kept
                    rest = file.read(max(0, notes["length"] - len(head)))
                    if content_digest((head + rest)[: notes["length"]]) == notes["digest"]:
                        return cls(table, trie, fingerprint)
        except OSError as error:
            raise VocabularyError(f"cannot be read: {error.strerror}", path) from None
        table, length = read_gguf_tokens(path, eos, logits_size)
        vocabulary = cls._built(table)
        with path.open("rb") as file:
            notes = {"length": length, "digest": content_digest(file.read(length))}
        save_entry(key, table, vocabulary.trie, vocabulary.fingerprint, notes)
        return vocabulary

    @classmethod
    def _built(cls, table: TokenTable, encoder: Encoder | None = None) -> Vocabulary:
        return cls(table, build_trie(table), table.fingerprint(), encoder)

    @classmethod
    def _from_tokenizer(
        cls,
        data: bytes,
        digest: str,
        source: str,
        facts: ModelFacts,
        logits_size: int | None,
        eos_token_ids: Iterable[int] | None,
        encoder: Encoder,
    ) -> Vocabulary:
        """A vocabulary from the text of a tokenizer.json, kept under everything that goes into it."""
        eos = None if eos_token_ids is None else tuple(eos_token_ids)
        if logits_size is None:
            logits_size = facts.logits_size

        key = entry_key("tokenizer.json", digest, facts, eos, logits_size)
        if (kept := load_entry(key)) is not None:
            table, trie, fingerprint, _notes = kept
            return cls(table, trie, fingerprint, encoder)
        parsed = parse_tokenizer_json(data, source)
        if eos is None:
            names = {parsed.pieces[token]: token for token in parsed.added_text}
            eos = facts.end_tokens(parsed.special_tokens, names)
        vocabulary = cls._built(token_table(parsed, eos, logits_size, source), encoder)
        save_entry(key, vocabulary.table, vocabulary.trie, vocabulary.fingerprint, {})
        return vocabulary

    def keep(self) -> None:
        """Write the vocabulary to the cache folder, where `kept` finds it by its fingerprint."""
        key = entry_key("fingerprint", self.fingerprint)
        if load_entry(key) is None:
            save_entry(key, self.table, self.trie, self.fingerprint, {})

    @classmethod
    def kept(cls, fingerprint: str) -> Vocabulary:
        """The vocabulary that `keep` wrote, without a tokenizer attached.

        Raises:
            VocabularyError: it is not in the cache folder.
        """
        entry = load_entry(entry_key("fingerprint", fingerprint))
        if entry is None:
            raise VocabularyError(
                f"no vocabulary with fingerprint {fingerprint[:12]}… is in use here or in the cache folder; "
                "load it first (Vocabulary.from_...)"
            )
        table, trie, found, _notes = entry
        return cls(table, trie, found)

    def with_encoder(self, encoder: Encoder | None) -> Vocabulary:
        """The same vocabulary with another tokenizer (or none) for `canonical`."""
        return replace(self, encoder=encoder)

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

    @cached_property
    def special_tokens(self) -> Mapping[str, int]:
        """Name to id of the special and control tokens, read-only."""
        return MappingProxyType(dict(self.table.special_tokens))

    @cached_property
    def spelled(self) -> Vocabulary:
        """The same tokens with bytes for those that are no text; see `constrained.vocabulary.spelled`."""
        table = spelled_table(self.table)
        return Vocabulary(table, build_trie(table), table.fingerprint(), self.encoder)

    @cached_property
    def longest_token(self) -> int:
        """Bytes of the longest token."""
        return int(np.diff(self.table.offsets).max(initial=0))

    @cached_property
    def missing_bytes(self) -> frozenset[int]:
        """Bytes that are in no token, so that no text with them can be written.

        Byte-level vocabularies usually have every byte; those that kept only what their training text held (SmolLM)
        lack some control characters and the first bytes of unassigned planes.
        """
        return frozenset(range(256)) - set(np.unique(self.table.blob).tolist())

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

    def shortest_tokenization(self, data: bytes) -> list[int] | None:
        """The fewest tokens whose bytes joined are `data`; None if no tokens make it up."""
        return self.trie.shortest_tokenization(data)

    def canonical(self, text: str | bytes) -> list[int]:
        """The tokens as which `text` stands in the middle of a text, as the tokenizer would write it.

        Without a tokenizer, and where the tokenizer changes the text (Unicode normalisation, a special token's name,
        bytes that are not UTF-8), it is the shortest tokenisation.

        Raises:
            VocabularyError: no tokens make up the text.
        """
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        if self.encoder is not None:
            found = anchored_encoding(self.encoder, data, self.token_bytes, self.table.adds_leading_space)
            if found is not None:
                return found
        shortest = self.shortest_tokenization(data)
        if shortest is None:
            raise VocabularyError(f"no tokens make up {data!r:.80}; the vocabulary lacks some of its bytes")
        return shortest

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __getstate__(self) -> dict[str, Any]:
        kept = ("table", "trie", "fingerprint", "encoder")
        return {name: getattr(self, name) for name in kept}
