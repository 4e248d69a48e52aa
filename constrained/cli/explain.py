"""`constrained explain`: which tokens may come next after a text, and why not the others."""

from __future__ import annotations

import argparse
from typing import Any

from constrained.cli.errors import OK, UsageError
from constrained.cli.grammar_options import add_grammar_options, read_grammar
from constrained.cli.tokenizer_option import add_tokenizer_option, read_vocabulary

_SHOWN = 20


def add_options(parser: argparse.ArgumentParser) -> None:
    add_grammar_options(parser)
    add_tokenizer_option(parser)
    parser.add_argument("--text", metavar="PREFIX", required=True, help="the text so far")
    parser.add_argument("--token", metavar="TEXT", action="append", help="say why this text may not come next")


def run(options: argparse.Namespace) -> int:
    from constrained import compile

    grammar = read_grammar(options)
    if grammar is None:
        raise UsageError("nothing to explain; give --schema FILE, --regex RE or --choice TEXT")
    vocabulary = read_vocabulary(options.tokenizer)
    matcher = compile(grammar, vocabulary).matcher()
    given = options.text.encode()
    read = _advance(matcher, vocabulary, given)
    if read < len(given):
        print(f"the text cannot begin like this: after {_shown(given[:read])} no {_shown(given[read : read + 1])} fits")
        _print_next(matcher, vocabulary)
        return OK
    print(f"{_shown(given)} is {'a sentence' if matcher.is_accepting() else 'the beginning of a sentence'}")
    print(f"shortest way to an end: {_shown(matcher.shortest_completion())}")
    _print_next(matcher, vocabulary)
    for text in options.token or ():
        probe = matcher.fork()
        fits = _advance(probe, vocabulary, text.encode())
        if fits == len(text.encode()):
            print(f"{_shown(text.encode())} fits")
        else:
            print(f"{_shown(text.encode())} does not fit: its first {fits} bytes would, the next one does not")
    return OK


def _advance(matcher: Any, vocabulary: Any, data: bytes) -> int:
    """Commits as much of `data` as the grammar allows, whatever its tokenisation; returns the number of bytes."""
    by_bytes: dict[bytes, int] = {}
    for token, text in enumerate(vocabulary.tokens):
        if text:
            by_bytes.setdefault(text, token)
    position = 0
    while position < len(data):
        longest = min(vocabulary.longest_token, len(data) - position)
        for length in range(longest, 0, -1):
            found = by_bytes.get(data[position : position + length])
            if found is not None and matcher.accept_many([found]):
                position += length
                break
        else:
            return position
    return position


def _print_next(matcher: Any, vocabulary: Any) -> None:
    import numpy as np

    row = np.zeros((vocabulary.size + 31) // 32, dtype=np.uint32)
    matcher.fill_mask(row)
    bits = np.unpackbits(row.view(np.uint8), bitorder="little")[: vocabulary.size]
    allowed = np.flatnonzero(bits)
    ends = [token for token in allowed if token in vocabulary.eos_token_ids]
    texts = [vocabulary.token_bytes(int(token)) for token in allowed if token not in vocabulary.eos_token_ids]
    print(f"{len(texts)} of {vocabulary.size} tokens may come next" + (", and the end" if ends else ""))
    for text in texts[:_SHOWN]:
        print(f"  {_shown(text or b'')}")
    if len(texts) > _SHOWN:
        print(f"  ... and {len(texts) - _SHOWN} more")


def _shown(data: bytes) -> str:
    return repr(data.decode("utf-8", "backslashreplace"))
