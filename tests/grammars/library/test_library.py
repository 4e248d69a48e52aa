"""The ready grammars: what they take, what not, and that what they generate is what it says to the usual parser of it."""

from __future__ import annotations

import random
import warnings
from functools import cache

import lark
import pytest
from lark.exceptions import UnexpectedInput

from grammars import GrammarError, library
from grammars.context_free import ContextFree
from grammars.lark import load
from tests.grammars.library.checkers import CHECKERS, lark_parser
from tests.grammars.library.samples import BAD, GOOD
from tests.grammars.recognisers import accepts
from tests.grammars.sampling import Sampler

NAMES = library.names()


@cache
def _grammar(name: str) -> ContextFree:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return load(library.load(name))


@cache
def _lark(name: str) -> lark.Lark:
    return lark_parser(name)


def _parses(name: str, text: str) -> bool:
    try:
        _lark(name).parse(text)
    except (UnexpectedInput, lark.indenter.DedentError):
        return False
    except AssertionError:  # the indenter met a closing parenthesis too many
        return False
    return True


def test_every_grammar_has_samples_and_a_line_of_documentation() -> None:
    assert set(GOOD) == set(BAD) == set(NAMES)
    assert all(20 < len(library.about(name)) < 130 for name in NAMES)
    assert {
        "json",
        "json_lines",
        "yaml",
        "csv",
        "toml",
        "xml",
        "sql",
        "python",
        "python_expression",
        "arithmetic",
    } < set(NAMES)


def test_an_unknown_name_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(GrammarError, match="arithmetic, cron, csv"):
        library.load("cobol")


@pytest.mark.parametrize("name", NAMES)
def test_samples_against_lark(name: str) -> None:
    assert [text for text in GOOD[name] if not _parses(name, text)] == []
    assert [text for text in BAD[name] if _parses(name, text)] == []


@pytest.mark.parametrize("name", NAMES)
def test_samples_against_the_loaded_grammar(name: str) -> None:
    assert [text for text in GOOD[name] if not accepts(_grammar(name), text)] == []
    assert [text for text in BAD[name] if accepts(_grammar(name), text)] == []


@pytest.mark.parametrize("name", sorted(CHECKERS))
def test_the_usual_parser_agrees_on_the_samples(name: str) -> None:
    for text in GOOD[name]:
        CHECKERS[name](text)


def _texts(name: str) -> list[str]:
    sampler = Sampler(_grammar(name), random.Random(name))
    texts = []
    indentation = _grammar(name).indentation
    for _ in range(40):
        text, depth = "", 0
        for number, piece in sampler.sentence():
            if _grammar(name).lexing == "every":
                text += piece
            elif indentation is None:
                text += " " * (text[-1:].isalnum() and (piece[:1].isalnum() or piece[:1] in "_\"'")) + piece
            elif number == indentation.newline:
                text += "\n" + "  " * depth
            elif number in (indentation.indent, indentation.dedent):
                depth += 1 if number == indentation.indent else -1
                text = text[: text.rindex("\n") + 1] + "  " * depth
            elif text[-1:].isalnum() and (piece[:1].isalnum() or piece[:1] in "_\"'"):
                text += " " + piece
            else:
                text += piece
        texts.append(text)
    return texts


@pytest.mark.parametrize("name", sorted(CHECKERS))
def test_what_is_generated_is_what_the_usual_parser_reads(name: str) -> None:
    parsed = 0
    for text in _texts(name):
        if _parses(name, text):
            parsed += 1
            CHECKERS[name](text)
    assert parsed >= 10
