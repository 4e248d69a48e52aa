"""Masks of Lark grammars against Lark itself: what they let through it parses, and what it parses they let through."""

from __future__ import annotations

import logging
import warnings

import lark
import pytest
from hypothesis import HealthCheck, Phase, assume, given, note, settings
from hypothesis import strategies as st

from grammars import EmptyLanguage, Lark
from tests.constrained.automata.context_free.walks import (
    TOKENS,
    compiled,
    grammar_texts,
    hold_against,
    parses,
    texts,
    walk,
)
from tests.constrained.languages import mask

PATIENT = settings(max_examples=40, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
LENGTH = 3


def held_against_lark(text: str, lexer: str, reference: lark.Lark) -> None:
    """Masks are held against Lark's answers; a grammar is refused only if it has no text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            constraint = compiled(Lark(text, lexer=lexer))  # type: ignore[arg-type]
    except EmptyLanguage:
        assert not any(parses(reference, one) for one in texts(4))
        return
    hold_against(constraint, reference, LENGTH)


@PATIENT
@given(grammar_texts())
def test_every_way_to_cut_a_text_counts_as_with_larks_earley_parser(text: str) -> None:
    note(text)
    held_against_lark(text, "dynamic", lark.Lark(text, parser="earley", lexer="dynamic_complete"))


@PATIENT
@given(grammar_texts())
def test_contextual_lexing_takes_what_larks_lalr_parser_takes(text: str) -> None:
    logging.getLogger("lark").setLevel(logging.CRITICAL)
    try:
        reference = lark.Lark(text, parser="lalr", lexer="contextual")
    except lark.exceptions.LarkError:
        assume(False)
    note(text)
    held_against_lark(text, "contextual", reference)


@settings(PATIENT, max_examples=20)
@given(grammar_texts(), st.integers(0, 5), st.integers(0, 1000))
def test_with_a_budget_every_walk_ends_in_a_sentence(text: str, more: int, seed: int) -> None:
    note(text)
    try:
        constraint = compiled(Lark(text))
        least = len(constraint.matcher().shortest_completion()) + 1
        written = walk(constraint, seed, least + more)
    except EmptyLanguage:
        assume(False)
    assert parses(lark.Lark(text, parser="earley", lexer="dynamic_complete"), written)


@pytest.mark.parametrize(
    "text",
    [
        "T: /a(?=b)/\nstart: | start start\nx: T\n%ignore / +/",
        'A: "a"\nB: "aa"\nstart: A B | A* start',
        'T: "b"\nstart: T? /b+/?\n%ignore "b"',
        'T0: "aa"\nT1: "a"\nT2.2: /a(?=b)/\nT3: /a(?!b)/\nT4: /.b/\nstart: x T4* | T2 | T3 start\nx: T0 x* T2\n'
        "%ignore / +/",
    ],
    ids=[
        "nothing but ignored text",
        "two ways that end apart",
        "ignored text that is a terminal",
        "conditions that meet",
    ],
)
def test_texts_are_cut_in_every_way(text: str) -> None:
    held_against_lark(text, "dynamic", lark.Lark(text, parser="earley", lexer="dynamic_complete"))


CONTEXTUAL = {
    "a keyword is none where a name goes on": 'start: "a" N | N "b"\nN: /[ab]+/\n%ignore " "',
    "a longer match kills a shorter one": 'start: A+ | B\nA: "a"\nB: "ab" "ab"\n%ignore " "',
    "ignored text that begins like a terminal": 'start: "a" ("b" "a")*\nC: /b .*?a /\n%ignore C\n%ignore " "',
    "a conflict that is decided for the shift": 'start: e\ne: e "a" e | "b"',
    "a lookahead": "start: A B*\nA: /a(?! )/\nB: /[ab]/\n%ignore / +/",
    "an ignored keyword is none": 'start: /a/ /b+/?\n%ignore "b"',
    "empty rules": 'start: x "a" y\nx:\n y: | "b" y',
    "a conflict that no terminal suffers from": 'start: e\ne: "a" e "b" e | "a" e | " "',
}


@pytest.mark.parametrize("text", CONTEXTUAL.values(), ids=CONTEXTUAL)
def test_the_contextual_lexer_cuts_where_re_cuts(text: str) -> None:
    held_against_lark(text, "contextual", lark.Lark(text, parser="lalr", lexer="contextual"))


def test_a_grammar_whose_terminals_never_end_where_others_begin_is_empty() -> None:
    with pytest.raises(EmptyLanguage, match="no text is a sentence"):
        compiled(Lark('start: N "b"\nN: /[ab]+/', lexer="contextual"))


@pytest.mark.parametrize(
    "text",
    [
        'start: c "b"\nc: "a" d\nd: | "b" d',
        'start: p\np: q r\nr: "aa" p "ba" | "b"\nq: "a" | "a" "b" q',
    ],
    ids=["always into a rule without end", "every b is shifted, and what else may come never ends"],
)
def test_a_table_that_always_shifts_what_would_end_the_text_has_no_sentence(text: str) -> None:
    reference = lark.Lark(text, parser="lalr", lexer="contextual")
    assert not any(parses(reference, one) for one in texts(6))
    with pytest.raises(EmptyLanguage, match="no text is a sentence"):
        compiled(Lark(text, lexer="contextual"))


def test_a_text_on_which_larks_parser_completes_empty_rules_for_ever_is_none() -> None:
    constraint = compiled(Lark('start: "a" x+ | "b"\nx.2: [" "]', lexer="contextual"))
    matcher = constraint.matcher()
    assert {TOKENS[token] for token in mask(matcher)} == {b"b"}
    assert matcher.shortest_completion() == b"b"
