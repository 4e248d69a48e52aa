"""Loaded grammars mean what Lark parses: random grammars, all short texts, both lexers."""

from __future__ import annotations

import warnings

import lark
import pytest
from lark.exceptions import LarkError as LarkException
from lark.exceptions import UnexpectedInput

from grammars import EmptyLanguage, Lark, LarkError, UnsupportedFeature
from grammars.lark import load
from tests.grammars.lark.random_grammars import TEXTS, random_grammar
from tests.grammars.recognisers import accepts


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
    source = random_grammar(seed)
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
