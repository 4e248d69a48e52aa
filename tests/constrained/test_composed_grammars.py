"""GBNF and grammars made of others through the masks."""

from __future__ import annotations

import random
from functools import cache

import numpy as np
import pytest

from constrained import EmptyLanguage, SchemaError, Vocabulary, compile
from grammars import (
    AnyText,
    Choice,
    Gbnf,
    Grammar,
    JsonSchema,
    Lark,
    OneOf,
    Phrases,
    Reasoning,
    Regex,
    Sequence,
    library,
)
from tests.grammars.gbnf.test_gbnf import ARITHMETIC, CHESS, JSON, TAGS

CALL = Lark(
    'start: "call " @tool "(" %json {"type": "array", "items": {"type": "boolean"}, "maxItems": 2} ")" @end?\n',
    embedded={"tool": Regex("[a-z_]+"), "end": Gbnf('root ::= "." root | "!"')},
)
SAMPLES: list[tuple[Grammar, list[str], list[str]]] = [
    (Gbnf(CHESS), ["1. e4 e5\n2. Nf3 Nc6\n"], ["1. e4 e5\n", "1. e9 e5\n2. a3 a4\n"]),
    (Gbnf(JSON), ['{"a": [1, -2.5e3, null]}', "{}", '{"é":"\\\\"}'], ["[]", '{"a":01}', '{"a":1']),
    (Gbnf(ARITHMETIC), ["1+2=3\n", "(a *b) =c\nx=1\n"], ["1+2\n", "+1=1\n"]),
    (Gbnf(TAGS), ["a <call>{x} b <code>```y``` c</end>", "un <cal</end>"], ["a", "<call>{x</end>", "a</end></end>"]),
    (Gbnf('root ::= root root | "a" | ""'), ["", "aaaa"], ["b"]),
    (Gbnf('root ::= x{100,300}\nx ::= "(" x? ")"'), ["()" * 100, "(())" * 300], ["()" * 99, "()" * 301]),
    (AnyText(stop=["ab", "é"]), ["", "ba", "漢"], ["xab", "é"]),
    (Reasoning(then=Choice(["yes", "no"])), ["<think>a</thin</think>\n\nyes"], ["yes", "<think></think></think>no"]),
    (Phrases(required=["ab", "é"], banned="ba"), ["éab", "xabxé"], ["abaé", "ab", ""]),
    (Phrases("ab", within=Gbnf('root ::= "(" root ")" | "a" | "b" | root root')), ["ab", "(ab)(b)"], ["a", "(a)b"]),
    (Phrases(banned="))", within=Lark('start: "(" start ")" | "z" | start start')), ["(z)(z)z"], ["((z))"]),
    (
        Sequence("[", Phrases("ab", within=Gbnf('root ::= "(" root ")" | "a" | "b" | root root')), "]"),
        ["[(ab)(b)]"],
        ["[(a)b]", "ab"],
    ),
    (
        Sequence("x", JsonSchema({"enum": [1, True, "a"]}), OneOf("y", Regex("z+"))),
        ["x1y", 'x"a"zz', "xtruez"],
        ["xy", "x1"],
    ),
    (Sequence("<", AnyText(stop=">"), ">", Gbnf('root ::= "(" root ")" | "q"')), ["<abc>((q))", "<>q"], ["<abc>((q)"]),
    (
        Sequence("x", JsonSchema({"type": "integer"}), OneOf("y", Lark('start: "(" start ")" | "z"'))),
        ["x12y", "x-3((z))"],
        ["x", "x1(z", "xyz"],
    ),
    (
        Reasoning(then=library.load("sql")),
        ["<think>a < b</think>\n\nSELECT a FROM t", "<think></think>delete from t"],
        ["SELECT 1", "<think></think>SELECT", "<think>SELECT 1"],
    ),
    (
        Sequence("```python\n", library.load("python")),
        ["```python\nif x:\n  pass\n", "```python\n"],
        ["if x:\n  pass\n", "```python\n x\n"],
    ),
    (CALL, ["call f([true, false])", "call g_h([])...!"], ["call f(true)", "call ([])", "call f([])."]),
]
PIECES = ["ab", "()", '":', '{"', "<thi", "nk>", "</", "call ", "[true", "\n\n", "=1", "1. ", "é", "漢"]


@cache
def _vocabulary() -> Vocabulary:
    pieces = [piece.encode() for piece in PIECES]
    return Vocabulary.from_token_bytes([*(bytes([byte]) for byte in range(256)), None, *pieces], eos_token_ids=[256])


@pytest.mark.parametrize(("grammar", "good", "bad"), SAMPLES)
def test_samples(grammar: Grammar, good: list[str], bad: list[str]) -> None:
    constraint = compile(grammar, _vocabulary())
    for text, expected in [*((one, True) for one in good), *((one, False) for one in bad)]:
        matcher = constraint.matcher()
        data = list(text.encode())
        assert (matcher.accept_many(data) == len(data) and matcher.is_accepting()) is expected, text


@pytest.mark.parametrize(("grammar", "good", "bad"), SAMPLES)
def test_walks_end_in_sentences(grammar: Grammar, good: list[str], bad: list[str]) -> None:
    chance = random.Random(str(good))
    constraint = compile(grammar, _vocabulary())
    row = np.zeros(_vocabulary().row_words, dtype=np.uint32)
    for _ in range(8):
        matcher = constraint.matcher()
        data = b""
        for _ in range(chance.randrange(1, 25)):
            matcher.fill_mask(row)
            allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
            assert len(allowed), data
            token = int(chance.choice([token for token in allowed if token < 127 or token > 256] or list(allowed)))
            if token == 256:
                break
            matcher.accept(token)
            data += _vocabulary().token_bytes(token) or b""
        data += matcher.shortest_completion()
        again = constraint.matcher()
        assert again.accept_many(list(data)) == len(data), data
        assert again.is_accepting(), data


@pytest.mark.parametrize(
    ("schema", "error", "message"),
    [
        ({"type": "strin"}, SchemaError, "'strin' is no type"),
        (False, EmptyLanguage, "no JSON value satisfies the schema"),
    ],
)
def test_what_is_wrong_with_a_schema_in_another_grammar_is_said_when_that_is_compiled(
    schema: dict[str, object] | bool, error: type[Exception], message: str
) -> None:
    for grammar in (Sequence("x", JsonSchema(schema)), Lark('start: "x" @s', embedded={"s": JsonSchema(schema)})):
        with pytest.raises(error, match=message):
            compile(grammar, _vocabulary())


def test_rules_of_a_gbnf_grammar_that_derive_nothing_are_named() -> None:
    with pytest.raises(EmptyLanguage, match=r"root \(line 1\), x \(line 2\) cannot be derived to an end"):
        compile(Gbnf('root ::= "b" x\nx ::= "a" x\ny ::= "c"'), _vocabulary())
