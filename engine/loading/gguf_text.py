"""The tokenizer that a GGUF describes, rebuilt for the `tokenizers` library.

A GGUF holds the vocabulary, the merges or scores, and the name of the rule by which text is cut before merging; the
rules themselves are those of llama.cpp (src/llama-vocab.cpp) and of the published `tokenizer.json` files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from engine.config import gguf_end_tokens
from engine.errors import EngineError, TextError
from engine.text import Text

CONTROL, USER_DEFINED = 3, 4

_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPLITS = {
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "qwen2": _QWEN2,
    "deepseek-r1-qwen": _QWEN2,
    "tekken": _TEKKEN,
}
"""Rules that are one regular expression."""

GPT2_RULES = ("gpt-2",)
"""GPT-2's expression, which the library has built in."""

DIGIT_RULES = ("smollm", "starcoder", "refact", "command-r", "codeshell")
"""Each digit alone, then GPT-2's expression."""


def read_gguf_text(metadata: Mapping[str, Any]) -> Text:
    """The tokenizer, end tokens and chat template in a GGUF's metadata.

    Raises:
        TextError: a tokenizer or pre-tokenizer kind that is not rebuilt here, or a malformed one.
    """
    try:
        return _read(metadata)
    except EngineError:
        raise
    except Exception as error:  # the tokenizers library raises bare Exception
        raise TextError(f"the GGUF's tokenizer is malformed: fetch the file again ({error})") from None


def _read(metadata: Mapping[str, Any]) -> Text:
    tokens = metadata.get("tokenizer.ggml.tokens")
    if not tokens:
        raise TextError("the GGUF holds no vocabulary: take one that does, or a model directory")
    kind = metadata.get("tokenizer.ggml.model")
    if kind == "gpt2":
        tokenizer = _byte_level(metadata, tokens)
    elif kind == "llama":
        tokenizer = _sentencepiece(metadata, tokens)
    else:
        raise TextError(f"GGUF tokenizer kind {kind!r}: 'gpt2' and 'llama' are read; take a model directory instead")
    _add_special_tokens(tokenizer, metadata, tokens)
    _add_beginning(tokenizer, metadata, tokens, kind)

    special_tokens = {
        name: tokens[metadata[key]]
        for name, key in (
            ("bos_token", "tokenizer.ggml.bos_token_id"),
            ("eos_token", "tokenizer.ggml.eos_token_id"),
            ("unk_token", "tokenizer.ggml.unknown_token_id"),
            ("pad_token", "tokenizer.ggml.padding_token_id"),
        )
        if key in metadata
    }
    templates = {
        key.removeprefix("tokenizer.chat_template").removeprefix(".") or "default": str(value)
        for key, value in metadata.items()
        if key == "tokenizer.chat_template" or key.startswith("tokenizer.chat_template.")
    }
    return Text(tokenizer, gguf_end_tokens(metadata), templates, special_tokens)


def _byte_level(metadata: Mapping[str, Any], tokens: Sequence[str]) -> Tokenizer:
    """Byte-level BPE with the file's own merges."""
    rule = metadata.get("tokenizer.ggml.pre")
    merges = [tuple(merge.split(" ", 1)) for merge in metadata.get("tokenizer.ggml.merges", ())]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    # Llama 3's vocabulary has whole words that no chain of merges reaches.
    whole_words = SPLITS.get(str(rule)) is _LLAMA3
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=whole_words))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    if rule in SPLITS:
        split = pre_tokenizers.Split(Regex(SPLITS[rule]), behavior="isolated")
        bare = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, bare])
        if SPLITS[rule] is _QWEN2:
            tokenizer.normalizer = normalizers.NFC()
    elif rule in DIGIT_RULES:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    elif rule in GPT2_RULES:
        tokenizer.pre_tokenizer = byte_level
    else:
        known = ", ".join((*GPT2_RULES, *DIGIT_RULES, *SPLITS))
        raise TextError(f"GGUF pre-tokenizer {rule!r}: {known} are read; take a model directory instead")
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _sentencepiece(metadata: Mapping[str, Any], tokens: Sequence[str]) -> Tokenizer:
    """SentencePiece BPE: spaces written as U+2581, unknown characters as byte tokens, merges from the file's scores."""
    vocabulary = {token: index for index, token in enumerate(tokens)}
    scores = metadata.get("tokenizer.ggml.scores") or [-float(index) for index in range(len(tokens))]
    unknown = tokens[int(metadata.get("tokenizer.ggml.unknown_token_id", 0))]
    merges = merges_from_scores(vocabulary, scores)
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True))
    prefix = bool(metadata.get("tokenizer.ggml.add_space_prefix", True))
    spaces = normalizers.Replace(" ", "\u2581")
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), spaces]) if prefix else spaces
    steps = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)] if prefix else steps)
    return tokenizer


def merges_from_scores(vocabulary: Mapping[str, int], scores: Sequence[float]) -> list[tuple[str, str]]:
    """The merges that a SentencePiece vocabulary implies: any two tokens whose join is a token, best score first.

    Equal scores (Llama 2's runs of spaces have one) go by the ids of the join and of its left part, as published.
    """
    found: list[tuple[float, int, int, int, str, str]] = []
    for token, index in vocabulary.items():
        for cut in range(1, len(token)):
            left, right = token[:cut], token[cut:]
            if left in vocabulary and right in vocabulary:
                found.append((-scores[index], index, vocabulary[left], vocabulary[right], left, right))
    found.sort()
    return [(left, right) for *_, left, right in found]


def _add_special_tokens(tokenizer: Tokenizer, metadata: Mapping[str, Any], tokens: Sequence[str]) -> None:
    """Control tokens become special, user-defined ones are matched whole as well but stay text."""
    types = metadata.get("tokenizer.ggml.token_type", ())
    for wanted, special in ((CONTROL, True), (USER_DEFINED, False)):
        added = [
            AddedToken(token, normalized=False, special=special)
            for token, kind in zip(tokens, types, strict=False)
            if kind == wanted
        ]
        if added:
            (tokenizer.add_special_tokens if special else tokenizer.add_tokens)(added)


def _add_beginning(tokenizer: Tokenizer, metadata: Mapping[str, Any], tokens: Sequence[str], kind: str) -> None:
    """Has `encode` put a BOS (and an EOS) round the text where the file asks for it."""
    default = kind == "llama" or SPLITS.get(str(metadata.get("tokenizer.ggml.pre"))) is _LLAMA3
    pieces, used = ["$A"], []
    bos, eos = metadata.get("tokenizer.ggml.bos_token_id"), metadata.get("tokenizer.ggml.eos_token_id")
    if bos is not None and metadata.get("tokenizer.ggml.add_bos_token", default):
        pieces.insert(0, tokens[bos])
        used.append((tokens[bos], int(bos)))
    if eos is not None and metadata.get("tokenizer.ggml.add_eos_token", False):
        pieces.append(tokens[eos])
        used.append((tokens[eos], int(eos)))
    if used:
        tokenizer.post_processor = processors.TemplateProcessing(single=pieces, special_tokens=used)
