"""Answers that think, speak and call: planned for a model, read back exactly."""

from __future__ import annotations

import json
from copy import copy
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field
from tokenizers import AddedToken, Tokenizer

from constrained import LLM, Choice, EmptyLanguage, JsonSchema, Sampling, SchemaError, UnsupportedFeature, compile
from constrained.reasoning import ReasoningOptions, marks_of, read_reasoning
from constrained.results import StreamEvent
from engine.text import Text
from grammars import Reasoning
from grammars.tool_calls import FORMATS, ContentDelta, ReasoningDelta

HOT = Sampling(temperature=1.2, seed=3)


def weather(city: Literal["Oslo", "Bern"], days: int = 1) -> str:
    """Tells the weather."""
    return f"{days} dry days in {city}"


class Verdict(BaseModel):
    ok: bool
    why: str = Field(max_length=4)


def with_template(llm: LLM, source: str) -> LLM:
    """The same model under another chat template."""
    model = copy(llm.model)
    given = llm.text
    model.text = Text(given.tokenizer, given.eos_token_ids, {"default": source}, given.special_tokens)
    return LLM(model)


HERMES = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% if m.tool_calls %}{{ m.tool_calls }}{% endif %}{% endfor %}"
    '{{ tools }}<tool_call>{"name": <bot>'
)


@pytest.mark.parametrize("format", ["json", "hermes", "llama3_json", "pythonic", "mistral", "mistral_args"])
def test_required_calls_come_back_checked_in_every_format(random_llm: LLM, format: str) -> None:
    reply = random_llm.reply(
        "go", tools=[weather], tool_choice="required", tool_format=format, max_tokens=120, sampling=HOT
    )
    assert reply.content == ""
    assert reply.calls
    for call in reply.calls:
        assert call.name == "weather"
        assert call.run().endswith(call.arguments["city"])
    assert reply.generation.finish_reason in ("stop", "length")


def test_words_are_content_and_calls_end_them(random_llm: LLM) -> None:
    sampling = Sampling(temperature=1.0, seed=2, logit_bias={ord("<"): -50.0})
    reply = random_llm.reply("go", tools=[weather], tool_format="hermes", max_tokens=20, sampling=sampling)
    assert (reply.content, reply.calls) == (reply.generation.text, [])


def test_without_tools_a_reply_is_text_or_what_the_schema_says(random_llm: LLM) -> None:
    assert random_llm.reply("go", max_tokens=5).content
    reply = random_llm.reply("go", constraint=Verdict, max_tokens=60, sampling=HOT)
    assert isinstance(reply.parsed, Verdict)
    assert json.loads(reply.content)["ok"] == reply.parsed.ok


def test_a_schema_of_the_content_is_instead_of_calls(random_llm: LLM) -> None:
    kinds = set()
    for seed in range(8):
        sampling = Sampling(temperature=1.0, seed=seed, logit_bias={ord("<"): 3.0, ord("{"): 3.0})
        reply = random_llm.reply("go", tools=[weather], constraint=Verdict, max_tokens=90, sampling=sampling)
        assert bool(reply.calls) != isinstance(reply.parsed, Verdict)
        kinds.add(bool(reply.calls))
    assert kinds == {True, False}


def test_the_template_says_how_calls_are_written_and_gets_the_tools(random_llm: LLM) -> None:
    llm = with_template(random_llm, HERMES)
    assert llm.planner.tool_format == "hermes"
    plan = llm.planner.plan("go", tools=[weather], tool_choice="required")
    assert plan.grammar.format == "hermes"
    assert "'name': 'weather'" in llm.text.decode(plan.ids)
    own = random_llm.planner.plan("go", tools=[weather])
    assert own.grammar.format == "json"
    shown = random_llm.text.decode(own.ids)
    assert '{"name": "weather", "arguments": {' in shown
    assert "Tells the weather." in shown


@pytest.mark.parametrize("format", sorted(FORMATS))
def test_a_prompt_shows_a_call_as_the_format_writes_it(random_llm: LLM, format: str) -> None:
    shown = random_llm.text.decode(random_llm.planner.plan("go", tools=[weather], tool_format=format).ids)
    layout = FORMATS[format]
    assert "Tells the weather." in shown
    assert format == "json" or f"{layout.before_name}NAME{layout.before_arguments}" in shown


