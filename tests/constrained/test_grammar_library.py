"""The ready grammars through the masks: samples byte for byte, and random walks that the usual parsers read."""

from __future__ import annotations

import random
import warnings
from functools import cache

import lark
import numpy as np
import pytest
from lark.exceptions import UnexpectedInput

from constrained import Constraint, Vocabulary, compile
from grammars import library
from tests.grammars.library.checkers import CHECKERS, lark_parser
from tests.grammars.library.samples import BAD, GOOD

NAMES = library.names()
PIECES = [
    "def ", "return", "if ", ":\n    ", ":\n", "()", "self", "SELECT ", " FROM ", " WHERE ", '{"', '": ', '", "', "http://", "://",
    "</", "/>", "  ", "\n\n", "\n  ", "ab", "the", "12", "0.5", " = ", "==", " and ", "[[", "]]", "\r\n", "é", "漢字", "--",
]  # fmt: skip
END = 256


@cache
def _vocabulary() -> Vocabulary:
    return Vocabulary.from_token_bytes(
        [*(bytes([byte]) for byte in range(256)), None, *(piece.encode() for piece in PIECES)], eos_token_ids=[END]
    )


@cache
def _constraint(name: str) -> Constraint:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return compile(library.load(name), _vocabulary())


@cache
def _lark(name: str) -> lark.Lark:
    return lark_parser(name)


def _allowed(row: np.ndarray[tuple[int], np.dtype[np.uint32]]) -> list[int]:
    return [int(token) for token in np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))]


@pytest.mark.parametrize("name", NAMES)
def test_the_masks_let_good_samples_through_byte_by_byte_and_no_bad_one(name: str) -> None:
    row = np.zeros((_vocabulary().size + 31) // 32, dtype=np.uint32)
    for text in GOOD[name]:
        matcher = _constraint(name).matcher()
        for byte in text.encode():
            matcher.fill_mask(row)
            assert byte in _allowed(row), (text, byte)
            matcher.accept(byte)
        matcher.fill_mask(row)
        assert END in _allowed(row), text
    for text in BAD[name]:
        matcher = _constraint(name).matcher()
        data = list(text.encode())
        assert not (matcher.accept_many(data) == len(data) and matcher.is_accepting()), text


def _walk(name: str, chance: random.Random) -> str:
    """Tokens as the masks allow them, texts kept short, and then the shortest way to an end."""
    matcher = _constraint(name).matcher()
    row = np.zeros((_vocabulary().size + 31) // 32, dtype=np.uint32)
    data = b""
    for _ in range(chance.randrange(5, 70)):
        matcher.fill_mask(row)
        allowed = _allowed(row)
        assert allowed, data
        plain = [token for token in allowed if token < 127 or token > END]
        token = chance.choice(plain if plain and chance.random() < 0.97 else allowed)
        if token == END:
            return data.decode()
        matcher.accept(token)
        data += _vocabulary().token_bytes(token)
    return (data + matcher.shortest_completion()).decode()


@pytest.mark.parametrize("name", NAMES)
def test_what_walks_write_is_read_by_lark_and_by_the_usual_parser(name: str) -> None:
    chance = random.Random(name)
    for _ in range(6):
        text = _walk(name, chance)
        try:
            _lark(name).parse(text)
        except UnexpectedInput as error:
            raise AssertionError(text) from error
        if name in CHECKERS:
            CHECKERS[name](text)


@pytest.mark.parametrize(
    "place",
    [
        "SELECT {} FROM t",
        "SELECT a {} FROM t",
        "SELECT a FROM {}",
        "SELECT -{} < 1",
        "UPDATE {} SET {} = 1",
        "SELECT a FROM t {}",
    ],
)
def test_a_word_of_sqlite_is_a_name_in_sql_only_where_sqlite_takes_it_for_one(place: str) -> None:
    words = (
        "abort action after always analyze before cascade cast column conflict current database do each end exclude explain fail "
        "filter first following for generated groups if ignore indexed initially instead key last like match materialized no nulls "
        "of offset others over plan pragma preceding query raise range recursive reindex release rename replace restrict row rows "
        "savepoint temp ties trigger unbounded vacuum view virtual window with without"
    )
    for word in words.split():
        text = place.replace("{}", word)
        matcher = _constraint("sql").matcher()
        data = list(text.encode())
        if matcher.accept_many(data) == len(data) and matcher.is_accepting():
            CHECKERS["sql"](text)
