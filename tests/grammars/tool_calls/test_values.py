from __future__ import annotations

import pickle
from typing import Any

import pytest

from grammars import GrammarError, JsonSchema, Repeat, SchemaError, ToolCalls, UnsupportedFeature
from grammars.combined import load, regular
from grammars.regular import matches
from grammars.tool_calls import lowered
from grammars.values import ToolSignature

TOOLS = [{"name": "a", "parameters": {"type": "object"}}, {"type": "function", "function": {"name": "b"}}]


def test_equal_calls_are_equal_values_and_pickle() -> None:
    value = ToolCalls(TOOLS, format="hermes", tool_choice="required", special=["<tool_call>"])
    again = pickle.loads(pickle.dumps(value))
    assert again == value == ToolCalls(TOOLS, "hermes", "required", True, None, ["<tool_call>"])
    assert hash(again) == hash(value)
    for other in ({"format": "json"}, {"tool_choice": "auto"}, {"parallel": False}, {"special": ()}):
        assert (
            ToolCalls(TOOLS, **{"format": "hermes", "tool_choice": "required", "special": ["<tool_call>"], **other})
            != value
        )


@pytest.mark.parametrize("choice", [{"name": "b"}, {"type": "function", "function": {"name": "b"}}])
def test_a_choice_that_names_a_tool_leaves_one_call_of_it(choice: Any) -> None:
    value = ToolCalls(TOOLS, tool_choice=choice)
    assert [tool.name for tool in value.tools] == ["b"]
    assert (value.tool_choice, value.parallel) == ("required", False)


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_a_choice_may_allow_some_of_the_tools(mode: str) -> None:
    tools = [*TOOLS, {"name": "c"}]
    chat = {"mode": mode, "tools": [{"type": "function", "function": {"name": name}} for name in "ca"]}
    responses = {"mode": mode, "tools": [{"type": "function", "name": name} for name in "ca"]}
    for choice in ({"type": "allowed_tools", "allowed_tools": chat}, {"type": "allowed_tools", **responses}):
        value = ToolCalls(tools, tool_choice=choice)
        assert [tool.name for tool in value.tools] == ["a", "c"]
        assert (value.tool_choice, value.parallel) == (mode, True)
        assert not ToolCalls(tools, tool_choice=choice, parallel=False).parallel


def test_strict_false_leaves_the_arguments_any_object() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    strict, loose = (
        ToolSignature.of({"name": "a", "parameters": schema, "strict": strict}) for strict in (True, False)
    )
    assert strict.arguments == JsonSchema(schema)
    assert loose.arguments == JsonSchema({"type": "object", "properties": {"x": True}}, property_order="any")
    inner = {"type": "function", "function": {"name": "a", "parameters": schema, "strict": False}}
    assert ToolSignature.of(inner) == loose


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([],), SchemaError, "empty"),
        (("ab",), GrammarError, "pass a list"),
        (([TOOLS[0], TOOLS[0]],), SchemaError, "two tools are named 'a'"),
        (([{"name": "a b"}],), SchemaError, "letters, digits"),
        (([{"name": "a", "parameters": {"type": "array"}}],), SchemaError, "arguments are an object"),
        (([{"name": "a", "strict": "yes"}],), SchemaError, "strict is 'yes'"),
        (([3],), SchemaError, "not 3"),
        ((TOOLS, "yaml"), GrammarError, "format='yaml'"),
        ((TOOLS, "json", {"name": "c"}), SchemaError, "names 'c'; the tools are a, b"),
        ((TOOLS, "json", "maybe"), GrammarError, 'pass "auto"'),
        ((TOOLS, "json", "required", True, "x"), GrammarError, "instead of a call"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(
    arguments: tuple[Any, ...], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ToolCalls(*arguments)


def test_content_beside_calls_needs_a_format_with_marks() -> None:
    with pytest.raises(UnsupportedFeature, match="both begin alike"):
        lowered(ToolCalls(TOOLS, format="json", content=JsonSchema(True)))
    load(ToolCalls(TOOLS, format="hermes", content=JsonSchema(True)))


@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        ({"properties": {"x": {"type": "array", "items": {"type": "boolean"}, "uniqueItems": True}}}, "uniqueItems"),
        ({"properties": {"x": {"oneOf": [{"type": "boolean"}, {"enum": [True]}]}}}, "oneOf"),
        ({"properties": {"x": {"type": "boolean"}}, "minProperties": 1}, "minProperties"),
        ({"properties": {"x": {"$ref": "#"}, "y": {"type": "null"}}}, "ref"),
    ],
)
def test_what_python_would_spell_otherwise_deep_inside_is_refused(schema: Any, keyword: str) -> None:
    with pytest.raises(UnsupportedFeature, match=keyword):
        lowered(ToolCalls([{"name": "a", "parameters": schema}], format="pythonic"))


@pytest.mark.parametrize(
    ("least", "most", "separator", "texts", "others"),
    [
        (0, None, "", ["", "x", "xxx"], ["xy"]),
        (1, 2, ", ", ["x", "x, x"], ["", "x, x, x", "xx", "x, "]),
        (0, 1, ",", ["", "x"], ["x,x"]),
        (2, None, ",", ["x,x", "x,x,x"], ["x", ""]),
        (0, 0, ",", [""], ["x"]),
    ],
)
def test_repeats_stand_with_their_separator_between(
    least: int, most: int | None, separator: str, texts: list[str], others: list[str]
) -> None:
    language = regular(Repeat("x", least, most, separator))
    assert language is not None
    assert all(matches(language, text) for text in texts)
    assert not any(matches(language, text) for text in others)


@pytest.mark.parametrize("bounds", [(-1, None), (3, 2), (0, 1.5)])
def test_bounds_that_no_number_meets_are_refused(bounds: Any) -> None:
    with pytest.raises(GrammarError, match="0 <= least <= most"):
        Repeat("x", *bounds)