def test_calls_and_results_of_the_conversation_are_spelled_out_where_the_template_knows_none(random_llm: LLM) -> None:
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "Rain"}, {"type": "text", "text": "?"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bern"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "1", "name": "weather", "content": "dry"},
    ]
    shown = random_llm.text.decode(random_llm.planner.plan(messages).ids)
    assert "Rain?" in shown
    assert '{"name": "weather", "arguments": {"city": "Bern"}}' in shown
    assert "Result of weather: dry" in shown
    rendered = with_template(random_llm, HERMES).planner.plan(messages, tools=[weather]).ids
    assert "{'city': 'Bern'}" in random_llm.text.decode(rendered)


def test_a_developer_is_the_system_where_the_template_knows_none(random_llm: LLM) -> None:
    messages = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "go"}]
    assert "<system>Be brief." in random_llm.text.decode(random_llm.planner.plan(messages).ids)
    llm = with_template(random_llm, "{% for m in messages %}<{{ m.role }}>{% endfor %}{# developer #}")
    assert "<developer>" in llm.text.decode(llm.planner.plan(messages).ids)


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {}}]},
            "'image_url'; this model reads text alone",
        ),
        ({"role": "assistant", "tool_calls": [{"id": "1"}]}, "needs a function with a name"),
        ({"role": "assistant", "tool_calls": [{"function": {"name": "a", "arguments": "{"}}]}, "'a' are not JSON"),
    ],
)
def test_messages_that_cannot_be_read_are_named(random_llm: LLM, message: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        random_llm.reply([message])


def test_thoughts_come_first_and_are_no_content(random_llm: LLM) -> None:
    reply = random_llm.reply("go", constraint=Verdict, reasoning=True, max_tokens=120, sampling=HOT)
    assert reply.generation.text.startswith(f"<think>{reply.reasoning}</think>")
    assert isinstance(reply.parsed, Verdict)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("most", [18, 40])
def test_thoughts_keep_to_a_limit_of_their_own(random_llm: LLM, seed: int, most: int) -> None:
    reply = random_llm.reply(
        "go",
        constraint=Verdict,
        reasoning=ReasoningOptions(max_tokens=most),
        max_tokens=120,
        sampling=Sampling(temperature=1.2, seed=seed),
    )
    assert isinstance(reply.parsed, Verdict)
    assert len(f"<think>{reply.reasoning}</think>".encode()) <= most
    assert reply.generation.text.endswith(reply.content)


def test_a_prompt_that_has_begun_to_think_is_gone_on_from(random_llm: LLM) -> None:
    llm = with_template(random_llm, "{% for m in messages %}{{ m.content }}{% endfor %}</think><think>\n")
    reply = llm.reply("go", constraint=Choice(["yes"]), reasoning=True, max_tokens=40, sampling=HOT)
    assert reply.generation.text.startswith(f"{reply.reasoning}</think>")
    assert reply.content == "yes"
    assert not reply.generation.text.startswith("<think>")


def test_thoughts_may_come_before_calls(random_llm: LLM) -> None:
    reply = random_llm.reply(
        "go",
        tools=[weather],
        tool_choice="required",
        tool_format="hermes",
        reasoning=True,
        max_tokens=150,
        sampling=HOT,
    )
    assert reply.calls
    assert reply.content == ""
    assert reply.generation.text.startswith("<think>")


THINKER = "{% for m in messages %}{{ m.content }}{% endfor %}{% if no %}<think></think>{% endif %}{# <think></think> #}"


def test_a_model_that_thinks_by_itself_may_and_its_thoughts_are_no_content(random_llm: LLM) -> None:
    planner = with_template(random_llm, THINKER).planner
    free = planner.plan("go")
    assert free.constraint is None
    events = free.reader().push(StreamEvent("<think>hm</think>\n\nyes", 0))
    assert events == [ReasoningDelta("hm"), ContentDelta("yes")]
    assert free.reader().push(StreamEvent("yes <think>", 0)) == [ContentDelta("yes <think>")]
    held = planner.plan("go", content=Verdict)
    assert isinstance(held.grammar, Reasoning)
    assert held.grammar.optional


def test_a_model_is_kept_from_thinking_where_it_is_told_so(random_llm: LLM) -> None:
    planner = with_template(random_llm, THINKER).planner
    assert isinstance(planner.plan("go", content=Verdict, reasoning=False).grammar, JsonSchema)
    assert isinstance(planner.plan("go", content=Verdict, chat_variables={"no": True}).grammar, JsonSchema)
    free = planner.plan("go", reasoning=False).constraint
    assert free is not None
    for text, taken in (("yes <think>", True), ("<think> no", False), ("\n<think>", False), ("<thin", True)):
        assert (free.matcher().accept_many(list(text.encode())) == len(text)) == taken
    assert planner.plan("go", reasoning=False, chat_variables={"no": True}).grammar is None
    assert random_llm.planner.plan("go", reasoning=False).grammar is None
    assert random_llm.planner.plan("go").grammar is None


# As DeepSeek-R1 opens them; as Qwen 3 leaves them open or ends them; as DeepSeek V3.1 chooses between the two.
OPENS = "{% for m in messages %}{{ m.content.split('</think>')[-1] }}{% endfor %}<bot>{{ '<think>\n' }}"
MAY = THINKER.replace("{% if no %}", "<bot>{% if enable_thinking is false %}")
CHOOSES = "{% for m in messages %}{{ m.content }}{% endfor %}<bot>{% if thinking %}<think>{% else %}</think>{% endif %}"


@pytest.mark.parametrize(
    ("template", "reasoning", "prompt", "thinks"),
    [
        (OPENS, None, "<bot><think>", True),
        (OPENS, True, "<bot><think>", True),
        (OPENS, False, "<bot><think>\n\n</think>", False),
        (MAY, True, "<bot>", True),
        (MAY, False, "<bot><think></think>", False),
        (CHOOSES, None, "<bot></think>", False),
        (CHOOSES, True, "<bot><think>", True),
        (CHOOSES, False, "<bot></think>", False),
    ],
)
def test_prompts_that_begin_or_end_thoughts_are_gone_on_from(
    random_llm: LLM, template: str, reasoning: bool | None, prompt: str, thinks: bool
) -> None:
    llm = with_template(random_llm, template)
    asked = llm.text.decode(llm.planner.plan("go", content=Verdict, reasoning=reasoning).ids)
    assert asked.rstrip().endswith(prompt)
    options: list[Any] = [reasoning, ReasoningOptions(max_tokens=25)] if thinks else [reasoning]
    for given in options:
        reply = llm.reply("go", constraint=Verdict, reasoning=given, max_tokens=120, sampling=HOT)
        assert isinstance(reply.parsed, Verdict)
        written = reply.generation.text
        assert ("</think>" in written) == thinks
        if thinks:
            begun = asked.rstrip().endswith("<think>")
            assert written.startswith(("" if begun else "<think>") + reply.reasoning + "</think>")
            if isinstance(given, ReasoningOptions):
                assert len(written.partition("</think>")[0]) + len("</think>") <= 25
        else:
            assert reply.reasoning == ""


def test_harmony_does_not_think_where_it_is_told_so(random_llm: LLM) -> None:
    llm = with_template(random_llm, "{% for m in messages %}{{ m.content }}{% endfor %}{# <|channel|>analysis #}")
    for reasoning, thinks in ((None, True), (False, False)):
        grammar = llm.planner.plan("go", reasoning=reasoning).grammar
        matcher = compile(grammar, llm.vocabulary).matcher()
        text = list(b"<|channel|>analysis")
        assert (matcher.accept_many(text) == len(text)) == thinks
    assert llm.reply("go", constraint=Verdict, reasoning=False, max_tokens=120, sampling=HOT).reasoning == ""


def test_what_reasoning_may_be() -> None:
    assert read_reasoning(None) is read_reasoning(False) is None
    assert read_reasoning(True) == ReasoningOptions()
    for bad in (3, "yes"):
        with pytest.raises(TypeError, match="ReasoningOptions"):
            read_reasoning(bad)  # type: ignore[arg-type]
    for options in ({"max_tokens": 0}, {"start": "<a>"}, {"max_tokens": 9, "optional": True}):
        with pytest.raises(ValueError):
            ReasoningOptions(**options)


def test_the_template_names_the_marks_of_thoughts(random_llm: LLM) -> None:
    text = Text(random_llm.text.tokenizer, (), {"default": "[THINK] x [/THINK]"})
    assert marks_of(text, ReasoningOptions()) == ("[THINK]", "[/THINK]")
    assert marks_of(random_llm.text, ReasoningOptions()) == ("<think>", "</think>")
    assert marks_of(text, ReasoningOptions(start="<a>", end="</a>")) == ("<a>", "</a>")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"tools": [weather], "tool_choice": {"name": "x"}}, SchemaError, "names 'x'; the tools are weather"),
        ({"tools": [weather], "constraint": Verdict, "tool_format": "json"}, UnsupportedFeature, "both begin alike"),
        (
            {"tools": [{"name": "t", "parameters": {"properties": {"x": False}, "required": ["x"]}}]},
            EmptyLanguage,
            "in the parameters of tool 't'",
        ),
        ({"constraint": JsonSchema(False)}, EmptyLanguage, "no"),
    ],
)
def test_what_cannot_be_is_refused_before_the_first_token(
    random_llm: LLM, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        random_llm.reply("go", **options)


@pytest.fixture(scope="module")
def marked_llm(random_llm: LLM) -> LLM:
    """The same model, in whose vocabulary marks are tokens of their own."""
    tokenizer = Tokenizer.from_str(random_llm.text.tokenizer.to_str())
    marks = ["[TOOL_CALLS]", "[ARGS]", "[THINK]", "[/THINK]"]
    tokenizer.add_special_tokens([AddedToken(mark, special=True) for mark in marks])
    model = copy(random_llm.model)
    template = "{% for m in messages %}{{ m.content }}{% endfor %}{{ tools }} [TOOL_CALLS] [ARGS] [THINK] [/THINK]"
    model.text = Text(tokenizer, [256], {"default": template})
    return LLM(model)


def test_marks_that_are_tokens_are_generated_and_read_as_tokens(marked_llm: LLM) -> None:
    special = marked_llm.vocabulary.special_tokens
    for seed in range(3):
        reply = marked_llm.reply(
            "go",
            tools=[weather],
            tool_choice="required",
            reasoning=True,
            max_tokens=90,
            sampling=Sampling(temperature=1.2, seed=seed),
        )
        ids = reply.generation.token_ids
        assert ids[0] == special["[THINK]"]
        for mark in ("[/THINK]", "[TOOL_CALLS]", "[ARGS]"):
            assert special[mark] in ids
        assert reply.content == ""
        assert all(call.run() for call in reply.calls)


@pytest.mark.parametrize("thoughts", [True, ReasoningOptions(max_tokens=12)])
def test_marks_that_are_tokens_are_guessed_and_nothing_else_changes(
    marked_llm: LLM, thoughts: bool | ReasoningOptions
) -> None:
    def reply(proposer: str) -> Any:
        return marked_llm.reply(
            "go", tools=[weather], tool_choice="required", reasoning=thoughts, max_tokens=90, sampling=HOT, proposer=proposer
        ).generation  # fmt: skip

    plain, found = reply("none"), reply("forced")
    assert found.token_ids == plain.token_ids
    assert found.metrics.by_source["forced"][1] > 5
    assert found.metrics.forwards_per_token < 1


def test_thoughts_with_a_limit_end_with_their_token(marked_llm: LLM) -> None:
    options = ReasoningOptions(max_tokens=12)
    reply = marked_llm.reply("go", constraint=Verdict, reasoning=options, max_tokens=90, sampling=HOT)
    assert isinstance(reply.parsed, Verdict)
    assert reply.generation.token_ids.index(marked_llm.vocabulary.special_tokens["[/THINK]"]) < 12


def test_a_mark_that_is_a_token_of_its_own_is_taken_as_one(random_llm: LLM) -> None:
    from constrained.reasoning import mark
    from constrained.vocabulary import Vocabulary
    from grammars import SpecialToken

    vocabulary = Vocabulary.from_token_bytes([b"a", None, None], eos_token_ids=[2], special_tokens={"<t>": 1, "<e>": 2})
    assert mark(vocabulary, "<t>") == SpecialToken("<t>")
    assert mark(vocabulary, "<u>") == "<u>"
