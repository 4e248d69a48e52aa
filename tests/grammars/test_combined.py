"""Grammars made of others: which texts they are, and that phrases hold wherever they overlap."""

from __future__ import annotations

import itertools
import re

import pytest

from grammars import (
    AnyText,
    Choice,
    EmptyLanguage,
    Gbnf,
    Grammar,
    JsonSchema,
    Lark,
    OneOf,
    Phrases,
    Reasoning,
    Regex,
    Sequence,
    SpecialToken,
    UnsupportedFeature,
)
from grammars.combined import followed, load, regular
from grammars.context_free import Embedded
from grammars.gbnf import load as load_gbnf
from grammars.lark import load as load_lark
from grammars.regular import matches
from tests.grammars.recognisers import accepts

TEXTS = ["".join(word) for length in range(7) for word in itertools.product("abc", repeat=length)]


def _texts(value: Grammar) -> set[str]:
    rx = regular(value)
    assert rx is not None
    grammar = load(value)
    found = {text for text in TEXTS if matches(rx, text)}
    assert found == {text for text in TEXTS if accepts(grammar, text)}
    return found


def test_any_text_holds_no_stop_string() -> None:
    assert _texts(AnyText()) == set(TEXTS)
    assert _texts(AnyText(stop="ab")) == {text for text in TEXTS if "ab" not in text}
    assert _texts(AnyText(stop=["aa", "cb"])) == {text for text in TEXTS if "aa" not in text and "cb" not in text}


def test_a_stop_string_after_free_text_is_its_first_occurrence_but_for_overlaps() -> None:
    whole = _texts(Sequence(AnyText(stop="ab"), "ab"))
    assert whole == {text for text in TEXTS if text.endswith("ab") and text.index("ab") == len(text) - 2}


def test_sequences_and_alternatives_nest() -> None:
    value = Sequence(OneOf("a", Regex("b+"), Sequence()), Choice(["c", "cc"]), Gbnf('root ::= "a" root | ""'))
    assert _texts(value) == {text for text in TEXTS if re.fullmatch("(a|b+|)(c|cc)a*", text)}


@pytest.mark.parametrize(
    ("required", "banned", "within"),
    [
        (["ab", "ba"], [], AnyText()),
        (["aba"], ["bb", "ac"], AnyText()),
        (["b"], ["ab"], Regex("[ab]*c?")),
        ([], ["a"], Sequence("b", AnyText())),
        (["a"], [], Choice(["abc", "cb", "a"])),
    ],
)
def test_phrases_are_required_and_banned_anywhere(required: list[str], banned: list[str], within: Grammar) -> None:
    inside = _texts(within)
    assert _texts(Phrases(required=required, banned=banned, within=within)) == {
        text for text in inside if all(one in text for one in required) and not any(one in text for one in banned)
    }


def test_phrases_that_exclude_each_other_are_empty() -> None:
    with pytest.raises(EmptyLanguage, match="aba"):
        load(Phrases(required="aba", banned="b"))


NESTED = Gbnf('root ::= "a" root "b" | root root | "c"')


@pytest.mark.parametrize(
    "within",
    [
        NESTED,
        Lark('start: "a" start "b" | start start | "c"'),
        Sequence(NESTED, Regex("[ab]*")),
        OneOf(Gbnf('root ::= "a" root "a" | "b" root "b" | "c" | ""'), "abc"),
        Gbnf('root ::= x{2,4}\nx ::= "a" x "c" | [bc]'),
    ],
)
@pytest.mark.parametrize(
    ("required", "banned"),
    [(["bb"], []), ([], ["ca"]), (["ac"], ["bca"]), (["cb", "cc"], ["aaa"]), (["b", "ccc"], []), (["a"], ["cb", "aa"])],
)
def test_phrases_within_what_nests(within: Grammar, required: list[str], banned: list[str]) -> None:
    whole = (
        load_lark(within)
        if isinstance(within, Lark)
        else load_gbnf(within)
        if isinstance(within, Gbnf)
        else load(within)
    )
    texts = [text for text in TEXTS if len(text) < 6]
    expected = {
        text
        for text in texts
        if accepts(whole, text) and all(one in text for one in required) and not any(one in text for one in banned)
    }
    try:
        grammar = load(Phrases(required, banned, within))
    except EmptyLanguage:
        assert not expected
        return
    assert {text for text in texts if accepts(grammar, text)} == expected
    productive = {rule.origin for rule in grammar.rules}
    assert productive == set(range(len(grammar.nonterminals)))


