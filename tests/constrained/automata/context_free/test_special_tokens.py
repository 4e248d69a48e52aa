"""Special tokens that grammars name: their bit is set where the grammar says so, and nowhere else."""

from __future__ import annotations

import pickle
import random

import pytest

from constrained import Vocabulary
from constrained import compile as compile_constraint
from constrained.errors import BudgetError, TokenRejected
from constrained.matcher import Matcher
from constrained.vocabulary.spelled import MARK, pieces, spelling, without_special_tokens
from grammars import (
    AnyText,
    Gbnf,
    Grammar,
    GrammarError,
    JsonSchema,
    Lark,
    OneOf,
    Reasoning,
    Regex,
    Sequence,
    SpecialToken,
)
from tests.constrained.languages import mask

STAND_IN = "§"
"""A text in the place of the token: what a grammar means with it is known."""
WORDS = [b"ab", b"ba", b"call", b'{"', b" a", b"  "]
COUNT = 256 + len(WORDS)
SEPARATOR, THINK, END_THINK, END = range(COUNT, COUNT + 4)
NAMES = {"<|sep|>": SEPARATOR, "<think>": THINK, "</think>": END_THINK, "<|end|>": END}
VOCABULARY = Vocabulary.from_token_bytes(
    [*(bytes([byte]) for byte in range(256)), *WORDS, None, None, None, None], eos_token_ids=[END], special_tokens=NAMES
)
PLAIN = Vocabulary.from_token_bytes(
    [*(bytes([byte]) for byte in range(256)), *WORDS, STAND_IN.encode(), None, None, None], eos_token_ids=[END]
)


def matcher(grammar: Grammar, max_tokens: int | None = None) -> Matcher:
    return compile_constraint(grammar, VOCABULARY).matcher(max_tokens)


GRAMMARS = [
    'start: WORD+ (SEP WORD+)*\nWORD: /[ab]+/\n%ignore " "',
    'start: "a" SEP start SEP "b" | "ab" | SEP',
    'start: x* SEP\nx: "a" | "a" SEP "a" | "b" x SEP',
    'start: (WORD SEP)+ "call" | SEP "c"\nWORD: /[ab]+?/\n%ignore / +/',
]


@pytest.mark.parametrize("text", GRAMMARS)
@pytest.mark.parametrize("seed", range(3))
def test_a_token_stands_where_a_text_in_its_place_would(text: str, seed: int) -> None:
    named = compile_constraint(Lark(text.replace("SEP", "<|sep|>")), VOCABULARY).matcher()
    spelled = compile_constraint(Lark(text.replace("SEP", f'"{STAND_IN}"')), PLAIN).matcher()
    first, *others = STAND_IN.encode()
    choose = random.Random(seed)
    for _ in range(25):
        allowed = mask(spelled) - {first, *others}
        assert mask(named) == allowed
        assert named.is_accepting() is spelled.is_accepting()
        if allowed <= {END}:
            break
        token = choose.choice(sorted(allowed - {END}))
        named.accept(token)
        spelled.accept(token)
        assert named.text == spelled.text.replace(STAND_IN.encode(), b"")


@pytest.mark.parametrize(
    ("grammar", "tokens"),
    [
        (Sequence(SpecialToken("<think>"), AnyText(), SpecialToken("</think>"), Regex("[ab]{2}")), [THINK, 120, END_THINK, 97, 98]),
        (Reasoning(then=JsonSchema({"type": "integer"}), start=SpecialToken("<think>"), end=SpecialToken("</think>")),
         [THINK, 99, END_THINK, 0x37]),
        (Gbnf('root ::= "a" <think> "b" | "a" <|sep|>'), [97, THINK, 98]),
        (Lark('start: %json {"type": "boolean"} ' + f'<[{SEPARATOR}]> "x"'), [*b"true", SEPARATOR, 120]),
        (OneOf(SpecialToken("<|sep|>"), SpecialToken("<think>")), [THINK]),
    ],
)  # fmt: skip
def test_grammars_of_every_kind_name_tokens(grammar: Grammar, tokens: list[int]) -> None:
    here = matcher(grammar)
    for token in tokens:
        assert token in mask(here)
        here.accept(token)
    assert here.is_accepting()
    here.rollback(len(tokens))
    assert here.accept_many(tokens) == len(tokens)
    assert here.text == bytes(token for token in tokens if token < 256)


def test_tokens_are_forced_and_counted_in_budgets() -> None:
    grammar = Sequence("call", SpecialToken("<|sep|>"), "a", SpecialToken("<think>"))
    call = VOCABULARY.tokens.index(b"call")
    assert matcher(grammar).forced_tokens() == [call, SEPARATOR, 97, THINK]
    here = matcher(grammar, max_tokens=5)
    for token in (call, SEPARATOR, 97, THINK, END):
        assert mask(here) == {token}  # another spelling of "call" would take one token more
        here.accept(token)
    assert here.is_finished()
    with pytest.raises(BudgetError, match="needs at least 5"):
        matcher(grammar, max_tokens=4)
    assert matcher(grammar).shortest_completion() == b"calla"


def test_a_token_that_is_not_named_here_is_rejected() -> None:
    here = matcher(Sequence("a", SpecialToken("<|sep|>")))
    for token in (SEPARATOR, THINK, MARK):
        with pytest.raises(TokenRejected):
            here.accept(token)
    here.accept(97)
    with pytest.raises(TokenRejected):
        here.accept(MARK)  # the byte that no text holds
    assert mask(here) == {SEPARATOR}


def test_an_end_token_that_the_grammar_names_is_part_of_the_text_there() -> None:
    here = matcher(Sequence("a", SpecialToken("<|end|>"), "b"))
    for token in (97, END, 98):
        assert mask(here) == {token}
        here.accept(token)
        assert not here.is_finished()
    here.accept(END)
    assert here.is_finished()


@pytest.mark.parametrize(
    ("token", "said"),
    [
        (SpecialToken("<nothing>"), "no special token <nothing>; it has <|sep|>, <think>, </think>, <|end|>"),
        (SpecialToken(number=97), "token 97 is text; write b'a' as a string"),
        (SpecialToken(number=9999), "no token 9999"),
    ],
)
def test_a_token_that_the_vocabulary_has_not_is_an_error_when_compiling(token: SpecialToken, said: str) -> None:
    with pytest.raises(GrammarError) as caught:
        matcher(Sequence("a", token))
    assert said in str(caught.value)


def test_lookaheads_see_the_end_of_the_text_before_a_token() -> None:
    assert SEPARATOR in mask_after(Lark('start: /a(?!b)/ <|sep|> "b"'), b"a")
    assert SEPARATOR not in mask_after(Lark('start: /a(?=b)/ ("b" | <|sep|> "b")'), b"a")


def mask_after(grammar: Grammar, text: bytes) -> set[int]:
    here = matcher(grammar)
    assert here.accept_many(text) == len(text)
    return mask(here)


def test_constraints_with_named_tokens_pickle(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONSTRAINED_CACHE", str(tmp_path))
    constraint = compile_constraint(Sequence("a", SpecialToken("<|sep|>")), VOCABULARY)
    assert pickle.loads(pickle.dumps(constraint)) is constraint
    assert constraint.vocabulary is VOCABULARY


def test_the_bytes_of_tokens_are_told_from_text() -> None:
    data = "é".encode() + spelling(0xFFFFFF) + spelling(10) + b"x"
    assert pieces(data) == ["é".encode(), 0xFFFFFF, 10, b"x"]
    assert without_special_tokens(data) == "éx".encode()
    assert pieces(b"") == []
