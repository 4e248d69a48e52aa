"""Thoughts, words and calls with marks that are tokens of the vocabulary itself: masks, budgets, and real vocabularies."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import numpy as np
import pytest

from constrained import BudgetError, Constraint, Matcher, TokenRejected, Vocabulary, compile
from constrained.replies import AnswerReader
from constrained.results import StreamEvent
from constrained.streaming import BytesDecoding
from engine.constraint import SpeculativeConstraint
from grammars import Choice, JsonSchema, OneOf, Reasoning, Repeat, Sequence, SpecialToken, ToolCalls
from grammars.tool_calls import FORMATS, CallBegin, ContentDelta, ReasoningDelta
from grammars.values import ToolFormat

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 4}, "days": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS = [{"name": "weather", "parameters": SCHEMA}, {"name": "now"}]
NAMES = ["<a>", "<b>", "<c>", *dict.fromkeys(mark for layout in FORMATS.values() for mark in layout.marks)]
END = 256


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    """The bytes, an end token, and marks that no text spells."""
    special = {"<end>": END, **{name: END + 1 + at for at, name in enumerate(NAMES)}}
    tokens: list[bytes | None] = [bytes((byte,)) for byte in range(256)]
    return Vocabulary.from_token_bytes([*tokens, *[None] * len(special)], eos_token_ids=[END], special_tokens=special)


def mark(name: str) -> int:
    return END + 1 + NAMES.index(name)


def allowed(matcher: Matcher) -> set[int]:
    row = np.zeros(matcher.constraint.vocabulary.row_words, np.uint32)
    matcher.fill_mask(row)
    return set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist())


def follow(matcher: Matcher, *pieces: str | int) -> Matcher:
    for piece in pieces:
        for token in [piece] if isinstance(piece, int) else piece.encode():
            assert token in allowed(matcher)
            matcher.accept(token)
    return matcher


def test_texts_and_tokens_follow_one_another(vocabulary: Vocabulary) -> None:
    grammar = Sequence("x", SpecialToken("<a>"), OneOf("", Sequence(SpecialToken("<b>"), "y")))
    constraint = compile(grammar, vocabulary)
    matcher = constraint.matcher()
    assert isinstance(matcher, SpeculativeConstraint)
    assert allowed(matcher) == {ord("x")}
    assert allowed(follow(matcher, "x")) == {mark("<a>")}
    assert not matcher.is_accepting()
    assert allowed(follow(matcher, mark("<a>"))) == {END, mark("<b>")}
    assert matcher.is_accepting()
    assert allowed(follow(matcher, mark("<b>"))) == {ord("y")}
    assert allowed(follow(matcher, "y")) == {END}
    matcher.accept(END)
    assert matcher.is_finished()
    assert allowed(matcher) == set()


def test_a_token_that_is_not_allowed_raises_and_changes_nothing(vocabulary: Vocabulary) -> None:
    matcher = compile(Sequence("x", SpecialToken("<a>")), vocabulary).matcher()
    for token in (ord("y"), mark("<a>"), END):
        with pytest.raises(TokenRejected):
            matcher.accept(token)
    assert allowed(matcher) == {ord("x")}


def test_repetitions_have_their_bounds(vocabulary: Vocabulary) -> None:
    grammar = Repeat(Sequence(SpecialToken("<a>"), Choice(["x", "xy"])), 1, 2, SpecialToken("<b>"))
    matcher = compile(grammar, vocabulary).matcher()
    assert allowed(matcher) == {mark("<a>")}
    assert allowed(follow(matcher, mark("<a>"), "x")) == {ord("y"), mark("<b>"), END}
    assert allowed(follow(matcher, mark("<b>"), mark("<a>"), "xy")) == {END}


def test_a_repetition_of_what_may_be_empty_ends(vocabulary: Vocabulary) -> None:
    grammar = Repeat(OneOf("", SpecialToken("<a>")))
    assert allowed(compile(grammar, vocabulary).matcher()) == {mark("<a>"), END}


@pytest.mark.parametrize("most", range(4, 9))
def test_what_is_begun_can_be_finished_within_the_budget(vocabulary: Vocabulary, most: int) -> None:
    grammar = Sequence(Repeat(Sequence(SpecialToken("<a>"), JsonSchema({"type": "integer"})), 1), SpecialToken("<b>"))
    constraint = compile(grammar, vocabulary)
    rng = random.Random(most)
    for _ in range(20):
        matcher = constraint.matcher(max_tokens=most)
        count = 0
        while not matcher.is_finished():
            matcher.accept(rng.choice(sorted(allowed(matcher))))
            count += 1
        assert count <= most
    for less in (1, 2, 3):
        with pytest.raises(BudgetError, match="at least 4"):
            constraint.matcher(max_tokens=less)


def sentence(constraint: Constraint, rng: random.Random, most: int) -> list[int]:
    matcher = constraint.matcher(max_tokens=most)
    taken: list[int] = []
    while True:
        tokens = sorted(allowed(matcher))
        token = rng.choice([one for one in tokens if 32 <= one < 127 or one >= END] or tokens)
        matcher.accept(token)
        if matcher.is_finished():
            return taken
        taken.append(token)


def read(grammar: Any, vocabulary: Vocabulary, tokens: list[int]) -> tuple[str, str, list[str], list[str]]:
    reader, decoding = AnswerReader(grammar, vocabulary), BytesDecoding(vocabulary.token_bytes)
    events = [
        part for token in tokens for part in reader.push(StreamEvent(decoding.push(token), token))
    ] + reader.close()
    texts = {kind: "".join(e.text for e in events if isinstance(e, kind)) for kind in (ContentDelta, ReasoningDelta)}
    names = [event.name for event in events if isinstance(event, CallBegin)]
    arguments = [
        "".join(getattr(e, "text", "") for e in events if getattr(e, "index", -1) == at) for at in range(len(names))
    ]
    return texts[ContentDelta], texts[ReasoningDelta], names, arguments


@pytest.mark.parametrize(
    "format",
    ["hermes", "qwen3_coder", "llama3_json", "mistral", "mistral_args", "deepseek", "deepseek_v31", "harmony"],
)
def test_calls_with_marks_that_are_tokens_come_back_and_fit(vocabulary: Vocabulary, format: ToolFormat) -> None:
    grammar = ToolCalls(TOOLS, format, "required", special=FORMATS[format].marks)
    constraint = compile(grammar, vocabulary)
    rng = random.Random(format)
    for _ in range(4):
        _, _, names, arguments = read(grammar, vocabulary, sentence(constraint, rng, 120))
        assert names
        for name, text in zip(names, arguments, strict=True):
            jsonschema.validate(json.loads(text), SCHEMA if name == "weather" else {"maxProperties": 0})


def test_thoughts_words_and_calls_with_marks_that_are_tokens(vocabulary: Vocabulary) -> None:
    calls = ToolCalls(TOOLS, "mistral_args", special=FORMATS["mistral_args"].marks)
    grammar = Reasoning(then=calls, start=SpecialToken("<a>"), end=SpecialToken("<b>"))
    matcher = compile(grammar, vocabulary).matcher()
    pieces = [mark("<a>"), "[ARGS]?", mark("<b>"), "\nso ", mark("[TOOL_CALLS]"), "now", mark("[ARGS]"), "{}"]
    follow(matcher, *pieces)
    assert allowed(matcher) == {mark("[TOOL_CALLS]"), END}
    tokens = [token for piece in pieces for token in ([piece] if isinstance(piece, int) else piece.encode())]
    assert read(grammar, vocabulary, tokens) == ("so ", "[ARGS]?", ["now"], ["{}"])


def test_gpt_oss_calls_through_its_own_channels(gptoss_vocabulary: Vocabulary) -> None:
    marks = FORMATS["harmony"].marks
    grammar = ToolCalls(TOOLS, "harmony", "required", special=marks)
    matcher = compile(grammar, gptoss_vocabulary).matcher(max_tokens=60)
    number = gptoss_vocabulary.special_tokens
    assert allowed(matcher) == {number["<|channel|>"], *(
        token for token in allowed(matcher) if b" to=functions.".startswith(gptoss_vocabulary.token_bytes(token) or b"!")
    )}  # fmt: skip
    header = gptoss_vocabulary.canonical("commentary to=functions.now ")
    json_name, arguments = gptoss_vocabulary.canonical("json"), gptoss_vocabulary.canonical("{}")
    tokens = [number["<|channel|>"], *header, number["<|constrain|>"], *json_name, number["<|message|>"], *arguments]
    for token in tokens:
        assert token in allowed(matcher)
        matcher.accept(token)
    assert matcher.is_accepting()
    rows = np.zeros((len(tokens) + 1, gptoss_vocabulary.row_words), np.uint32)
    matcher.rollback(len(tokens))
    matcher.masks_ahead(tokens, rows)
    assert all(row[token // 32] >> (token % 32) & 1 for row, token in zip(rows, tokens, strict=False))
    assert matcher.accept_many(tokens[:-1]) == len(tokens) - 1
    assert allowed(matcher) >= {tokens[-1]}
    assert read(grammar, gptoss_vocabulary, tokens)[2:] == (["now"], ["{}"])


def test_qwen_writes_its_marks_as_the_tokens_that_it_has(qwen3_vocabulary: Vocabulary) -> None:
    matcher = compile(ToolCalls(TOOLS, "hermes", "required"), qwen3_vocabulary).matcher()
    [number] = [token for token, text in enumerate(qwen3_vocabulary.tokens) if text == b"<tool_call>"]
    row = np.zeros(qwen3_vocabulary.row_words, np.uint32)
    matcher.fill_mask(row)
    assert row[number // 32] >> (number % 32) & 1


def test_marks_and_names_are_forced(vocabulary: Vocabulary) -> None:
    grammar = ToolCalls(TOOLS[1:], "mistral_args", "required", special=FORMATS["mistral_args"].marks)
    matcher = compile(grammar, vocabulary).matcher()
    assert matcher.forced_tokens() == [mark("[TOOL_CALLS]"), *b"now"]
    assert allowed(follow(matcher, mark("[TOOL_CALLS]"), "now")) == {mark("[ARGS]"), mark("[CALL_ID]")}
    assert matcher.forced_tokens() == []
    assert follow(matcher, mark("[ARGS]")).forced_tokens() == [*b"{"]


def test_llama_may_say_beforehand_that_a_call_comes(vocabulary: Vocabulary) -> None:
    grammar = ToolCalls(TOOLS, "llama3_json", special=FORMATS["llama3_json"].marks)
    tag, call = mark("<|python_tag|>"), '{"name": "now", "parameters": {}}'
    for pieces in ([tag, call], [call]):
        matcher = follow(compile(grammar, vocabulary).matcher(), *pieces)
        assert matcher.is_accepting()
        tokens = [token for piece in pieces for token in ([piece] if isinstance(piece, int) else piece.encode())]
        assert read(grammar, vocabulary, tokens) == ("", "", ["now"], ["{}"])
    assert allowed(follow(compile(grammar, vocabulary).matcher(), tag)) == {ord("{")}
    assert tag not in allowed(follow(compile(grammar, vocabulary).matcher(), "Well, "))


def test_mistral_may_number_its_calls(vocabulary: Vocabulary) -> None:
    for format, pieces in (
        ("mistral_args", [mark("[TOOL_CALLS]"), "now", mark("[CALL_ID]"), "a1B2c3D4e", mark("[ARGS]"), "{}"]),
        ("mistral", [mark("[TOOL_CALLS]"), '[{"name": "now", "arguments": {}, "id": "a1B2c3D4e"}]']),
    ):
        grammar = ToolCalls(TOOLS, format, "required", special=FORMATS[format].marks)
        assert follow(compile(grammar, vocabulary).matcher(), *pieces).is_accepting()
        tokens = [token for piece in pieces for token in ([piece] if isinstance(piece, int) else piece.encode())]
        assert read(grammar, vocabulary, tokens)[2:] == (["now"], ["{}"])


@pytest.mark.parametrize("format", ["mistral_args", "deepseek_v31", "harmony"])
def test_masks_ahead_are_those_of_the_steps(vocabulary: Vocabulary, format: ToolFormat) -> None:
    grammar = ToolCalls(TOOLS, format, "required", special=FORMATS[format].marks)
    constraint = compile(grammar, vocabulary)
    tokens = sentence(constraint, random.Random(format), 60)
    rows = np.zeros((len(tokens) + 1, vocabulary.row_words), np.uint32)
    ahead, one_by_one = constraint.matcher(max_tokens=60), constraint.matcher(max_tokens=60)
    ahead.masks_ahead(tokens, rows)
    assert ahead.tokens == ()
    row = np.zeros(vocabulary.row_words, np.uint32)
    for token, found in zip([*tokens, END], rows, strict=True):
        one_by_one.fill_mask(row)
        assert (found == row).all()
        one_by_one.accept(token)
