"""How a tokenizer writes text that stands in the middle of other text."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

from constrained.vocabulary.encoders import Encoder

ANCHORS = ("\n", "a", "(")
"""Put in front of a text to keep the encoder's dummy space off it; tokenizers seldom merge all of these with what
follows."""


def anchored_encoding(
    encoder: Encoder, data: bytes, token_bytes: Callable[[int], bytes | None], adds_leading_space: bool
) -> list[int] | None:
    """The encoder's tokens for `data`, or None if it does not write exactly these bytes.

    Args:
        encoder: the tokenizer.
        data: the bytes to write.
        token_bytes: the bytes of a token; None if it is not text.
        adds_leading_space: the encoder puts a space in front of every text, so the tokens are taken from an encoding
            with an anchor in front.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    for anchor in ANCHORS if adds_leading_space else ("",):
        tokens = list(encoder(anchor + text))
        parts = [part for token in tokens if (part := token_bytes(token)) is not None]
        whole = b"".join(parts)
        in_front = len(whole) - len(data)
        if len(parts) != len(tokens) or not whole.endswith(data) or whole[:in_front].strip(b" ") != anchor.encode():
            continue
        ends = list(accumulate(map(len, parts), initial=0))
        if in_front in ends:
            return tokens[ends.index(in_front) :]
    return None
