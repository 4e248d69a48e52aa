"""Token bytes from the `tokenizer.ggml.*` metadata of GGUF: byte-level BPE ("gpt2"), SentencePiece ("llama", "t5")."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from constrained.vocabulary.errors import VocabularyError
from constrained.vocabulary.gguf_metadata import read_gguf_metadata
from constrained.vocabulary.model_files import well_known_end_tokens
from constrained.vocabulary.piece_bytes import byte_level_pieces, byte_of_piece, marked_piece
from constrained.vocabulary.token_table import TokenTable, make_token_table

_PREFIX = "tokenizer.ggml."
_UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = 2, 3, 4, 5, 6
_END_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")
_WANTED = {"model", "tokens", "token_type", "add_space_prefix", *_END_KEYS}


def read_gguf_tokens(
    path: Path, eos_token_ids: Iterable[int] | None, logits_size: int | None
) -> tuple[TokenTable, int]:
    """The tokens of a GGUF file, and the length in bytes of the part of the file that decides them.

    End tokens, where not passed, are those that the metadata names and the control tokens with well-known names (the
    metadata has room for one id a kind).  As many logits as tokens, where not passed: converters pad the token list.

    Raises:
        VocabularyError: a damaged file, no tokenizer in it, or a kind of tokenizer that is not supported.
    """
    metadata, length = read_gguf_metadata(path, lambda key: key.removeprefix(_PREFIX) in _WANTED)
    source = str(path)
    pieces = _pieces(metadata, source)
    types = metadata.get(_PREFIX + "token_type") or [1] * len(pieces)
    if not isinstance(types, list) or len(types) != len(pieces):
        raise VocabularyError(f"{len(pieces)} tokens but not as many token types; fetch the file again", source)
    special: dict[str, int] = {}
    for token, (piece, kind) in enumerate(zip(pieces, types, strict=True)):
        if kind in (_CONTROL, _UNKNOWN):
            special.setdefault(piece, token)
    kind = metadata.get(_PREFIX + "model", b"").decode("utf-8", "replace")
    tokens, fallback = _token_bytes(kind, pieces, types, source)
    if eos_token_ids is None:
        named = [metadata[_PREFIX + key] for key in _END_KEYS if _PREFIX + key in metadata]
        eos_token_ids = (*named, *well_known_end_tokens(special))
    table = make_token_table(
        tokens,
        eos_token_ids=eos_token_ids,
        logits_size=logits_size,
        special_tokens=special,
        fallback_ids=fallback,
        adds_leading_space=kind != "gpt2" and bool(metadata.get(_PREFIX + "add_space_prefix", True)),
        source=source,
    )
    return table, length


def _pieces(metadata: dict[str, Any], source: str) -> list[str]:
    raw = metadata.get(_PREFIX + "tokens")
    if not isinstance(raw, list) or not all(isinstance(piece, bytes) for piece in raw):
        raise VocabularyError("no tokenizer in the metadata; use the model's tokenizer.json", source)
    try:
        return [piece.decode() for piece in raw]
    except UnicodeDecodeError as error:
        raise VocabularyError(f"a token is not UTF-8 ({error}); fetch the file again", source) from None


def _token_bytes(kind: str, pieces: list[str], types: list[int], source: str) -> tuple[list[bytes | None], list[int]]:
    """(bytes of each token, ids of byte-fallback tokens)."""
    if kind not in ("gpt2", "llama", "t5"):
        raise VocabularyError(f"unsupported tokenizer kind {kind!r}; use the model's tokenizer.json", source)
    tokens: list[bytes | None] = list(byte_level_pieces(pieces)) if kind == "gpt2" else [*map(marked_piece, pieces)]
    fallback = []
    for token, type_ in enumerate(types):
        if type_ == 1:
            continue
        if type_ in (_CONTROL, _UNKNOWN, _UNUSED):
            tokens[token] = None
        elif type_ == _USER_DEFINED:  # written as the text itself, also among byte-level pieces
            tokens[token] = marked_piece(pieces[token]) if kind != "gpt2" else pieces[token].encode()
        elif type_ == _BYTE:
            byte = byte_of_piece(pieces[token])
            if byte is None:
                raise VocabularyError(f"byte token {token} is spelled {pieces[token]!r}; fetch the file again", source)
            tokens[token] = bytes((byte,))
            fallback.append(token)
        else:
            raise VocabularyError(f"token {token} has the unknown type {type_}; fetch the file again", source)
    return tokens, fallback
