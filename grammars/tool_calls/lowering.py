"""A `ToolCalls` value as grammars of other kinds, whose masks are there already."""

from __future__ import annotations

import re
from collections.abc import Collection

from grammars.errors import UnsupportedFeature
from grammars.tool_calls.formats import CALL_ID, FORMATS, HARMONY_MARKS, Layout, layout_of
from grammars.tool_calls.pythonic import keyword_arguments
from grammars.tool_calls.tagged import tagged
from grammars.values import (
    AnyText,
    Grammar,
    OneOf,
    Part,
    Regex,
    Repeat,
    Sequence,
    SpecialToken,
    ToolCalls,
    ToolFormat,
    ToolSignature,
)


def lowered(value: ToolCalls) -> Grammar:
    """The same texts, without a `ToolCalls` in it.

    Raises:
        UnsupportedFeature: a content or an argument that the format cannot tell apart, or cannot write.
    """
    if value.format == "harmony":
        return _harmony(value)
    layout = layout_of(value)
    text = _free_text(value, layout)
    if value.tool_choice == "none":
        return text if value.content is None else Sequence(value.content)
    calls = _calls(value, layout)
    if value.tool_choice == "required":
        return calls
    if value.content is not None:
        if not layout.trigger:
            raise UnsupportedFeature(
                f"a grammar of the content beside calls in the format {value.format!r}: both begin alike; take a format "
                "with marks (hermes, mistral, deepseek, harmony), or tool_choice 'none' or 'required'"
            )
        return OneOf(value.content, calls)
    return Sequence(text, OneOf("", calls)) if layout.trigger else OneOf(text, calls)


def marked(text: str, marks: Collection[str], special: Collection[str]) -> Grammar:
    """The text, in which those marks that are tokens of their own are that token."""
    tokens = [mark for mark in marks if mark in special]
    if not tokens:
        return Sequence(text)
    pieces = re.split("(" + "|".join(map(re.escape, tokens)) + ")", text)
    return Sequence(*[SpecialToken(piece) if piece in tokens else piece for piece in pieces if piece])


def _free_text(value: ToolCalls, layout: Layout) -> Grammar:
    if not layout.trigger:
        return Regex(rf"([^{re.escape(layout.leading)}][\s\S]*)?")
    return AnyText() if layout.trigger in value.special else AnyText(stop=layout.trigger)


def _calls(value: ToolCalls, layout: Layout) -> Grammar:
    calls: list[Part] = []
    for tool in value.tools:
        calls.append(
            Sequence(
                tool.name,
                _number(layout.name_id, "", value),
                marked(layout.before_arguments, layout.marks, value.special),
                _arguments(value.format, tool),
                _number(*layout.arguments_id, value),
                marked(layout.after, layout.marks, value.special),
            )
        )
    call = Sequence(marked(layout.before_name, layout.marks, value.special), OneOf(*calls))
    all_calls: Part = call
    if value.parallel:
        all_calls = Repeat(call, 1, None, marked(layout.between, layout.marks, value.special))
    begin: list[Part] = [OneOf("", SpecialToken(layout.lead))] if layout.lead in value.special else []
    begin += [marked(layout.begin, layout.marks, value.special)]
    if layout.gap:
        begin += [Regex(" ?"), "["]
    return Sequence(*begin, all_calls, marked(layout.end, layout.marks, value.special))


def _number(before: str, after: str, value: ToolCalls) -> Part:
    """A number of the call, which may be left out, where the format has one."""
    if not before:
        return ""
    return OneOf("", Sequence(marked(before, FORMATS[value.format].marks, value.special), Regex(CALL_ID), after))


def _arguments(format: ToolFormat, tool: ToolSignature) -> Part:
    if format == "pythonic":
        return keyword_arguments(tool)
    return tagged(tool) if format == "qwen3_coder" else tool.arguments


def _harmony(value: ToolCalls) -> Grammar:
    """Channels: thoughts in `analysis` and words to the user in `commentary`, as many messages as come, then the answer in
    `final` or one call in `commentary`, which ends the turn."""

    def text(written: str) -> Grammar:
        return marked(written, HARMONY_MARKS, value.special)

    layout = layout_of(value)
    ends = tuple(mark for mark in ("<|end|>",) if mark not in value.special)
    channel = OneOf("analysis", "commentary") if value.thoughts else "commentary"
    spoken = AnyText(stop=ends)
    before = Sequence(text("<|channel|>"), channel, text("<|message|>"), spoken, text("<|end|><|start|>assistant"))
    answer = Sequence(
        text("<|channel|>final<|message|>"), AnyText(stop=ends) if value.content is None else value.content
    )
    calls = [
        Sequence(
            OneOf(  # whom it is for may stand before the channel, as templates have it, or behind, as models have it
                text(f"{layout.before_name}{tool.name}{layout.before_arguments}"),
                text(f" to=functions.{tool.name}<|channel|>commentary json<|message|>"),
                text(f" to=functions.{tool.name}<|channel|>commentary <|constrain|>json<|message|>"),
            ),
            tool.arguments,
        )
        for tool in value.tools
    ]
    last = {"auto": (answer, *calls), "required": tuple(calls), "none": (answer,)}[value.tool_choice]
    return Sequence(Repeat(before), OneOf(*last))
