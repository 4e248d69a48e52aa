"""The option that names a tokenizer."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from constrained.cli.errors import UsageError


def add_tokenizer_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tokenizer", metavar="FILE", help="tokenizer.json or GGUF; without it, one token for each byte"
    )


def read_vocabulary(path: str | None) -> Any:
    """The vocabulary of a tokenizer file, to compile for; without one, the 256 bytes and an end token.

    Raises:
        UsageError: there is no such file.
        VocabularyError: it is no tokenizer.
    """
    from constrained import Vocabulary
    from constrained.kernel_notice import announce_compilation

    announce_compilation()
    if path is None:
        return Vocabulary.from_token_bytes([*(bytes([byte]) for byte in range(256)), None], eos_token_ids=[256])
    if not Path(path).is_file():
        raise UsageError(f"--tokenizer: no file {path}")
    if path.endswith(".gguf"):
        return Vocabulary.from_gguf(path)
    return Vocabulary.from_tokenizer_json(path)
