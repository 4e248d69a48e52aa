"""Calls are read back exactly, wherever the text is cut and whether marks are text or tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from grammars import Choice, Reasoning, SpecialToken, ToolCalls
from grammars.tool_calls import (
    FORMATS,
    ArgumentsDelta,
    CallBegin,
    ContentDelta,
    Event,
    ReasoningDelta,
    ToolTextError,
    format_of_template,
    read_calls,
    reader_of,
)
from grammars.values import ToolFormat

TOOLS: list[dict[str, Any]] = [
    {
        "name": "weather",
        "parameters": {"properties": {"city": {"type": "string"}, "now": {"type": "boolean"}, "n": {}}},
    },
    {"name": "a.b", "parameters": {"properties": {}}},
]
ODD = '}</tool_call>[TOOL_CALLS]<|end|>```<｜tool▁call▁end｜>") \\" {['
ARGUMENTS = {"city": ODD, "now": True, "n": [1.5, None, {"x": False}]}
AS_JSON = json.dumps(ARGUMENTS, ensure_ascii=False)
AS_PYTHON = f'city={json.dumps(ODD, ensure_ascii=False)}, now=True, n=[1.5, None, {{"x": False}}]'

_LAYOUTS: dict[ToolFormat, str] = {
    "json": '[{"name": "weather", "arguments": $}, {"name": "a.b", "arguments": {}}]',
    "hermes": '<tool_call>\n{"name": "weather", "arguments": $}\n</tool_call>\n'
    '<tool_call>\n{"name": "a.b", "arguments": {}}\n</tool_call>',
    "qwen3_coder": "<tool_call>\n<function=weather>\n%</function>\n</tool_call>\n"
    "<tool_call>\n<function=a.b>\n</function>\n</tool_call>",
    "llama3_json": '{"name": "weather", "parameters": $}; {"name": "a.b", "parameters": {}}',
    "pythonic": "[weather(!), a.b()]",
    "mistral": '[TOOL_CALLS] [{"name": "weather", "arguments": $}, {"name": "a.b", "arguments": {}}]',
    "mistral_args": "[TOOL_CALLS]weather[ARGS]$[TOOL_CALLS]a.b[ARGS]{}",
    "deepseek": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n$\n```<｜tool▁call▁end｜>\n"
    "<｜tool▁call▁begin｜>function<｜tool▁sep｜>a.b\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "deepseek_v31": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>$<｜tool▁call▁end｜>"
    "<｜tool▁call▁begin｜>a.b<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "harmony": "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>$",
}  # fmt: skip
AS_TAGS = (
    f"<parameter=city>\n{ODD}\n</parameter>\n<parameter=now>\nTrue\n</parameter>\n"
    '<parameter=n>\n[1.5, null, {"x": false}]\n</parameter>\n'
)
WRITTEN = {
    name: text.replace("$", AS_JSON).replace("(!)", f"({AS_PYTHON})").replace("%", AS_TAGS)
    for name, text in _LAYOUTS.items()
}
MARKED = [name for name, layout in FORMATS.items() if layout.trigger]


def pieces(text: str, special: tuple[str, ...], size: int) -> Iterator[tuple[str, bool]]:
    """The text in pieces of `size` characters, and those marks that are tokens, wherever the format itself writes them."""
    parts = re.split("(" + "|".join(map(re.escape, special)) + ")", text) if special else [text]
    for part in parts:
        if part in special:
            yield part, True
        else:
            yield from ((part[at : at + size], False) for at in range(0, len(part), size))


def events_of(value: Any, text: str, size: int = 1, special: tuple[str, ...] = ()) -> list[Event]:
    reader = reader_of(value)
    events: list[Event] = []
    for piece, is_token in pieces(text, special, size):
        events += reader.feed_special(piece) if is_token else reader.feed(piece)
    return events + reader.close()


def told(events: list[Event], kind: type[ContentDelta] | type[ReasoningDelta]) -> str:
    return "".join(event.text for event in events if isinstance(event, kind))


def calls(events: list[Event]) -> list[tuple[str, str]]:
    made: list[tuple[str, str]] = []
    for event in events:
        if isinstance(event, CallBegin):
            assert event.index == len(made)
            made.append((event.name, ""))
        elif isinstance(event, ArgumentsDelta):
            assert event.index == len(made) - 1
            made[-1] = (made[-1][0], made[-1][1] + event.text)
    return made


def test_every_format_is_among_the_cases() -> None:
    assert set(WRITTEN) == set(get_args(ToolFormat)) == set(FORMATS)


@pytest.mark.parametrize("size", [1, 2, 7, 10_000])
@pytest.mark.parametrize("format", sorted(WRITTEN))
def test_calls_come_back_as_they_were_written(format: ToolFormat, size: int) -> None:
    value = ToolCalls(TOOLS, format=format)
    events = events_of(value, WRITTEN[format], size)
    assert told(events, ContentDelta) == ""
    expected = [("weather", ARGUMENTS), ("a.b", {})][: 1 if format == "harmony" else 2]
    assert [(name, json.loads(text)) for name, text in calls(events)] == expected


@pytest.mark.parametrize("format", MARKED)
def test_marks_may_be_tokens_of_their_own_and_their_texts_are_then_text(format: ToolFormat) -> None:
    marks = FORMATS[format].marks
    value = ToolCalls(TOOLS, format=format, special=marks)
    plain = WRITTEN[format].replace(AS_JSON, "{}").replace(AS_TAGS, "")
    said = f"I say {FORMATS[format].trigger}, as a word"
    reader = reader_of(value)
    events = reader.feed(said)
    for piece, is_token in pieces(plain, marks, 3):
        events += reader.feed_special(piece) if is_token else reader.feed(piece)
    events += reader.close()
    assert told(events, ContentDelta) == said
    assert calls(events) == [("weather", "{}"), ("a.b", "{}")]


@pytest.mark.parametrize("format", MARKED)
def test_text_before_a_call_is_content_and_no_part_of_a_mark_leaks_into_it(format: ToolFormat) -> None:
    said = "Let me see < [T <tool <｜tool ü\n"
    events = events_of(ToolCalls(TOOLS, format=format), said + WRITTEN[format])
    assert told(events, ContentDelta) == said
    assert len(calls(events)) == 2


@pytest.mark.parametrize("format", MARKED)
def test_the_beginning_of_a_mark_at_the_end_of_a_text_is_content(format: ToolFormat) -> None:
    said = "so " + FORMATS[format].trigger[:-1]
    assert told(events_of(ToolCalls(TOOLS, format=format), said), ContentDelta) == said


@pytest.mark.parametrize("format", ["json", "llama3_json", "pythonic"])
def test_formats_without_marks_tell_calls_from_text_by_the_first_character(format: ToolFormat) -> None:
    text = 'no call: {"name": "weather", [weather()]'
    events = events_of(ToolCalls(TOOLS, format=format), text)
    assert told(events, ContentDelta) == text
    assert calls(events) == []


def test_content_of_a_grammar_is_content_to_its_end() -> None:
    value = ToolCalls(TOOLS, format="hermes", content=Choice(['"<tool_call>"']))
    assert told(events_of(value, '"<tool_call>"'), ContentDelta) == '"<tool_call>"'
    assert len(calls(events_of(value, WRITTEN["hermes"]))) == 2


def test_harmony_tells_thoughts_words_and_calls_apart() -> None:
    text = (
        "<|channel|>analysis<|message|>hm < <|e<|end|><|start|>assistant<|channel|>commentary<|message|>I look.<|end|>"
        '<|start|>assistant<|channel|>commentary to=functions.a.b <|constrain|>json<|message|>{"x": 1}'
    )
    events = events_of(ToolCalls(TOOLS, format="harmony"), text)
    assert told(events, ReasoningDelta) == "hm < <|e"
    assert told(events, ContentDelta) == "I look."
    assert calls(events) == [("a.b", '{"x": 1}')]
    final = "<|channel|>final<|message|>It is <|end|> not over"
    assert told(events_of(ToolCalls(TOOLS, format="harmony"), final), ContentDelta) == "It is <|end|> not over"


@pytest.mark.parametrize("size", [1, 5, 100])
@pytest.mark.parametrize(
    ("value", "text", "thought", "content"),
    [
        (Reasoning(then=Choice(["x"])), "<think>a</thin</think>\n\nx", "a</thin", "x"),
        (Reasoning(then=Choice(["x"]), start=""), "a</think>x", "a", "x"),
        (Reasoning(then=Choice(["<thx"]), optional=True), "<thx", "", "<thx"),
        (Reasoning(then=Choice(["\n"]), gap=1), "<think></think>\n\n", "", "\n"),
    ],
)
def test_thoughts_are_no_content(value: Reasoning, text: str, thought: str, content: str, size: int) -> None:
    events = events_of(value, text, size)
    assert (told(events, ReasoningDelta), told(events, ContentDelta)) == (thought, content)


def test_thoughts_end_at_a_token_and_calls_follow() -> None:
    marks = ("<t>", "</t>")
    then = ToolCalls(TOOLS, format="mistral_args", special=FORMATS["mistral_args"].marks)
    value = Reasoning(then=then, start=SpecialToken("<t>"), end=SpecialToken("</t>"))
    special = (*marks, *FORMATS["mistral_args"].marks)
    reader = reader_of(value)
    events = reader.feed_special("<t>") + reader.feed("a </t> b")
    for piece, is_token in pieces("</t>[TOOL_CALLS]a.b[ARGS]{}", special, 2):
        events += reader.feed_special(piece) if is_token else reader.feed(piece)
    assert told(events, ReasoningDelta) == "a </t> b"
    assert calls(events + reader.close()) == [("a.b", "{}")]


@pytest.mark.parametrize("format", sorted(set(WRITTEN) - {"harmony"}))
def test_what_is_so_far_read_of_the_arguments_is_the_beginning_of_the_whole(format: ToolFormat) -> None:
    whole = calls(events_of(ToolCalls(TOOLS, format=format), WRITTEN[format]))[0][1]
    so_far = ""
    for event in events_of(ToolCalls(TOOLS, format=format), WRITTEN[format]):
        if isinstance(event, ArgumentsDelta) and event.index == 0:
            so_far += event.text
            assert whole.startswith(so_far)
    assert so_far == whole


@pytest.mark.parametrize(
    ("format", "text", "message"),
    [
        ("hermes", '<tool_call>\n{"name": "other", "arguments": {}}', "'other' is called; the tools are"),
        ("hermes", "<tool_call>{}", "was to come"),
        ("json", '[{"name": "a.b", "arguments": {}}!', "found behind a call"),
        ("json", '[{"name": "a.b", "arguments": {}}]!', "behind the last call"),
        ("harmony", "<|channel|>secret<|message|>", "is no channel"),
    ],
)
def test_a_text_that_is_not_of_the_format_is_named(format: ToolFormat, text: str, message: str) -> None:
    with pytest.raises(ToolTextError, match=message):
        read_calls(ToolCalls(TOOLS, format=format, tool_choice="required" if format == "json" else "auto"), [text])


def test_a_special_token_that_the_format_lacks_is_refused() -> None:
    with pytest.raises(ToolTextError, match="im_start"):
        reader_of(ToolCalls(TOOLS, format="hermes")).feed_special("<|im_start|>")


@pytest.mark.parametrize(
    ("source", "format"),
    [
        ("{{ '<tool_call>\\n' }}{{- '{\"name\": \"' }}", "hermes"),
        ("[TOOL_CALLS] x", "mistral"), ("[TOOL_CALLS]a[ARGS]", "mistral_args"),
        ("<｜tool▁calls▁begin｜> ```json", "deepseek"), ("<｜tool▁calls▁begin｜>", "deepseek_v31"),
        ("<|start|><|channel|>analysis<|message|>", "harmony"), ('{"name": "x", "parameters": {}} tools', "llama3_json"),
        ("[func_name1(params_name1=params_value1)]", "pythonic"), ("{{ messages }}", None),
        ("'<tool_call>\\n<function=' + f + '>\\n' }}{{ '<parameter='", "qwen3_coder"), ("<tool_call>f<arg_key>k</arg_key>", None),
        ("<tool_calls>[{}]</tool_calls>, not <tool_call>", None), ('[{"tool_name": "x", "parameters": {}}] tools', None),
        ("[func_name1(param1=value1)]", "pythonic"),
    ],
)  # fmt: skip
def test_a_template_tells_its_format_by_its_marks(source: str, format: ToolFormat | None) -> None:
    assert format_of_template(source) == format
