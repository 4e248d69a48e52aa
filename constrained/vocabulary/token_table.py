"""What every loader comes down to: the bytes of each token id, and which ids are not text."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from constrained.vocabulary.errors import VocabularyError

LARGEST_SIZE = 1 << 24
"""Ids past this are taken for a damaged file (the largest vocabularies in use have about 2**18 tokens)."""


@dataclass(frozen=True, eq=False)
class TokenTable:
    """Token bytes as flat arrays.

    Attributes:
        blob: uint8[total], the bytes of all text tokens, one after the other in id order.
        offsets: int64[n + 1], token `i` is `blob[offsets[i]:offsets[i + 1]]`.
        text: bool[n], False for ids that no text produces (special and control tokens, end tokens, holes).
        fallback: bool[n], True for byte-fallback tokens such as `<0x0A>`; a token of the same bytes is preferred.
        special_tokens: name to id.
        eos_token_ids: ids that end a sequence, in the order of the source, without repeats.
        size: length of the logits, at least `n`.
        adds_leading_space: the tokenizer's encoder puts a space in front of a text (SentencePiece's dummy prefix).
    """

    blob: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    text: NDArray[np.bool_]
    fallback: NDArray[np.bool_]
    special_tokens: Mapping[str, int]
    eos_token_ids: tuple[int, ...]
    size: int
    adds_leading_space: bool = False

    def __post_init__(self) -> None:
        self._freeze()

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._freeze()  # numpy's pickles forget that an array was read-only

    def _freeze(self) -> None:
        for array in (self.blob, self.offsets, self.text, self.fallback):
            array.flags.writeable = False

    def __len__(self) -> int:
        return len(self.text)

    def token_bytes(self, token: int) -> bytes | None:
        """The bytes of one token, or None if it is not text."""
        if not self.text[token]:
            return None
        return self.blob[self.offsets[token] : self.offsets[token + 1]].tobytes()

    def tokens(self) -> tuple[bytes | None, ...]:
        """All tokens, materialised."""
        whole, ends, text = self.blob.tobytes(), self.offsets.tolist(), self.text.tolist()
        return tuple(whole[ends[i] : ends[i + 1]] if text[i] else None for i in range(len(text)))

    def fingerprint(self) -> str:
        """SHA-256 (hex) over everything that a mask depends on: bytes, flags, size, end tokens, special names."""
        digest = hashlib.sha256(b"constrained vocabulary 1\0")
        head = repr((self.size, len(self), tuple(sorted(self.eos_token_ids)), sorted(self.special_tokens.items())))
        digest.update(head.encode())
        for array in (self.offsets.astype("<i8"), self.text.astype("u1"), self.blob):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()


def make_token_table(
    tokens: Sequence[bytes | None],
    *,
    eos_token_ids: Iterable[int] = (),
    logits_size: int | None = None,
    special_tokens: Mapping[str, int] | None = None,
    fallback_ids: Iterable[int] = (),
    adds_leading_space: bool = False,
    source: str | None = None,
) -> TokenTable:
    """Check and pack tokens; special and end tokens lose their bytes, since no text may produce them.

    Args:
        tokens: bytes of each id; None for ids that no text produces.
        logits_size: length of the logits; None: as many as there are tokens.  Where it is smaller, ids past it are
            dropped if they are not text (a pad token that the model has no logit for); losing text is an error.

    Raises:
        VocabularyError: ids out of range, text past the logits, or an item that is neither bytes nor None.
    """
    special = _checked_ids(special_tokens or {}, source)
    eos = tuple(dict.fromkeys(_index(token, "end token", source) for token in eos_token_ids))
    size = len(tokens) if logits_size is None else _index(logits_size, "logits size", source)
    if not 0 < size <= LARGEST_SIZE or len(tokens) > LARGEST_SIZE:
        raise VocabularyError(f"{size} logits for {len(tokens)} tokens; 1 to {LARGEST_SIZE} are supported", source)
    for token in eos:
        if not 0 <= token < size:
            raise VocabularyError(f"end token {token} is outside the {size} logits; pass eos_token_ids", source)

    kept = list(tokens)
    for token in (*special.values(), *eos):
        if 0 <= token < len(kept):
            kept[token] = None
    lost = [token for token in range(size, len(kept)) if kept[token] is not None]
    if lost:
        raise VocabularyError(
            f"logits_size {size} loses token {lost[0]} ({kept[lost[0]]!r}), the tokenizer has {len(kept)} tokens;"
            f" for a model without logits for them use Vocabulary.from_token_bytes on the first {size}",
            source,
        )
    del kept[size:]
    special = {name: token for name, token in special.items() if token < size}

    lengths = np.zeros(len(kept), dtype=np.int64)
    text = np.zeros(len(kept), dtype=np.bool_)
    for token, data in enumerate(kept):
        if data is None:
            continue
        if not isinstance(data, bytes):
            raise VocabularyError(f"token {token} is {type(data).__name__}, not bytes or None", source)
        lengths[token] = len(data)
        text[token] = True
    offsets = np.zeros(len(kept) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    blob = np.frombuffer(b"".join(data for data in kept if data is not None), dtype=np.uint8)
    fallback = np.zeros(len(kept), dtype=np.bool_)
    fallback[[token for token in fallback_ids if token < len(kept)]] = True
    return TokenTable(blob, offsets, text, fallback, special, eos, size, adds_leading_space)


def _checked_ids(special_tokens: Mapping[str, int], source: str | None) -> dict[str, int]:
    checked = {}
    for name, token in special_tokens.items():
        checked[name] = _index(token, f"special token {name!r}", source)
        if not 0 <= checked[name] < LARGEST_SIZE:
            raise VocabularyError(f"special token {name!r} has the impossible id {token}", source)
    return checked


def _index(value: object, what: str, source: str | None) -> int:
    if isinstance(value, bool):
        raise VocabularyError(f"{what} is {value!r}, not an integer", source)
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise VocabularyError(f"{what} is {value!r}, not an integer", source) from None
