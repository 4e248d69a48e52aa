"""Tokens to bytes, and bytes to text as they come: the streaming half of a tokenizer."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from tokenizers import Tokenizer, decoders

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


@cache
def byte_alphabet() -> dict[str, int]:
    """The printable characters by which byte-level BPE spells bytes (GPT-2's `bytes_to_unicode`), turned round."""
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(kept)]
    return {chr(byte): byte for byte in kept} | {chr(0x100 + at): byte for at, byte in enumerate(others)}


@dataclass(frozen=True)
class Spelling:
    """How a tokenizer's decoder turns tokens into bytes.

    Attributes:
        byte_level: characters stand for bytes (`byte_alphabet`).
        byte_fallback: tokens `<0x0A>` stand for bytes.
        space: what stands for a space inside tokens.
        strips_first_space: whether one space at the very beginning is dropped.
    """

    byte_level: bool = False
    byte_fallback: bool = False
    space: str | None = None
    strips_first_space: bool = False

    def bytes_of(self, token: str) -> bytes:
        """The bytes that `token` adds to a text."""
        if self.byte_level:
            alphabet = byte_alphabet()
            try:
                return bytes([alphabet[character] for character in token])
            except KeyError:
                return token.encode("utf-8")
        if self.byte_fallback and (match := _BYTE_TOKEN.fullmatch(token)):
            return bytes([int(match[1], 16)])
        return (token.replace(self.space, " ") if self.space else token).encode("utf-8")


def spelling_of(tokenizer: Tokenizer) -> Spelling | None:
    """Reads a tokenizer's decoder; `None` where tokens have no bytes of their own (WordPiece and the like)."""
    if tokenizer.decoder is None:
        return None
    state = json.loads(tokenizer.decoder.__getstate__())
    steps: list[dict[str, Any]] = state["decoders"] if state["type"] == "Sequence" else [state]
    byte_level = byte_fallback = strips = False
    space: str | None = None
    for step in steps:
        if step["type"] == "ByteLevel":
            byte_level = True
        elif step["type"] == "ByteFallback":
            byte_fallback = True
        elif step["type"] == "Replace" and step["content"] == " " and "String" in step["pattern"]:
            space = step["pattern"]["String"]
        elif step["type"] == "Metaspace":
            space, strips = step["replacement"], step.get("prepend_scheme", "always") != "never"
        elif step["type"] == "Strip" and step["content"] == " " and (step["start"], step["stop"]) == (1, 0):
            strips = True
        elif step["type"] != "Fuse":
            return None
    return Spelling(byte_level, byte_fallback, space, strips)


class Detokenizer:
    """Text of a sequence as its tokens arrive.  The pieces, `flush` included, join to `Text.decode` of all the tokens.

    No piece ends inside a character: bytes of an unfinished one wait for the token that completes it.
    """

    def __init__(self, token_bytes: Callable[[int], bytes], strips_first_space: bool) -> None:
        self._token_bytes = token_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._strip_next = strips_first_space

    def push(self, token_id: int) -> str:
        """The text that this token completes, often its own, sometimes none."""
        return self._cut(self._decoder.decode(self._token_bytes(token_id)))

    def flush(self) -> str:
        """What is left at the end: U+FFFD for a character that never came whole."""
        return self._cut(self._decoder.decode(b"", final=True))

    def _cut(self, text: str) -> str:
        if self._strip_next and text:
            self._strip_next = False
            return text.removeprefix(" ")
        return text


class StreamDetokenizer:
    """The same for tokenizers whose tokens have no bytes of their own, through the `tokenizers` library."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._stream = decoders.DecodeStream(skip_special_tokens=True)
        self._ids: list[int] = []
        self._given = ""

    def push(self, token_id: int) -> str:
        self._ids.append(token_id)
        piece: str = self._stream.step(self._tokenizer, token_id) or ""
        self._given += piece
        return piece

    def flush(self) -> str:
        whole: str = self._tokenizer.decode(self._ids)
        return whole.removeprefix(self._given) if whole.startswith(self._given) else ""
