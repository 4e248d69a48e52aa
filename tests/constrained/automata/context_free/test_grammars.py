"""Masks of context-free grammars: indentation, grammars inside grammars, ambiguity, completions and budgets."""

from __future__ import annotations

import json
import warnings
from functools import cache
from pathlib import Path

import lark
import pytest
from lark.indenter import PythonIndenter

from constrained import Vocabulary
from constrained import compile as compile_constraint
from constrained.compile import Constraint
from constrained.errors import BudgetError
from grammars import (
    AnyText,
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
    UnsupportedFeature,
)
from tests.constrained.automata.context_free.walks import walk

MORE = [
    b"    ",
    b"\n    ",
    b"\n",
    b":\n",
    b"):\n",
    b"def ",
    b"if ",
    b"se:",
    b"()",
    b"))",
    b'{"',
    b'"}',
    b"</",
    b"<tool>",
]
VOCABULARY = Vocabulary.from_token_bytes(
    [*(bytes([byte]) for byte in range(256)), *MORE, None], eos_token_ids=[256 + len(MORE)]
)
OBJECT = JsonSchema({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})


def compiled(value: Grammar) -> Constraint:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compile_constraint(value, VOCABULARY)


def accepts(constraint: Constraint, text: str) -> bool:
    matcher = constraint.matcher()
    data = text.encode()
    return matcher.accept_many(data) == len(data) and matcher.is_accepting()


@cache
def python() -> tuple[Constraint, lark.Lark]:
    path = Path(lark.__file__).parent / "grammars" / "python.lark"
    value = Lark(path.read_text(), start="file_input", lexer="contextual", indenter=PythonIndenter)
    reference = lark.Lark(
        path.read_text(), start="file_input", parser="lalr", lexer="contextual", postlex=PythonIndenter()
    )
    return compiled(value), reference


def lark_parses(reference: lark.Lark, text: str) -> bool:
    try:
        reference.parse(text)
    except (lark.exceptions.LarkError, IndexError, AssertionError):
        return False
    return True


