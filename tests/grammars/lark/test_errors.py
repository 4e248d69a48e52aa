"""Grammars that Lark refuses, or that cannot be followed: the error names line, column, what was found and expected."""

from __future__ import annotations

import contextlib
import random
import warnings

import pytest

from grammars import GrammarError, Lark, LarkError, UnsupportedFeature, library
from grammars.lark import load


@pytest.mark.parametrize("lexer", ["dynamic", "contextual"])
@pytest.mark.parametrize(
    ("text", "line", "column", "said"),
    [
        ("start: a\n", 1, 8, "'a' used but not defined"),
        ('start: "a" B\n', 1, 12, "'B' used but not defined"),
        ('start "a"\n', 1, 7, """found '"a"', expected '.', ':'"""),
        ("start: (\n", 1, 9, "Unclosed parenthesis: found a new line"),
        ('start: x\nx: ("a"))\n', 2, 9, "found ')'"),
        ('Start: "a"\n', 1, 2, "missing colon"),
        ('start: "a"\nstart: "b"\n', 2, 1, "more than once"),
        ("start: /(/\n", 1, 8, "missing )"),
        ("start: A\nA: B\nB: A\n", 2, 1, "Recursion"),
        ('start: A\nA: x\nx: "a"\n', 2, 4, "inside terminals"),
        ("start: /a*/\n", 1, 8, "matches the empty text"),
        ('start: "a" %json {"type": }\n', 1, 27, "no JSON"),
        ('start: "a" %json [1]\n', 1, 18, "neither an object nor a boolean"),
        ('start: "a"\n\nA: %json true\n', 3, 4, "in the terminal A"),
        ('start: %json {"a":\n1} b\n', 2, 4, "'b' used but not defined"),
        ("start: @x\n", 1, 8, "no embedded grammar"),
        ('foo: "a"\n', 1, 1, "no rule 'start' to start from; the grammar defines: foo"),
        ("%import .x.Y\nstart: Y\n", 1, 10, "x.lark"),
        ("start: t{\"a\"}\n", 1, 8, "Template 't'"),
        ('start: "a"~3..1\n', 1, 12, "Bad Range"),
        ('start: "\\x"\n', 1, 8, "bad escape"),
        ("%declare X\nstart: X\n", 1, 10, "declared and has no text"),
        ("%ignore X\nstart: \"a\"\n", 1, 9, "not defined"),
        ('start: "a"+*\n', 1, 12, "Misplaced operator: found '*'"),
    ],
)  # fmt: skip
def test_errors_name_line_and_column(lexer: str, text: str, line: int, column: int, said: str) -> None:
    with pytest.raises(LarkError) as caught:
        load(Lark(text, lexer=lexer))  # type: ignore[arg-type]
    assert said in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_a_conflict_of_the_lalr_parser_says_so() -> None:
    text = 'start: a | b\na: "x"\nb: "x"\n'
    load(Lark(text))
    with pytest.raises(LarkError, match=r"not LALR\(1\).*before the end.*a : X and b : X"):
        load(Lark(text, lexer="contextual"))


def test_errors_in_imported_grammars_name_the_file() -> None:
    with pytest.raises(LarkError, match=r"terms\.lark, line 1, column 5") as caught:
        load(Lark("\n%import .terms.A\nstart: A", imports={"terms.lark": "A: (\n"}))
    assert caught.value.line == 2


@pytest.mark.parametrize("pattern", [r"\bx", "(?<=a)b", "^a", r"(a)\1", "a++b", "(?>a)"])
def test_terminals_that_cannot_be_followed_are_named_with_their_line(pattern: str) -> None:
    with pytest.raises(UnsupportedFeature, match=r"the terminal WORD \(line 3, column 1\)"):
        load(Lark(f"start: WORD\n\nWORD: /{pattern}/\n"))


def test_texts_that_are_no_grammar_give_grammar_errors_and_nothing_else() -> None:
    random.seed(3)
    pieces = ["", '"', "/", "(", ")", "|", "\\", "{", "[", ":", "~", "%", "<", "@", ".", "->", "\n", "A", "a", "%json "]
    for name in ("json", "cron", "smiles"):
        source = library.load(name).text
        for _ in range(25):
            at = random.randrange(len(source))
            broken = source[:at] + random.choice(pieces) + source[at + 1 :]
            with warnings.catch_warnings(), contextlib.suppress(GrammarError):
                warnings.simplefilter("ignore")
                load(Lark(broken))
