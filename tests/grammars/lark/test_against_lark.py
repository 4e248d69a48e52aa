"""Loaded grammars mean what Lark parses: random grammars, all short texts, both lexers."""

from __future__ import annotations

import itertools
import random
import warnings

import lark
import pytest
from lark.exceptions import LarkError as LarkException
from lark.exceptions import UnexpectedInput

from grammars import EmptyLanguage, Lark, LarkError, UnsupportedFeature
from grammars.lark import load
from tests.grammars.recognisers import accepts

TEXTS = ["".join(word) for length in range(6) for word in itertools.product("ab ", repeat=length)]
EXPRESSIONS = [
    '"a"', '"b"', '"ab"', '"aab"', '"A"i', "/a+/", "/[ab]/", "/a|ab/", "/b+?/", "/a*b/", "/(ab)+/", "/a(?!b)/",
    "/[ab]+(?! )/", "/ab??/", "/b\\b/", "/a(?=b| )/", "/ +/", "/ a/", "/a+$/", "/(?<!a)b|ab/", "/[ab]{2,3}?/",
]  # fmt: skip


def _expression(chance: random.Random, depth: int) -> str:
    roll = chance.random()
    if depth == 0 or roll < 0.25:
        return chance.choice(["A", "B", "C", "x", "start", "x", '"a"', '"b"', "/a+b?/"])
    inner = _expression(chance, depth - 1)
    if roll < 0.5:
        return f"{inner} {_expression(chance, depth - 1)}"
    if roll < 0.7:
        return f"({inner} | {_expression(chance, depth - 1)})"
    if roll < 0.75:
        return f"[{inner}]"
    return f"({inner}){chance.choice(['*', '+', '?', '~2', '~0..2'])}"


def _grammar(chance: random.Random) -> str:
    lines = [
        f"start: {_expression(chance, 2)} | A",
        f"x: {_expression(chance, 2)}",
        f"A: {chance.choice(EXPRESSIONS)}",
        f"B{chance.choice(['', '.2', '.-1'])}: {chance.choice(EXPRESSIONS)}",
        f"C: {chance.choice(EXPRESSIONS)}",
    ]
    if chance.random() < 0.6:
        lines.append("%ignore " + chance.choice(['" "', "/ +/", "/ +?/", "C", "/ b?/", "/ (?!b)/"]))
    return "\n".join(lines)


def _parses(parser: lark.Lark, text: str) -> bool:
    try:
        parser.parse(text)
    except UnexpectedInput:
        return False
    except RuntimeError as error:  # it has found the start symbol twice, with ignored text and without, and gives up
        assert "multiple start symbol" in str(error)
    return True


def _compared(seed: int, lexer: str) -> bool:
    """Whether there was a grammar to compare."""
    source = _grammar(random.Random(seed))
    options = {"parser": "earley", "lexer": "dynamic_complete", "ambiguity": "forest"}
    if lexer == "contextual":
        options = {"parser": "lalr", "lexer": "contextual"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            grammar = load(Lark(source, lexer=lexer))  # type: ignore[arg-type]
        except (UnsupportedFeature, EmptyLanguage):
            return False
        except LarkError:
            with pytest.raises(LarkException):
                lark.Lark(source, **options)
            return False
    parser = lark.Lark(source, **options)
    for text in TEXTS:
        assert accepts(grammar, text) is _parses(parser, text), (source, text)
    return True


@pytest.mark.parametrize("block", range(4))
def test_dynamic_lexing_takes_what_the_earley_parser_takes(block: int) -> None:
    assert sum(_compared(seed, "dynamic") for seed in range(block * 8, block * 8 + 8)) > 3


@pytest.mark.parametrize("block", range(4))
def test_contextual_lexing_takes_what_the_lalr_parser_takes(block: int) -> None:
    assert sum(_compared(seed, "contextual") for seed in range(block * 30, block * 30 + 30)) > 8
