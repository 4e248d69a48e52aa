"""From the pieces that tokenizer files hold to the bytes that they stand for.

Two spellings are in use.  Byte-level BPE (GPT-2, 2019) writes each byte as one printable character; SentencePiece
writes a space as U+2581 and bytes that no piece covers as `<0x0A>`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

SPACE_MARK = "\u2581"
_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def _byte_alphabet() -> dict[str, int]:
    """The 256 characters that stand for bytes in byte-level BPE vocabularies (`bytes_to_unicode` of GPT-2)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    shifted = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {chr(256 + place): byte for place, byte in enumerate(shifted)}


BYTE_ALPHABET = _byte_alphabet()
_NOT_IN_ALPHABET = 256
_BYTE_OF_CHARACTER = np.full(0x200, _NOT_IN_ALPHABET, dtype=np.uint16)
for _character, _byte in BYTE_ALPHABET.items():
    _BYTE_OF_CHARACTER[ord(_character)] = _byte


def byte_level_pieces(pieces: Sequence[str]) -> list[bytes]:
    """The bytes of byte-level pieces; a piece with a character outside the alphabet stands for its own UTF-8.

    That exception is what the decoder of Hugging Face's `tokenizers` does; it is met in added tokens.
    """
    characters = np.frombuffer("".join(pieces).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    known = _BYTE_OF_CHARACTER[np.minimum(characters, len(_BYTE_OF_CHARACTER) - 1)]
    whole = known.astype(np.uint8).tobytes()
    ends = np.cumsum([0, *map(len, pieces)])
    strange = np.add.accumulate(np.concatenate([[0], known == _NOT_IN_ALPHABET]))[ends]
    places = ends.tolist()
    found = [whole[places[i] : places[i + 1]] for i in range(len(pieces))]
    for i in np.flatnonzero(np.diff(strange)).tolist():
        found[i] = pieces[i].encode("utf-8", "surrogatepass")
    return found


def byte_of_piece(piece: str) -> int | None:
    """The byte of a byte-fallback piece such as `<0x0A>`, or None for any other piece."""
    found = _BYTE_PIECE.fullmatch(piece)
    return None if found is None else int(found.group(1), 16)


def marked_piece(piece: str) -> bytes:
    """The bytes of a SentencePiece piece that is not a byte-fallback piece."""
    return piece.replace(SPACE_MARK, " ").encode("utf-8", "surrogatepass")
