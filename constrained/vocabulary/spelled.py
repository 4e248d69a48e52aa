"""Special tokens as bytes, so that grammars can name them and everything that walks bytes can read them.

No text holds the byte 0xFF (it is nowhere in UTF-8).  So a token that is no text is spelled as this byte and its number, and a
token of the tokenizer that holds the byte, which no mask ever allows, is left out.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from constrained.vocabulary.token_table import TokenTable

MARK = 0xFF
_NUMBER_BYTES = 3
LENGTH = 1 + _NUMBER_BYTES
_SPELLED = re.compile(rb"\xff.{%d}" % _NUMBER_BYTES, re.S)


def spelling(token: int) -> bytes:
    """The bytes that stand for a special token."""
    return bytes([MARK]) + token.to_bytes(_NUMBER_BYTES, "big")


def without_special_tokens(data: bytes) -> bytes:
    """The bytes of the text alone."""
    return _SPELLED.sub(b"", data)


def without_begun_token(data: bytes) -> bytes:
    """The bytes without those at the end that begin the spelling of a special token."""
    at = data.rfind(MARK, max(len(data) - LENGTH + 1, 0))
    whole = at < 0 or any(match.start() <= at < match.end() for match in _SPELLED.finditer(data))
    return data if whole else data[:at]


def pieces(data: bytes) -> list[bytes | int]:
    """Runs of text and special tokens by turns, as they come."""
    found: list[bytes | int] = []
    at = 0
    for match in _SPELLED.finditer(data):
        if match.start() > at:
            found.append(data[at : match.start()])
        found.append(int.from_bytes(match.group()[1:], "big"))
        at = match.end()
    return [*found, data[at:]] if at < len(data) else found


def spelled_table(table: TokenTable) -> TokenTable:
    """The table with bytes for every token that is no text."""
    lengths = np.diff(table.offsets)
    words: list[bytes] = []
    text = np.ones(len(table), dtype=np.bool_)
    whole, ends = table.blob.tobytes(), table.offsets.tolist()
    for token in range(len(table)):
        if not table.text[token]:
            words.append(spelling(token))
            continue
        word = whole[ends[token] : ends[token + 1]] if lengths[token] else b""
        text[token] = MARK not in word
        words.append(word if text[token] else b"")
    offsets = np.zeros(len(words) + 1, dtype=np.int64)
    np.cumsum([len(word) for word in words], out=offsets[1:])
    blob = np.frombuffer(b"".join(words), dtype=np.uint8)
    return replace(table, blob=blob, offsets=offsets, text=text)
