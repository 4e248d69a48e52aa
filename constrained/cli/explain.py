"""`constrained explain`: which tokens may come next after a text, and why not the others."""

from __future__ import annotations

import argparse
from typing import Any

from constrained.cli.errors import OK, UsageError
from constrained.cli.grammar_options import KINDS, add_grammar_options, read_grammar
from constrained.cli.tokenizer_option import add_tokenizer_option, read_vocabulary

_SHOWN = 20


def add_options(parser: argparse.ArgumentParser) -> None:
    add_grammar_options(parser)
    add_tokenizer_option(parser)
    parser.add_argument("--text", metavar="PREFIX", required=True, help="the text so far")
    parser.add_argument("--token", metavar="TEXT", action="append", help="say why this text may not come next")


def run(options: argparse.Namespace) -> int:
    from constrained import compile
    from constrained.prefixes import advance, character_start

    grammar = read_grammar(options)
    if grammar is None:
        raise UsageError(f"nothing to explain; give {KINDS}")
    if any(not text for text in options.token or ()):
        raise UsageError("--token: the text is empty; give at least one character")
    vocabulary = read_vocabulary(options.tokenizer)
    matcher = compile(grammar, vocabulary).matcher()
    given = options.text.encode()
    read = advance(matcher, vocabulary, given)
    if read < len(given):
        read = character_start(given, read)
        print(f"{_shown(given)}: the text cannot begin like this: {_where_it_stops(given, read)}")
        matcher.reset()
        advance(matcher, vocabulary, given[:read])
        _print_next(matcher, vocabulary)
        return OK
    print(_standing(given, matcher))
    _print_next(matcher, vocabulary)
    for text in options.token or ():
        data = text.encode()
        fits = advance(matcher.fork(), vocabulary, data)
        if fits == len(data):
            print(f"{_shown(data)} fits")
        else:
            print(f"{_shown(data)} does not fit: {_where_it_stops(data, character_start(data, fits))}")
    return OK


def _standing(given: bytes, matcher: Any) -> str:
    """What the text is so far, and how it can end."""
    if not given:
        where = "nothing has been written yet"
    else:
        where = f"{_shown(given)} is {'a sentence' if matcher.is_accepting() else 'the beginning of a sentence'}"
    left = matcher.shortest_completion()
    if left:
        return f"{where}\nshortest way to an end: {_shown(left)}"
    return f"{where}\nthe text may end here"


def _where_it_stops(data: bytes, read: int) -> str:
    """The first character of `data` that does not fit, behind the `read` bytes that do."""
    before = f"after {_shown(data[:read])}" if read else "at its beginning"
    return f"{before} no {data[read:].decode()[:1]!r} can come"


def _print_next(matcher: Any, vocabulary: Any) -> None:
    import numpy as np

    row = np.zeros((vocabulary.size + 31) // 32, dtype=np.uint32)
    matcher.fill_mask(row)
    bits = np.unpackbits(row.view(np.uint8), bitorder="little")[: vocabulary.size]
    allowed = np.flatnonzero(bits)
    ends = [token for token in allowed if token in vocabulary.eos_token_ids]
    texts = [vocabulary.token_bytes(int(token)) for token in allowed if token not in vocabulary.eos_token_ids]
    if texts:
        print(f"{len(texts)} of {vocabulary.size} tokens may come next" + (", and the end" if ends else ""))
    else:
        print("nothing but the end may come next")
    for text in texts[:_SHOWN]:
        print(f"  {_shown(text or b'')}")
    if len(texts) > _SHOWN:
        print(f"  ... and {len(texts) - _SHOWN} more")


def _shown(data: bytes) -> str:
    """The text in quotes; bytes that are no characters by themselves as Python writes bytes."""
    try:
        return repr(data.decode())
    except UnicodeDecodeError:
        return repr(data)
