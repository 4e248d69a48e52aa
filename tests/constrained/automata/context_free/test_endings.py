"""Grammars with contextual lexing behind special tokens: what they admit there is what they admit alone."""

from __future__ import annotations

import random

import pytest

from constrained import TokenRejected, UnsupportedFeature, Vocabulary, compile
from constrained.compile import check_grammar
from grammars import Grammar, Lark, OneOf, Reasoning, Repeat, Sequence, SpecialToken, ToolCalls, library
from grammars.tool_calls import FORMATS
from tests.constrained.languages import mask

WORDS = [b"ab", b"select ", b"if a", b" a", b"1 ", b"- x", b"a: b\n", b"()", b"\n  "]
END = 256 + len(WORDS)
NAMES = ["<end>", "<a>", "<b>", *FORMATS["harmony"].marks, *FORMATS["mistral_args"].marks]
VOCABULARY = Vocabulary.from_token_bytes(
    [*(bytes((byte,)) for byte in range(256)), *WORDS, *[None] * len(NAMES)],
    eos_token_ids=[END],
    special_tokens={name: END + at for at, name in enumerate(NAMES)},
)
A, B = SpecialToken("<a>"), SpecialToken("<b>")
NUMBER_OF = {name: END + at for at, name in enumerate(NAMES)}
KEYWORDS = Lark(
    """
    start: (statement ";")*
    statement: "if" NAME | NAME "=" NUMBER
    NAME: /[a-z]+/
    NUMBER: /[0-9]+/
    %ignore " "
    """,
    lexer="contextual",
)


@pytest.mark.parametrize("grammar", [KEYWORDS, library.load("yaml"), Sequence("1 ", KEYWORDS)])
@pytest.mark.parametrize("seed", range(4))
def test_behind_a_token_stands_what_stands_alone(grammar: Grammar, seed: int) -> None:
    alone = compile(grammar, VOCABULARY).matcher()
    behind = compile(Sequence(A, grammar), VOCABULARY).matcher()
    behind.accept(NUMBER_OF["<a>"])
    rng, tokens = random.Random(seed), []
    for _ in range(40):
        found = mask(alone)
        assert mask(behind) == found
        assert behind.is_accepting() is alone.is_accepting()
        readable = sorted(one for one in found if 32 <= one < 127 or 256 <= one < END)
        if not readable:
            break
        tokens.append(rng.choice(readable))
        alone.accept(tokens[-1])
        behind.accept(tokens[-1])
    behind.rollback(len(tokens))
    assert behind.accept_many(tokens) == len(tokens)
    assert behind.text == alone.text


@pytest.mark.parametrize("most", range(6, 12))
def test_budgets_hold_behind_a_token(most: int) -> None:
    matcher = compile(Sequence(A, Repeat(B, 1), KEYWORDS), VOCABULARY).matcher(max_tokens=most)
    rng = random.Random(most)
    while not matcher.is_finished():
        matcher.accept(rng.choice(sorted(mask(matcher))))
    assert len(matcher.tokens) <= most


@pytest.mark.parametrize(
    ("grammar", "sentence"),
    [
        (Sequence(A, KEYWORDS), ["<a>"]),
        (Sequence(A, "1 ", KEYWORDS), ["<a>", "1 if a;"]),
        (OneOf(KEYWORDS, Sequence(A, "x")), ["if b;"]),
        (OneOf(KEYWORDS, Sequence(A, "x")), ["<a>", "x"]),
        (Reasoning(then=KEYWORDS, optional=True), ["<think>if</think>\n\na=1;"]),
        (Reasoning(then=KEYWORDS, optional=True), ["a=1;"]),
        (Reasoning(then=KEYWORDS, start=A, end=B, gap=0), ["<a>", "1;", "<b>", "if a;"]),
        (ToolCalls((), "harmony", "none", content=KEYWORDS, special=FORMATS["harmony"].marks),
         ["<|channel|>", "final", "<|message|>", "if a;"]),
        (ToolCalls([{"name": "now"}], "mistral_args", content=KEYWORDS, special=FORMATS["mistral_args"].marks),
         ["a = 1;if b;"]),
        (ToolCalls([{"name": "now"}], "mistral_args", content=KEYWORDS, special=FORMATS["mistral_args"].marks),
         ["[TOOL_CALLS]", "now", "[ARGS]", "{}"]),
    ],
)  # fmt: skip
def test_it_is_the_end_of_many_grammars(grammar: Grammar, sentence: list[str]) -> None:
    matcher = compile(grammar, VOCABULARY).matcher()
    for piece in sentence:
        for token in [NUMBER_OF[piece]] if piece in NUMBER_OF else piece.encode():
            assert token in mask(matcher)
            matcher.accept(token)
    assert matcher.is_accepting()
    with pytest.raises(TokenRejected):
        matcher.accept(ord("?"))


@pytest.mark.parametrize(
    "grammar",
    [
        Sequence(A, KEYWORDS, B),
        Sequence(A, Repeat(KEYWORDS, 1, 2)),
        Sequence(OneOf(A, "x"), KEYWORDS),
        Reasoning(then=KEYWORDS, start=A, end=B),
        Sequence(B, OneOf(Sequence(KEYWORDS, "x"), "y")),
        Lark('start: @x "b"', embedded={"x": Sequence(A, KEYWORDS)}),
    ],
)
def test_elsewhere_it_is_refused(grammar: Grammar) -> None:
    with pytest.raises(UnsupportedFeature, match="contextual"):
        check_grammar(grammar)
