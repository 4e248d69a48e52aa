"""Arguments between tags: texts as they are, everything else as JSON, and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from constrained import UnsupportedFeature, Vocabulary, compile
from grammars import ToolCalls
from grammars.tool_calls import read_calls


def call(*arguments: tuple[str, str]) -> str:
    written = "".join(f"<parameter={name}>\n{value}\n</parameter>\n" for name, value in arguments)
    return f"<tool_call>\n<function=f>\n{written}</function>\n</tool_call>"


def tool(schema: Any, **others: Any) -> dict[str, Any]:
    properties = {"x": schema, **others.pop("properties", {})}
    return {"name": "f", "parameters": {"properties": properties, "required": ["x"], **others}}


def is_taken(vocabulary: Vocabulary, value: ToolCalls, text: str) -> bool:
    matcher = compile(value, vocabulary).matcher()
    data = list(text.encode())
    return matcher.accept_many(data) == len(data) and matcher.is_accepting()


REF = {"$defs": {"name": {"type": "string"}, "tree": {"properties": {"left": {"$ref": "#/$defs/tree"}}}}}


@pytest.mark.parametrize(
    ("schema", "taken", "refused"),
    [
        ({"type": "string"}, {"Oslo": "Oslo", "": "", '"a"': '"a"', "null": "null", "a\n\n<b>": "a\n\n<b>"}, []),
        ({"type": "string", "description": "a city", "default": "x"}, {"a\\n": "a\\n"}, []),
        ({"type": "string", "minLength": 2, "maxLength": 3}, {"aé": "aé", "\n\n\n": "\n\n\n"}, ["a", "abcd"]),
        ({"type": "string", "pattern": "^[ab]+$"}, {"ab": "ab"}, ["", "abc", '"ab"']),
        ({"type": "string", "format": "date"}, {'"2024-02-29"': "2024-02-29"}, ["2024-02-29", '"2023-02-29"']),
        ({"type": "string", "pattern": "b", "maxLength": 2}, {'"ab"': "ab"}, ["ab", '"aab"']),
        ({"enum": ["a", "b\nc"]}, {"a": "a", "b\nc": "b\nc"}, ["c", '"a"']),
        ({"const": "a"}, {"a": "a"}, ["b"]),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"null": None, "nul": "nul", "nulls": "nulls", "": ""}, []),
        ({"type": ["string", "null"], "maxLength": 4}, {"null": None, "a": "a"}, ["abcde"]),
        ({"enum": ["null", None]}, {"null": None}, ["a"]),
        ({"type": "string", "enum": ["a", None]}, {"a": "a"}, ["null"]),
        ({"type": ["string", "integer"]}, {'"5"': "5", "5": 5}, ["a"]),
        ({"type": "boolean"}, {"true": True, "True": True, "False": False}, ["TRUE", "1", '"true"']),
        ({"type": "integer", "minimum": 3}, {"3": 3}, ["2", "x"]),
        ({"type": ["boolean", "null"]}, {"null": None, "false": False}, ["None"]),
        ({"type": "array", "items": {"type": "string"}}, {'["a", "<"]': ["a", "<"]}, ["a"]),
        ({"$ref": "#/$defs/name"}, {"Oslo": "Oslo"}, []),
        ({"$ref": "#/$defs/name", "maxLength": 1}, {'"O"': "O"}, ["O", '"Os"']),
        ({"$ref": "#/$defs/tree"}, {'{"left": {"left": {}}}': {"left": {"left": {}}}}, ["{"]),
    ],
)  # fmt: skip
def test_texts_stand_as_they_are_and_other_values_as_json(
    make_vocabulary: Callable[..., Vocabulary], schema: Any, taken: dict[str, Any], refused: list[str]
) -> None:
    vocabulary = make_vocabulary()
    given = tool(schema, **REF)
    value = ToolCalls([given], "qwen3_coder", "required")
    for text, meant in taken.items():
        assert is_taken(vocabulary, value, call(("x", text)))
        for size in (1, 3, 1000):
            written = call(("x", text))
            pieces = [written[at : at + size] for at in range(0, len(written), size)]
            _, [(_, arguments)] = read_calls(value, pieces)
            assert json.loads(arguments) == {"x": meant}
        jsonschema.validate({"x": meant}, given["parameters"])
    for text in refused:
        assert not is_taken(vocabulary, value, call(("x", text)))


def test_a_text_ends_where_its_tag_is_closed(make_vocabulary: Callable[..., Vocabulary]) -> None:
    value = ToolCalls([tool({"type": "string"})], "qwen3_coder", "required")
    vocabulary = make_vocabulary()
    assert is_taken(vocabulary, value, call(("x", "a</parameter>")))
    assert not is_taken(vocabulary, value, call(("x", "a\n</parameter>b")))
    assert not is_taken(vocabulary, value, call(("x", "a\n</parameter>\n")))


def test_arguments_come_in_the_order_of_the_schema_and_needed_ones_always(
    make_vocabulary: Callable[..., Vocabulary],
) -> None:
    given = tool({"type": "string"}, properties={"y": {"type": "integer"}, "z": False})
    value = ToolCalls([given], "qwen3_coder", "required")
    vocabulary = make_vocabulary()
    for arguments, taken in (
        ([("x", "a")], True),
        ([("x", "a"), ("y", "1")], True),
        ([("y", "1")], False),
        ([("y", "1"), ("x", "a")], False),
        ([("x", "a"), ("x", "b")], False),
        ([("x", "a"), ("z", "1")], False),
        ([("x", "a"), ("w", "1")], False),
    ):
        assert is_taken(vocabulary, value, call(*arguments)) == taken


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("qwen3_coder", call(("x", '"any"'), ("y", "[null]"))),
        ("pythonic", '[f(x="any", y=[1])]'),
        ("hermes", '<tool_call>\n{"name": "f", "arguments": {"w": 1, "y": [null]}}\n</tool_call>'),
    ],
)
def test_arguments_that_need_not_fit_are_still_arguments(
    make_vocabulary: Callable[..., Vocabulary], format: Any, text: str
) -> None:
    given = {"name": "f", "strict": False, "parameters": {"properties": {"x": {"type": "integer"}, "y": {}}}}
    assert is_taken(make_vocabulary(), ToolCalls([given], format, "required"), text)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"properties": {"a>b": {}}}, "cannot name the argument 'a>b'"),
        ({"properties": {"a": {}}, "minProperties": 1}, "cannot hold minProperties"),
        ({"patternProperties": {"a": {}}}, "cannot hold patternProperties"),
    ],
)
def test_what_tags_cannot_hold_is_refused_with_a_way_out(
    make_vocabulary: Callable[..., Vocabulary], parameters: Any, message: str
) -> None:
    with pytest.raises(UnsupportedFeature, match=message) as refused:
        compile(ToolCalls([{"name": "f", "parameters": parameters}], "qwen3_coder"), make_vocabulary()).matcher()
    assert "take another format" in str(refused.value)


def test_a_long_text_can_be_ended_anywhere(make_vocabulary: Callable[..., Vocabulary]) -> None:
    value = ToolCalls([tool({"type": "string", "maxLength": 20_000})], "qwen3_coder", "required")
    matcher = compile(value, make_vocabulary()).matcher()
    data = list(b"<tool_call>\n<function=f>\n<parameter=x>\nabc")
    assert matcher.accept_many(data) == len(data)
    assert matcher.shortest_completion() == b"\n</parameter>\n</function>\n</tool_call>"
