"""Streams of answers, drawn at random from the masks of every format: what was told is always the beginning of the whole."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, get_args

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained import Constraint, JsonSchema, Matcher, Vocabulary, compile
from constrained.replies import AnswerReader
from constrained.results import StreamEvent
from constrained.streaming import BytesDecoding
from grammars import Reasoning, SpecialToken, ToolCalls
from grammars.tool_calls import FORMATS, ArgumentsDelta, CallBegin, CallEnd, ContentDelta, ReasoningDelta
from grammars.values import ToolFormat

SCHEMAS: dict[str, dict[str, Any]] = {
    "note": {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "short": {"type": "string", "minLength": 1, "maxLength": 3},
            "who": {"anyOf": [{"type": "string", "maxLength": 5}, {"type": "null"}]},
            "kind": {"enum": ["a\nb", "null", '"'], "type": "string"},
            "code": {"type": "string", "pattern": "^[a-zäß€😀]{2}$"},
            "done": {"type": "boolean"},
            "many": {"type": "array", "items": {"type": "number"}, "maxItems": 2},
        },
        "required": ["text", "who", "done"],
        "additionalProperties": False,
    },
    "now": {"type": "object", "properties": {}, "additionalProperties": False},
}
TOOLS = [{"name": name, "parameters": schema} for name, schema in SCHEMAS.items()]
MARKS = list(dict.fromkeys(["<think>", "</think>", *(mark for one in FORMATS.values() for mark in one.marks)]))
WORDS = [
    b"\xf0\x9f", b"\x98\x80", b"\x80", "ä".encode(), "€<".encode(), b"<tool", b"_call>", b"\n</par", b"ameter>\n", b'"}}', b'": ',
    b"[TOOL", b"_CALLS]", b'{"name', b"</thi", b"<|chan", b"null", b"\n<", b"True", b'\\"', b"\\u00", b"```",
    "<｜tool".encode()[:3],
]  # fmt: skip
END = 256 + len(WORDS)


@cache
def vocabulary() -> Vocabulary:
    """Bytes, pieces of marks and of characters, an end token, and each mark once more as a token of its own."""
    tokens: list[bytes | None] = [*(bytes((byte,)) for byte in range(256)), *WORDS]
    special = {"<end>": END, **{name: END + 1 + at for at, name in enumerate(MARKS)}}
    return Vocabulary.from_token_bytes([*tokens, *[None] * len(special)], eos_token_ids=[END], special_tokens=special)


@cache
def constraint_of(grammar: Any) -> Constraint:
    return compile(grammar, vocabulary())


@cache
def schema_matcher(name: str) -> Matcher:
    return compile(JsonSchema(SCHEMAS[name], whitespace="any"), vocabulary()).matcher()


@dataclass
class Told:
    content: str = ""
    reasoning: str = ""
    calls: list[list[str]] = field(default_factory=list)
    ended: int = 0


def drawn(grammar: Any, seed: int, most: int) -> list[int]:
    """A sentence in tokens, drawn from the masks: now and then one of the tokens that begin or end something."""
    rng = random.Random(seed)
    matcher = constraint_of(grammar).matcher(max_tokens=most)
    row = np.zeros(vocabulary().row_words, np.uint32)
    tokens: list[int] = []
    while True:
        matcher.fill_mask(row)
        allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
        notable = [token for token in allowed if token >= 256]
        token = int(rng.choice(notable if notable and rng.random() < 0.5 else list(allowed)))
        matcher.accept(token)
        if token == END:
            return tokens
        tokens.append(token)


def streamed(grammar: Any, tokens: list[int]) -> Told:
    """Reads token by token, and looks at everything that is told on the way."""
    told, decoding, reader = Told(), BytesDecoding(vocabulary().token_bytes), AnswerReader(grammar, vocabulary())
    events = []
    for token in tokens:
        events += reader.push(StreamEvent(decoding.push(token), token))
    for event in events + reader.close(decoding.flush()):
        text = getattr(event, "text", "")
        assert "\ufffd" not in text
        text.encode()  # no half of a character, and no mark that is a token
        if isinstance(event, ContentDelta):
            told.content += text
        elif isinstance(event, ReasoningDelta):
            told.reasoning += text
        elif isinstance(event, CallBegin):
            assert event.index == len(told.calls) == told.ended
            told.calls.append([event.name, ""])
            schema_matcher(event.name).reset()
        elif isinstance(event, ArgumentsDelta):
            assert event.index == len(told.calls) - 1
            name, so_far = told.calls[-1]
            told.calls[-1][1] = so_far + text
            # What came so far is the beginning of arguments that fit, written in any way that JSON has.
            assert fits(name, text)
        elif isinstance(event, CallEnd):
            assert event.index == told.ended
            told.ended += 1
    return told


def fits(name: str, text: str) -> bool:
    data = list(text.encode())
    return schema_matcher(name).accept_many(data) == len(data)


@pytest.mark.parametrize("special", [False, True], ids=["spelled", "tokens"])
@pytest.mark.parametrize("format", get_args(ToolFormat))
def test_whatever_is_drawn_is_told_in_beginnings_of_what_fits(format: ToolFormat, special: bool) -> None:
    marks = FORMATS[format].marks if special else ()
    values = [ToolCalls(TOOLS, format, choice, special=marks) for choice in ("auto", "required")]

    @settings(max_examples=5)
    @given(st.integers(0, 2**32))
    def check(seed: int) -> None:
        for value in values:
            told = streamed(value, drawn(value, seed, 150))
            assert told.ended == len(told.calls)
            for name, arguments in told.calls:
                jsonschema.validate(json.loads(arguments), SCHEMAS[name])
            # A format whose trigger is a token may speak of it; one that spells it may not.
            trigger = FORMATS[format].trigger
            assert not trigger or special or trigger not in told.content
            assert told.calls or value.tool_choice == "auto"

    check()


@pytest.mark.parametrize("special", [False, True], ids=["spelled", "tokens"])
def test_thoughts_words_and_calls_never_mix(special: bool) -> None:
    calls = ToolCalls(TOOLS, "hermes", special=FORMATS["hermes"].marks if special else ())
    start, end = (SpecialToken("<think>"), SpecialToken("</think>")) if special else ("<think>", "</think>")
    values = [
        Reasoning(calls, start, end), Reasoning(calls, "", end), Reasoning(calls, start, end, optional=True),
    ]  # fmt: skip

    @settings(max_examples=5)
    @given(st.integers(0, 2**32))
    def check(seed: int) -> None:
        for value in values:
            told = streamed(value, drawn(value, seed, 150))
            for name, arguments in told.calls:
                jsonschema.validate(json.loads(arguments), SCHEMAS[name])
            if not special:
                assert "</think>" not in told.reasoning
                assert "<tool_call>" not in told.content

    check()


def test_a_text_that_is_drawn_reads_alike_however_it_is_cut(make_vocabulary: Callable[..., Vocabulary]) -> None:
    value = ToolCalls(TOOLS, "qwen3_coder", "required")
    for seed in range(10):
        tokens = drawn(value, seed, 160)
        text = b"".join(vocabulary().token_bytes(token) or b"" for token in tokens).decode()
        whole = streamed(value, tokens)
        by_bytes = streamed(value, list(text.encode()))
        assert by_bytes == whole
        assert len(re.findall("<function=", text)) >= len(whole.calls)
