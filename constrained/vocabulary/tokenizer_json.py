"""Token bytes from a Hugging Face `tokenizer.json` (byte-level BPE; BPE and Unigram with SentencePiece spelling).

What a token stands for is decided by the file's decoder, since that is what turns generated ids into text.  Decoders
that make the bytes of a token depend on its neighbours (WordPiece, BPEDecoder, CTC…) are refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from constrained.vocabulary.errors import VocabularyError
from constrained.vocabulary.piece_bytes import SPACE_MARK, byte_level_pieces, byte_of_piece
from constrained.vocabulary.token_table import LARGEST_SIZE, TokenTable, make_token_table

_REMEDY = "byte-level BPE and SentencePiece tokenizers are supported; for others use Vocabulary.from_token_bytes"


@dataclass(frozen=True)
class PieceSpelling:
    """How pieces spell bytes, as the decoder says.

    Attributes:
        byte_level: each character is a byte; the other attributes then do not apply.
        byte_fallback: pieces `<0x0A>` are bytes.
        replacements: (old, new) applied in turn to every piece.
    """

    byte_level: bool
    byte_fallback: bool = False
    replacements: tuple[tuple[str, str], ...] = ()

    def bytes_of(self, piece: str) -> bytes:
        """Bytes of a piece that is not byte-level and not a byte-fallback piece."""
        for old, new in self.replacements:
            piece = piece.replace(old, new)
        return piece.encode("utf-8", "surrogatepass")


@dataclass(frozen=True)
class TokenizerFile:
    """The parts of a tokenizer.json that matter here.

    Attributes:
        pieces: id to piece of the model's vocabulary and of the added text tokens.
        added_text: ids of added tokens that are text.
        special_tokens: name to id of special tokens and of the model's unknown token.
        spelling: how pieces spell bytes.
        adds_leading_space: the encoder puts a space in front of a text.
    """

    pieces: dict[int, str]
    added_text: frozenset[int]
    special_tokens: dict[str, int]
    spelling: PieceSpelling
    adds_leading_space: bool


def parse_tokenizer_json(data: bytes | str, source: str) -> TokenizerFile:
    """Read a tokenizer.json.

    Raises:
        VocabularyError: not JSON, parts missing or of the wrong type, or a model or decoder that is refused.
    """
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise VocabularyError(f"not a tokenizer.json: {error}; fetch the file again", source) from None
    if not isinstance(tree, dict) or not isinstance(tree.get("model"), dict):
        raise VocabularyError('not a tokenizer.json: it has no "model" object; was another file passed?', source)
    model = tree["model"]
    pieces = _model_pieces(model, source)
    special, added = _added_tokens(tree.get("added_tokens"), source)
    unknown = _unknown_token(model, pieces)
    if unknown is not None and unknown not in added:
        special.setdefault(pieces[unknown], unknown)
    spelling = _spelling(tree, model, source)
    return TokenizerFile(pieces | added, frozenset(added), special, spelling, _adds_leading_space(tree))


def token_table(file: TokenizerFile, eos_token_ids: Iterable[int], logits_size: int | None, source: str) -> TokenTable:
    """The bytes of every token of a parsed file."""
    specials = set(file.special_tokens.values())
    ids = [token for token in file.pieces if token not in specials]
    tokens: list[bytes | None] = [None] * (max([*file.pieces, *specials], default=-1) + 1)
    fallback = []
    if file.spelling.byte_level:
        model_ids = [token for token in ids if token not in file.added_text]
        for token, data in zip(model_ids, byte_level_pieces([file.pieces[i] for i in model_ids]), strict=True):
            tokens[token] = data
        for token in file.added_text - specials:
            tokens[token] = file.pieces[token].encode("utf-8", "surrogatepass")
    else:
        for token in ids:
            piece = file.pieces[token]
            byte = byte_of_piece(piece) if file.spelling.byte_fallback and token not in file.added_text else None
            if byte is None:
                tokens[token] = file.spelling.bytes_of(piece)
            else:
                tokens[token] = bytes((byte,))
                fallback.append(token)
    return make_token_table(
        tokens,
        eos_token_ids=eos_token_ids,
        logits_size=logits_size,
        special_tokens=file.special_tokens,
        fallback_ids=fallback,
        adds_leading_space=file.adds_leading_space,
        source=source,
    )


def _model_pieces(model: Mapping[str, Any], source: str) -> dict[int, str]:
    kind = model.get("type") or ("BPE" if "merges" in model else None)  # files of 2020 leave the type out
    if kind not in ("BPE", "Unigram"):
        raise VocabularyError(f"unsupported model type {kind!r}; {_REMEDY}", source)
    for part in ("continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(part):
            raise VocabularyError(
                f"pieces depend on their neighbours (model.{part} {model[part]!r}); {_REMEDY}", source
            )
    vocab = model.get("vocab")
    if kind == "Unigram" and isinstance(vocab, list):
        try:
            pieces = {token: piece for token, (piece, _score) in enumerate(vocab)}
        except (TypeError, ValueError):
            raise VocabularyError("model.vocab is not a list of [piece, score]; fetch the file again", source) from None
        if not all(isinstance(piece, str) for piece in pieces.values()):
            raise VocabularyError("model.vocab has a piece that is not text; fetch the file again", source)
        return pieces
    if kind == "BPE" and isinstance(vocab, dict):
        pieces = {}
        for piece, token in vocab.items():
            if type(token) is not int or not 0 <= token < LARGEST_SIZE:
                raise VocabularyError(f"model.vocab gives {piece!r} the bad id {token!r}; fetch the file again", source)
            pieces[token] = piece
        if len(pieces) != len(vocab):
            raise VocabularyError("model.vocab gives two pieces the same id; fetch the file again", source)
        return pieces
    raise VocabularyError("model.vocab is missing or of the wrong type; fetch the file again", source)


def _unknown_token(model: Mapping[str, Any], pieces: Mapping[int, str]) -> int | None:
    if isinstance(model.get("unk_id"), int):
        return model["unk_id"] if model["unk_id"] in pieces else None
    name = model.get("unk_token")
    if name is None:
        return None
    return next((token for token, piece in pieces.items() if piece == name), None)


def _added_tokens(added: Any, source: str) -> tuple[dict[str, int], dict[int, str]]:
    """(special name to id, text id to content)."""
    special: dict[str, int] = {}
    text: dict[int, str] = {}
    if not isinstance(added, list | None):
        raise VocabularyError("added_tokens is not a list; fetch the file again", source)
    for item in added or []:
        token, content = (item.get("id"), item.get("content")) if isinstance(item, dict) else (None, None)
        if type(token) is not int or not 0 <= token < LARGEST_SIZE or not isinstance(content, str):
            raise VocabularyError(f"added_tokens has the malformed entry {item!r:.80}; fetch the file again", source)
        if item.get("special"):
            special[content] = token
        else:
            text[token] = content
    return special, text


def _spelling(tree: Mapping[str, Any], model: Mapping[str, Any], source: str) -> PieceSpelling:
    decoder = tree.get("decoder")
    if decoder is None:
        if any(part.get("type") == "ByteLevel" for part in _parts(tree.get("pre_tokenizer"), "pretokenizers")):
            return PieceSpelling(byte_level=True)
        raise VocabularyError(f"no decoder says what the pieces stand for; {_REMEDY}", source)
    replacements: list[tuple[str, str]] = []
    byte_level = fallback = fused = False
    for part in _parts(decoder, "decoders"):
        kind = part.get("type")
        if kind == "ByteLevel" and not (replacements or fallback or fused):
            byte_level = True
        elif kind == "Metaspace" and not (byte_level or fused):
            replacements.append((part.get("replacement", SPACE_MARK), " "))
        elif kind == "Replace" and not (byte_level or fused) and _string_pattern(part) is not None:
            replacements.append((str(_string_pattern(part)), str(part.get("content", ""))))
        elif kind == "ByteFallback" and not byte_level:
            fallback = True
        elif kind == "Fuse":
            fused = True
        elif kind == "Strip" and fused and part.get("content") == " " and not part.get("stop"):
            pass  # takes the dummy space off the front of the whole text, not off tokens
        else:
            raise VocabularyError(f"unsupported decoder {kind!r} ({json.dumps(part)[:80]}); {_REMEDY}", source)
    return PieceSpelling(byte_level, fallback, tuple(replacements))


def _string_pattern(part: Mapping[str, Any]) -> str | None:
    pattern = part.get("pattern")
    found = pattern.get("String") if isinstance(pattern, dict) else None
    return found if isinstance(found, str) and found else None


def _parts(step: Any, key: str) -> list[Mapping[str, Any]]:
    """The steps of a decoder, normalizer or pre-tokenizer, with sequences flattened."""
    if not isinstance(step, dict):
        return []
    if step.get("type") == "Sequence":
        return [part for item in step.get(key) or [] for part in _parts(item, key)]
    return [step]


def _adds_leading_space(tree: Mapping[str, Any]) -> bool:
    if any(part.get("type") == "Prepend" for part in _parts(tree.get("normalizer"), "normalizers")):
        return True
    for part in _parts(tree.get("pre_tokenizer"), "pretokenizers"):
        if part.get("type") == "ByteLevel" and part.get("add_prefix_space", True):
            return True
        if part.get("type") == "Metaspace":
            return bool(part.get("prepend_scheme", "always") != "never" and part.get("add_prefix_space", True))
    return False
