"""Token bytes from tokenizer objects of other libraries; each library is only needed by those who pass its objects."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from constrained.vocabulary.errors import VocabularyError
from constrained.vocabulary.model_files import ModelFacts, read_model_facts, well_known_end_tokens
from constrained.vocabulary.piece_bytes import SPACE_MARK, byte_of_piece, marked_piece
from constrained.vocabulary.token_table import TokenTable, make_token_table


def fast_tokenizer(tokenizer: Any) -> Any:
    """The `tokenizers.Tokenizer` inside a Transformers tokenizer (or the object itself, if it is one).

    Raises:
        VocabularyError: a tokenizer written in Python, whose tokens' bytes nothing states.
    """
    inner = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not hasattr(inner, "to_str"):
        raise VocabularyError(
            "not backed by the tokenizers library; load it with AutoTokenizer (use_fast=True), or pass its model file"
            " to Vocabulary.from_sentencepiece or Vocabulary.from_tokenizer_json",
            type(tokenizer).__name__,
        )
    return inner


def transformers_facts(tokenizer: Any) -> ModelFacts:
    """End tokens and logits size for a Transformers tokenizer, from its folder where it came from one."""
    folder = getattr(tokenizer, "name_or_path", "")
    facts = read_model_facts(Path(folder)) if folder and os.path.isdir(folder) else ModelFacts()
    name = getattr(tokenizer, "eos_token", None)
    return facts if name is None else ModelFacts(facts.eos_token_ids, str(name), facts.logits_size)


def tiktoken_table(encoding: Any, eos_token_ids: Iterable[int] | None, logits_size: int | None) -> TokenTable:
    """The tokens of a `tiktoken.Encoding`.  End tokens, where not passed, are those with well-known names."""
    source = f"tiktoken encoding {encoding.name}"
    tokens: list[bytes | None] = [None] * encoding.n_vocab
    for token in range(encoding.n_vocab):
        try:
            tokens[token] = encoding.decode_single_token_bytes(token)
        except KeyError:
            continue  # a hole in the numbering
    special = {name: encoding.encode_single_token(name) for name in sorted(encoding.special_tokens_set)}
    return make_token_table(
        tokens,
        eos_token_ids=well_known_end_tokens(special) if eos_token_ids is None else eos_token_ids,
        logits_size=logits_size,
        special_tokens=special,
        source=source,
    )


def load_sentencepiece(path: Path) -> Any:
    """A `SentencePieceProcessor` from a model file.

    Raises:
        VocabularyError: unreadable or damaged file.
    """
    from sentencepiece import SentencePieceProcessor

    try:
        data = path.read_bytes()
    except OSError as error:
        raise VocabularyError(f"cannot be read: {error.strerror}", path) from None
    processor = SentencePieceProcessor()
    try:
        loaded = processor.LoadFromSerializedProto(data)
    except RuntimeError:
        loaded = False
    if not loaded or processor.get_piece_size() == 0:
        raise VocabularyError("not a SentencePiece model; fetch the file again", path)
    return processor


def sentencepiece_table(
    processor: Any, eos_token_ids: Iterable[int] | None, logits_size: int | None, source: str
) -> TokenTable:
    """The tokens of a `SentencePieceProcessor`.

    End tokens, where not passed: the model's own and the control tokens with well-known names.
    """
    count = processor.get_piece_size()
    pieces = processor.id_to_piece(list(range(count)))
    tokens: list[bytes | None] = [None] * count
    special: dict[str, int] = {}
    fallback = []
    for token, piece in enumerate(pieces):
        if processor.is_control(token) or processor.is_unknown(token):
            special.setdefault(piece, token)
        elif processor.is_byte(token):
            byte = byte_of_piece(piece)
            if byte is None:
                raise VocabularyError(f"byte token {token} is spelled {piece!r}", source)
            tokens[token] = bytes((byte,))
            fallback.append(token)
        elif not processor.is_unused(token):
            tokens[token] = marked_piece(piece)
    if eos_token_ids is None:
        own = processor.eos_id()
        eos_token_ids = (*((own,) if own >= 0 else ()), *well_known_end_tokens(special))
    return make_token_table(
        tokens,
        eos_token_ids=eos_token_ids,
        logits_size=logits_size,
        special_tokens=special,
        fallback_ids=fallback,
        adds_leading_space="".join(processor.encode("a", out_type=str)).startswith(SPACE_MARK),
        source=source,
    )
