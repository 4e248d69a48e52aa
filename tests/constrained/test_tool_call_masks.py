"""What the masks of every tool-call format let through is read back as calls that fit their schemas, and nothing else."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, get_args

import jsonschema
import numpy as np
import pytest

from constrained import Constraint, TokenRejected, Vocabulary, compile
from grammars import Choice, Reasoning, ToolCalls
from grammars.tool_calls import FORMATS, CallBegin, read_calls, reader_of
from grammars.values import ToolFormat

SCHEMAS: dict[str, dict[str, Any]] = {
    "weather": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 5},
            "days": {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
            "alerts": {"type": "boolean"},
            "unit": {"anyOf": [{"enum": ["c", True]}, {"type": "null"}]},
            "more": {
                "type": "object",
                "properties": {"x": {"type": ["null", "integer"]}, "y": {"const": False}},
                "required": ["y"],
                "additionalProperties": False,
            },
            "flags": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2},
        },
        "required": ["days", "alerts"],
        "additionalProperties": False,
    },
    "now": {"type": "object", "properties": {}, "additionalProperties": False},
}
TOOLS = [{"name": name, "parameters": schema} for name, schema in SCHEMAS.items()]


def random_text(constraint: Constraint, rng: random.Random, max_tokens: int = 200) -> str:
    """A sentence of printable characters, where they do, drawn from the masks."""
    vocabulary = constraint.vocabulary
    matcher = constraint.matcher(max_tokens=max_tokens)
    row, taken = np.zeros(vocabulary.row_words, np.uint32), bytearray()
    while True:
        matcher.fill_mask(row)
        allowed = [token for token in range(257) if row[token // 32] >> (token % 32) & 1]
        assert allowed
        token = rng.choice([token for token in allowed if 32 <= token < 127 or token == 256] or allowed)
        if token == 256:
            return taken.decode()
        matcher.accept(token)
        taken.append(token)


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("format", get_args(ToolFormat))
def test_whatever_is_drawn_is_calls_that_fit(
    make_vocabulary: Callable[..., Vocabulary], format: ToolFormat, parallel: bool
) -> None:
    value = ToolCalls(TOOLS, format=format, tool_choice="required", parallel=parallel)
    constraint = compile(value, make_vocabulary())
    rng = random.Random(f"{format}{parallel}")
    several = False
    for _ in range(3):
        content, calls = read_calls(value, random_text(constraint, rng))
        assert content == "" or format == "harmony"
        assert calls
        several |= len(calls) > 1
        for name, arguments in calls:
            jsonschema.validate(json.loads(arguments), SCHEMAS[name])
    assert parallel or not several


def accepts(constraint: Constraint, text: str) -> bool:
    matcher = constraint.matcher()
    data = list(text.encode())
    return matcher.accept_many(data) == len(data) and matcher.is_accepting()


@pytest.mark.parametrize("format", [name for name, layout in FORMATS.items() if layout.trigger])
def test_after_the_trigger_only_calls_follow(make_vocabulary: Callable[..., Vocabulary], format: ToolFormat) -> None:
    constraint = compile(ToolCalls(TOOLS, format=format), make_vocabulary())
    trigger = FORMATS[format].trigger
    assert accepts(constraint, "Just text < [T")
    assert not accepts(constraint, f"text {trigger}")
    matcher = constraint.matcher()
    matcher.accept_many(list(f"Text. {trigger}".encode()))
    with pytest.raises(TokenRejected):
        matcher.accept(ord("!"))
    closed = compile(ToolCalls(TOOLS, format=format, tool_choice="none"), make_vocabulary())
    assert accepts(closed, "Just text")
    assert not accepts(closed, f"text {trigger}{{}}")


def test_one_call_is_all_where_calls_are_not_parallel(make_vocabulary: Callable[..., Vocabulary]) -> None:
    call = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    for parallel in (True, False):
        constraint = compile(ToolCalls(TOOLS, format="hermes", parallel=parallel), make_vocabulary())
        assert accepts(constraint, f"Hm. {call}")
        assert accepts(constraint, f"{call}\n{call}") == parallel
        assert not accepts(constraint, f"{call} and")


def test_a_grammar_of_the_content_is_instead_of_calls(make_vocabulary: Callable[..., Vocabulary]) -> None:
    constraint = compile(ToolCalls(TOOLS, format="hermes", content=Choice(["yes", "no"])), make_vocabulary())
    call = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    assert accepts(constraint, "yes")
    assert accepts(constraint, call)
    assert not accepts(constraint, "yes" + call)
    assert not accepts(constraint, "perhaps")


def test_thoughts_come_before_calls(make_vocabulary: Callable[..., Vocabulary]) -> None:
    value = Reasoning(then=ToolCalls(TOOLS, format="hermes", tool_choice="required"))
    constraint = compile(value, make_vocabulary())
    text = '<think>I <tool_call> it</think>\n\n<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    assert accepts(constraint, text)
    assert not accepts(constraint, "<think>I</think>text")
    events = reader_of(value).feed(text)
    assert [event.name for event in events if isinstance(event, CallBegin)] == ["now"]


def test_a_hundred_tools_start_at_once_and_hold_each_ones_schema(make_vocabulary: Callable[..., Vocabulary]) -> None:
    tools = [
        {"name": f"tool_{number}", "parameters": {"properties": {"x": {"const": number}}, "required": ["x"]}}
        for number in range(100)
    ]
    constraint = compile(ToolCalls(tools, format="hermes"), make_vocabulary())
    assert accepts(constraint, '<tool_call>\n{"name": "tool_77", "arguments": {"x": 77}}\n</tool_call>')
    assert not accepts(constraint, '<tool_call>\n{"name": "tool_77", "arguments": {"x": 78}}\n</tool_call>')


@pytest.mark.parametrize("format", ["hermes", "qwen3_coder", "json", "deepseek_v31"])
def test_a_shortest_call_is_found_among_many_tools_with_many_arguments(
    make_vocabulary: Callable[..., Vocabulary], format: ToolFormat
) -> None:
    properties = {f"p{at}": {"type": "string", "pattern": f"^[a-z]{{1,{at + 2}}}$"} for at in range(30)}
    tools = [{"name": f"f{at}", "parameters": {"properties": properties}} for at in range(10)]
    value = ToolCalls(tools, format, "required")
    matcher = compile(value, make_vocabulary()).matcher()
    text = matcher.shortest_completion().decode()
    content, [(name, arguments)] = read_calls(value, [text])
    assert (content, json.loads(arguments)) == ("", {})
    assert name in {tool["name"] for tool in tools}
    compile(value, make_vocabulary()).matcher(max_tokens=len(text.encode()) + 1)