PROGRAMS = [
    "", "x\n", "x", "  x\n", "x\n  y\n", "if x:\n  y\n", "if x:\n  y\n z\n", "if x:\n  y\nelse:\n    z\n    q\n",
    "if x:\n\ty\n        z\n", "try:\n  x\n", "try:\n  x\ny\n", "try:\n  x\nexcept:\n  y\n", "while 1: a; b;\n",
    "f(a,\nb)\n", "x = [\n1,\n   2]\ny\n", "x # c\n", "# c", "# c\n", "if x:\n    # c\n  y\n", "if x:\n  y\n\n\n  z\n\n",
    "x = '''a\nb''' 'c'\n", "a\\\n+1\n", "0\n", "01\n", "00\n", "1if x else 2\n", "é = 1\n", "é×2\n", "f'x' 'y'\n", "fx'y'\n",
    "match x:\n  case C(a, b):\n    pass\n", "match x:\n  case C(a,):\n    pass\n", "match = 1\n",
    "class A:\n  def f(s): pass\n\n  x = 1\n",
    "if x:\r\n  y\r\n", "if x:\n  if y:\n    z\nelse: w\n", "def f():\n  '''d'''\n  return (yield)\n",
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_with_an_indenter_the_masks_take_what_lark_parses(program: str) -> None:
    constraint, reference = python()
    assert accepts(constraint, program) is lark_parses(reference, program)


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_prefix_of_a_program_has_a_completion_that_lark_parses(program: str) -> None:
    constraint, reference = python()
    matcher = constraint.matcher()
    for length, byte in enumerate(program.encode()):
        if matcher.accept_many([byte]) == 0:
            break
        if length % 7 == 3:
            completion = matcher.shortest_completion()
            assert lark_parses(reference, (program.encode()[: length + 1] + completion).decode())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_random_programs_within_a_budget_are_programs(seed: int) -> None:
    constraint, reference = python()
    assert lark_parses(reference, walk(constraint, seed, 24))


TAKEN: list[tuple[Grammar, list[str], list[str]]] = [
    (Sequence("<tool>", OBJECT, "</tool>"), ['<tool>{"a":1}</tool>'], ["<tool></tool>", '<tool>{"a":"b"}</tool>']),
    (Sequence(AnyText(stop="<tool>"), "<tool>", OBJECT), ['x<tool>{"a":1}', '<tool>{"a": 1}'], ['<tool><tool>{"a":1}']),
    (OneOf("x", OBJECT, Regex("[0-9]+")), ["x", '{"a":0}', "12"], ["", '{"a":1}x']),
    (Reasoning(then=OBJECT, optional=True), ['{"a":1}', '<think>{</think>\n{"a":1}'], ['<think>{"a":1}']),
    (Sequence(OBJECT, OBJECT), ['{"a":1}{"a":2}'], ['{"a":1}']),
    (Lark('start: "call" "(" %json {"type":"integer"} ("," %json {"type":"object"})* ")"\n%ignore " "'),
     ["call(12,{})", "call ( 1 )"], ["call(1,2)", "call(1 2)"]),
    (Lark('start: @inner+ "."', embedded={"inner": Lark('start: "a" "b"\n%ignore " "')}), ["ab.", " a b ab ."], [".", "a."]),
    (Lark('start: @inner+ "."', embedded={"inner": Regex("[ab]*")}), ["abba.", "."], ["", "c."]),
    (Gbnf('root ::= "a" root "b" | ""'), ["", "ab", "aabb"], ["aab", "ba"]),
    (Phrases(required=["ab"], banned=["bb"], within=Gbnf('root ::= "a" root "b" | ""')), ["ab"], ["", "aabb"]),
]  # fmt: skip


@pytest.mark.parametrize(("grammar", "good", "bad"), TAKEN)
def test_grammars_inside_grammars_are_followed_and_completed(grammar: Grammar, good: list[str], bad: list[str]) -> None:
    constraint = compiled(grammar)
    for text in good:
        assert accepts(constraint, text), text
        matcher = constraint.matcher()
        for length, byte in enumerate(text.encode()):
            assert accepts(constraint, (text.encode()[:length] + matcher.shortest_completion()).decode())
            matcher.accept(byte)
    for text in bad:
        assert not accepts(constraint, text), text


def test_a_number_of_a_schema_before_digits_is_refused() -> None:
    matcher = compiled(Sequence(JsonSchema({"type": "integer"}), Regex("[0-9]x"))).matcher()
    with pytest.raises(UnsupportedFeature, match="may be a number, and what follows it"):
        matcher.accept_many(b"11x")


WORD_AND_OBJECT = 'start: WORD %json {"type": "object", "maxProperties": 0} WORD\n'


def test_a_schema_behind_a_terminal_that_looks_at_its_first_character_is_followed() -> None:
    constraint = compiled(Lark(WORD_AND_OBJECT + "WORD: /[a-z]+(?![a-z])/"))
    assert accepts(constraint, "ab{}c")
    assert not accepts(constraint, "{}c")


@pytest.mark.parametrize("wanted", [r"(?!\{)", "(?=b)"])
def test_a_terminal_that_forbids_the_schema_behind_it_leaves_no_text(wanted: str) -> None:
    with pytest.raises(EmptyLanguage):
        compiled(Lark(WORD_AND_OBJECT + f"WORD: /[a-z]+{wanted}/"))


def test_a_terminal_that_looks_into_the_schema_behind_it_is_refused() -> None:
    with pytest.raises(UnsupportedFeature, match="before %json looks further ahead than its first character"):
        compiled(Lark(WORD_AND_OBJECT + r"WORD: /[a-z]+(?!\{x)/"))


@pytest.mark.parametrize("text", ['start: s\ns: s s | "a" |', 'start: s\ns: "a" s | s "a" | s s s | "a" | s'])
def test_cyclic_and_highly_ambiguous_grammars_stay_quick(text: str) -> None:
    constraint = compiled(Lark(text))
    matcher = constraint.matcher()
    assert matcher.accept_many(b"a" * 120) == 120
    assert matcher.is_accepting()
    assert constraint.store.counters().states < 20_000


def test_deep_nesting_is_followed_to_the_limit_of_the_stack() -> None:
    constraint = compiled(Lark('start: "(" start ")" | "x"'))
    text = "(" * 1000 + "x" + ")" * 1000
    assert accepts(constraint, text)
    matcher = constraint.matcher()
    matcher.accept_many(b"(" * 300)
    assert matcher.shortest_completion() == b"x" + b")" * 300


def test_right_recursion_takes_no_states_for_its_depth() -> None:
    constraint = compiled(Lark('start: "a" "," start | "a"'))
    assert accepts(constraint, "a," * 50 + "a")
    states = constraint.store.counters().states
    assert accepts(constraint, "a," * 500 + "a")
    assert constraint.store.counters().states == states


def test_forced_text_is_found_across_terminals() -> None:
    matcher = compiled(Lark('start: "begin" x "end"\nx: "(" ")"')).matcher()
    assert b"".join(VOCABULARY.tokens[token] or b"" for token in matcher.forced_tokens()) == b"begin()end"


def test_a_budget_too_small_for_any_sentence_is_refused() -> None:
    constraint = compiled(Lark('start: "begin" x* "end"\nx: "(" ")"'))
    with pytest.raises(BudgetError, match="needs at least"):
        constraint.matcher(max_tokens=4)
    assert walk(constraint, 1, 12).startswith("begin")


def test_a_written_json_grammar_takes_what_a_json_reader_takes() -> None:
    constraint = compiled(Lark("""
        start: value
        ?value: object | array | ESCAPED_STRING | SIGNED_NUMBER | "true" | "false" | "null"
        array: "[" [value ("," value)*] "]"
        object: "{" [pair ("," pair)*] "}"
        pair: ESCAPED_STRING ":" value
        %import common (ESCAPED_STRING, SIGNED_NUMBER, WS)
        %ignore WS
    """, lexer="contextual"))  # fmt: skip
    document = {"a": [1, -2.5, {"b": None}], "c": 'x " y', "d": []}
    assert accepts(constraint, json.dumps(document))
    assert accepts(constraint, json.dumps(document, indent=2))
    assert not accepts(constraint, json.dumps(document)[:-1])