def test_a_token_among_phrases_is_no_text() -> None:
    within = Gbnf('root ::= "a" <x> "b"')
    with pytest.raises(EmptyLanguage):
        load(Phrases(banned="ab", within=within))
    assert SpecialToken("<x>") in [one.language for one in load(Phrases(required="ab", within=within)).terminals]


@pytest.mark.parametrize(
    "within",
    [
        JsonSchema(True), Lark('start: "a" start "b" | "c"\n%ignore " "'), Sequence("x", JsonSchema(True)),
        Lark('start: "a"', lexer="contextual"), Lark('start: "a" start "b" | /c(?!d)/'),
    ],
)  # fmt: skip
def test_phrases_within_what_has_no_product_of_rules_are_followed_byte_by_byte(within: Grammar) -> None:
    assert followed(Phrases("y", "x", Phrases("z", within=within))) == Phrases(["y", "z"], "x", within)
    with pytest.raises(UnsupportedFeature, match="followed byte by byte"):
        load(Phrases(banned="x", within=within))


def test_phrases_within_what_is_regular_or_has_rules_alone_are_not_followed() -> None:
    for within in (Regex("a+"), Gbnf('root ::= "(" root ")" | "a"'), Lark('start: "(" start ")" | "a"')):
        assert followed(Phrases(banned="x", within=within)) is None
        assert followed(within) is None


def test_reasoning_is_free_text_between_marks_and_then_the_grammar() -> None:
    grammar = load(Reasoning(then=Choice(["yes", "no"])))
    assert accepts(grammar, "<think>well\n</thin</think>\n\nyes")
    assert accepts(grammar, "<think></think>no")
    for wrong in (
        "yes",
        "<think>yes",
        "<think></think></think>yes",
        "<think></think>\n\n\nyes",
        "<think></think> maybe",
    ):
        assert not accepts(grammar, wrong), wrong


def test_reasoning_may_be_opened_by_the_prompt_or_left_out() -> None:
    assert accepts(load(Reasoning(then="x", start="")), "hm</think>x")
    optional = load(Reasoning(then="x", optional=True))
    assert accepts(optional, "x")
    assert accepts(optional, "<think>a</think>x")


def test_marks_may_be_special_tokens() -> None:
    grammar = load(Reasoning(then="x", start=SpecialToken("<think>"), end=SpecialToken(number=7)))
    tokens = [one.language for one in grammar.terminals if isinstance(one.language, SpecialToken)]
    assert tokens == [SpecialToken("<think>"), SpecialToken(number=7)]


def test_schemas_and_lark_grammars_stay_what_they_are() -> None:
    schema, grammar = JsonSchema({"type": "integer"}), Lark('start: "a"')
    made = load(Sequence("x", schema, OneOf(grammar, schema)))
    assert [one.language.grammar for one in made.terminals if isinstance(one.language, Embedded)] == [schema, grammar]
    assert regular(Sequence("x", schema)) is None


def test_a_contextual_grammar_stands_behind_what_is_regular() -> None:
    words = Lark('start: "if" NAME | NAME "=" NAME start?\nNAME: /[a-z]+/\n%ignore " "', lexer="contextual")
    grammar = load(Sequence("do: ", OneOf("now ", "then "), words))
    assert grammar.lexing == "contextual"
    for good in ("do: now if x", "do: then a = b if c", "do: then iff = if"):
        assert accepts(grammar, good), good
    for wrong in ("do: if x", "do: now ", "if x", "do: now if = x", "do: now do: now if x"):
        assert not accepts(grammar, wrong), wrong
    thought = load(Reasoning(then=words))
    assert accepts(thought, "<think>if x</think>\n if x")
    assert not accepts(thought, "<think></think>")


@pytest.mark.parametrize(
    "value", [Sequence(JsonSchema(True), Lark("start: /a/", lexer="contextual")),
              Sequence(OneOf("", "x"), Lark("start: /a/", lexer="contextual"))],
)  # fmt: skip
def test_what_is_not_regular_or_may_be_empty_cannot_stand_before_a_contextual_grammar(value: Grammar) -> None:
    with pytest.raises(UnsupportedFeature, match="contextual"):
        load(value)
