"""Grammars as values: identity, options, what is refused."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from grammars import (
    AnyText,
    Choice,
    EmptyLanguage,
    Gbnf,
    GrammarError,
    Indenter,
    JsonSchema,
    Lark,
    LimitExceeded,
    OneOf,
    Phrases,
    Reasoning,
    Regex,
    SchemaError,
    Sequence,
    SpecialToken,
    library,
)

SCHEMA = {"type": "object", "properties": {"a": {"minimum": 0.1}}}


def test_equal_schemas_and_options_are_equal_values() -> None:
    assert JsonSchema(SCHEMA) == JsonSchema(json.loads(json.dumps(SCHEMA)))
    assert hash(JsonSchema(SCHEMA)) == hash(JsonSchema(json.loads(json.dumps(SCHEMA))))
    assert JsonSchema('{ "type" : "null" }') == JsonSchema({"type": "null"}) == JsonSchema(b'{"type":"null"}')


@pytest.mark.parametrize(
    "options",
    [
        {"whitespace": "compact"}, {"property_order": "any"}, {"formats": "strict"}, {"draft": "7"},
        {"resources": {"http://x/y": True}}, {"escapes": "canonical"},
    ],
)  # fmt: skip
def test_options_are_part_of_the_identity(options: dict[str, Any]) -> None:
    assert JsonSchema(SCHEMA, **options) != JsonSchema(SCHEMA)
    assert JsonSchema(SCHEMA, **options) == JsonSchema(SCHEMA, **options)


def test_the_order_of_properties_is_part_of_the_identity() -> None:
    first = JsonSchema({"properties": {"a": True, "b": True}})
    assert first != JsonSchema({"properties": {"b": True, "a": True}})


def test_changing_the_dict_later_changes_nothing() -> None:
    schema: dict[str, Any] = {"properties": {"a": {"type": "string"}}}
    value = JsonSchema(schema)
    schema["properties"]["a"]["type"] = "null"
    assert value.document == {"properties": {"a": {"type": "string"}}}


def test_numbers_keep_every_digit() -> None:
    value = JsonSchema('{"minimum": 0.10000000000000000000000000001}')
    assert value.document["minimum"] == Decimal("0.10000000000000000000000000001")


@pytest.mark.parametrize("value", [
    JsonSchema(SCHEMA, resources={"http://x/y": {"type": "null"}}, draft="6"), JsonSchema(True),
    Regex("a+", "ecma"), Choice(["a", "b"]), AnyText(stop=["a", "b"]), Sequence("a", Regex("b")), OneOf("a", AnyText()),
    Phrases(required="a", banned=["b"], within=Choice(["a"])), Reasoning(then=JsonSchema(True), optional=True),
    SpecialToken("<x>"), SpecialToken(number=3), Gbnf('root ::= "a"', dialect="xgrammar"), library.load("python"),
    Lark("start: @x", embedded={"x": JsonSchema(True)}, imports={"y.lark": "A: /a/"}),
])  # fmt: skip
def test_values_pickle(value: object) -> None:
    again = pickle.loads(pickle.dumps(value))
    assert again == value
    assert hash(again) == hash(value)


def test_values_are_frozen() -> None:
    with pytest.raises(AttributeError):
        JsonSchema(True).draft = "7"  # type: ignore[misc]


@pytest.mark.parametrize(
    "schema",
    ["nonsense", "[1]", '{"minimum": NaN}', {"minimum": float("inf")}, {"a": {1}}, 3, None, [], b"\xff\xfe\x00"],
)
def test_what_is_no_schema_is_a_schema_error(schema: Any) -> None:
    with pytest.raises(SchemaError):
        JsonSchema(schema)


@pytest.mark.parametrize("options", [
    {"whitespace": 3}, {"property_order": "alphabetical"}, {"formats": "no"}, {"draft": "5"}, {"escapes": "none"},
    {"resources": {3: True}}, {"resources": {"http://x/y": 3}}, {"whitespace": "[ x]*"},
])  # fmt: skip
def test_unknown_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(GrammarError):
        JsonSchema(True, **options)


def test_whitespace_may_be_a_regular_expression_over_whitespace() -> None:
    assert JsonSchema(True, whitespace=r" ?|\n {0,8}").whitespace == r" ?|\n {0,8}"


def test_hostile_nesting_is_a_limit_not_a_recursion_error() -> None:
    deep: dict[str, Any] = {}
    for _ in range(50_000):
        deep = {"not": deep}
    with pytest.raises(LimitExceeded):
        JsonSchema(deep)
    with pytest.raises(LimitExceeded):
        JsonSchema('{"not":' * 50_000 + "true" + "}" * 50_000)
    circular: dict[str, Any] = {}
    circular["not"] = circular
    with pytest.raises(LimitExceeded):
        JsonSchema(circular)
    while deep:  # take it apart without recursion
        deep = deep.pop("not")


def test_a_choice_keeps_order_and_drops_repeats() -> None:
    assert Choice(["b", "a", "b"]).options == ("b", "a")


@pytest.mark.parametrize("options", ["ab", [3], ["\ud800"]])
def test_a_choice_takes_a_list_of_texts(options: Any) -> None:
    with pytest.raises(GrammarError):
        Choice(options)


def test_a_choice_of_nothing_is_empty() -> None:
    with pytest.raises(EmptyLanguage):
        Choice([])


@pytest.mark.parametrize("arguments", [(3,), ("a", "perl"), ("a", "ecma", "i")])
def test_a_regex_takes_text_dialect_and_flags(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(GrammarError):
        Regex(*arguments)


def test_options_of_written_grammars_are_part_of_the_identity() -> None:
    text = 'start: "a"'
    values = [
        Lark(text), Lark(text, start="a"), Lark(text, lexer="contextual"), Lark(text, imports={"a": "b"}),
        Lark(text, embedded={"x": "y"}), Lark(text, lexer="contextual", indenter=Indenter("N", "I", "D", (), (), 8)),
        Gbnf(text), Gbnf(text, root="a"), Gbnf(text, dialect="xgrammar"),
    ]  # fmt: skip
    assert len(set(values)) == len(values)
    assert Lark(text) == Lark(text, start="start")


def test_a_path_is_read_and_a_text_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "x.lark"
    file.write_text('start: "é"', encoding="utf-8")
    assert Lark(file).text == Lark(str(file)).text == 'start: "é"'
    assert Lark(file).name == str(file)
    assert Lark('start: ".lark"').name == "<string>"
    with pytest.raises(GrammarError, match="cannot be read"):
        Lark(tmp_path / "missing.lark")
    with pytest.raises(GrammarError, match="cannot be read"):
        Gbnf(str(tmp_path / "missing.gbnf"))
    file.write_bytes(b"\xff")
    with pytest.raises(GrammarError, match="UTF-8"):
        Lark(file)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Lark(3), lambda: Lark("", lexer="basic"), lambda: Lark("", start=3), lambda: Lark("", embedded={"X": "y"}),
        lambda: Lark("", embedded={"x": 3}), lambda: Lark("", indenter=3, lexer="contextual"),
        lambda: Gbnf("", root=None), lambda: Gbnf("", dialect="ebnf"), lambda: Sequence(3), lambda: OneOf(b"a"),
        lambda: AnyText(stop=3), lambda: AnyText(stop=""), lambda: AnyText(stop=["a", 3]), lambda: Phrases(banned=[""]),
        lambda: Phrases(within=3), lambda: Reasoning(then=None), lambda: Reasoning(then="a", end=""),
        lambda: Reasoning(then="a", gap=-1), lambda: SpecialToken(""), lambda: SpecialToken("a", 3),
        lambda: SpecialToken(number=-1), lambda: OneOf(),
    ],
)  # fmt: skip
def test_what_is_no_grammar_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(GrammarError):
        make()
