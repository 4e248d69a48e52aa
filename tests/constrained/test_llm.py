from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import Any, Literal

import jsonschema
import pytest
from pydantic import BaseModel, Field, field_validator

from constrained import (
    LLM,
    BatchError,
    BudgetError,
    Choice,
    EmptyLanguage,
    JsonSchema,
    Regex,
    ResultError,
    Sampling,
    SchemaError,
    compile,
    shared,
)
from constrained.streaming import BytesDecoding
from engine.errors import ContextError, EngineError, TextError


class Person(BaseModel):
    name: str = Field(max_length=12)
    age: int = Field(ge=0, le=130)


class Node(BaseModel):
    label: Literal["a", "b"]
    children: list[Node] = Field(max_length=2)


@dataclass
class Point:
    x: int
    y: int


HOT = Sampling(temperature=1.5, seed=11)


@pytest.mark.parametrize("sampling", [None, HOT], ids=["greedy", "hot"])
@pytest.mark.parametrize("source", [Person, Node, Point, list[int], Literal["x", "y"], dict[str, bool], int | None])
def test_whatever_the_model_says_an_instance_comes_out(random_llm: LLM, source: Any, sampling: Sampling | None) -> None:
    from pydantic import TypeAdapter

    value = random_llm.generate_json("anything", source, max_tokens=90, sampling=sampling)
    adapter = TypeAdapter(source)
    assert adapter.validate_python(adapter.dump_python(value)) == value


@pytest.mark.parametrize(
    "schema", [{"type": "array", "items": {"type": "integer"}, "maxItems": 3}, True, '{"enum": [1, 2]}']
)
def test_json_schemas_give_plain_values(random_llm: LLM, schema: Any) -> None:
    value = random_llm.generate_json("anything", schema, max_tokens=60, sampling=HOT)
    jsonschema.validate(value, json.loads(schema) if isinstance(schema, str) else schema)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("max_tokens", [22, 30, 60])
def test_the_json_is_whole_within_its_budget(random_llm: LLM, seed: int, max_tokens: int) -> None:
    sampling = Sampling(temperature=1.5, seed=seed)
    generation = random_llm.generate("go", Person, max_tokens=max_tokens, sampling=sampling)
    assert isinstance(generation.parsed, Person)
    assert len(generation.token_ids) <= max_tokens


def test_a_budget_that_nothing_fits_into_fails_before_the_first_token(random_llm: LLM) -> None:
    with pytest.raises(BudgetError, match="at least"):
        random_llm.stream("go", Person, max_tokens=5)


def test_a_generation_says_how_it_came_about(random_llm: LLM) -> None:
    sampling = Sampling(temperature=1.0, seed=3, logprobs=2)
    generation = random_llm.generate("go", Regex("[ab]{4}"), max_tokens=10, sampling=sampling)
    assert generation.text == bytes(generation.token_ids).decode()
    assert set(generation.text) <= {"a", "b"}
    assert generation.parsed is None
    assert generation.finish_reason == "stop"
    assert generation.fallbacks == []
    assert len(generation.logprobs) == 4
    assert generation.seed == 3
    metrics = generation.metrics
    assert metrics.output_tokens == 4
    assert metrics.prompt_tokens == len("<user>go</><assistant>")
    assert len(metrics.itl_s) == 3
    assert metrics.ttft_s > 0
    assert metrics.forward_s > 0


def test_the_same_seed_gives_the_same_text(random_llm: LLM) -> None:
    texts = {random_llm.generate("go", max_tokens=20, sampling=Sampling(seed=4)).text for _ in range(3)}
    assert len(texts) == 1
    assert random_llm.generate("go", max_tokens=20, sampling=Sampling(seed=5)).text not in texts


def test_free_text_ends_at_its_length(random_llm: LLM) -> None:
    generation = random_llm.generate("go", max_tokens=7, sampling=Sampling(banned_tokens=[256]))
    assert generation.finish_reason == "length"
    assert len(generation.token_ids) == 7


def test_the_events_of_a_stream_join_to_its_text(random_llm: LLM) -> None:
    constraint = Regex("[äöü€😀]{6}")
    with random_llm.stream("go", constraint, max_tokens=40, sampling=HOT) as stream:
        events = list(stream)
        generation = stream.result()
    assert "".join(event.text for event in events) == generation.text
    assert [event.token_id for event in events] == generation.token_ids
    assert any(event.text == "" for event in events), "a token in the middle of a character completes no text"
    assert len(generation.text) == 6


def test_every_streamed_prefix_is_the_beginning_of_a_valid_document(random_llm: LLM) -> None:
    constraint = compile(
        JsonSchema({"type": "array", "items": {"type": "boolean"}, "maxItems": 4}), random_llm.vocabulary
    )
    text = ""
    for event in random_llm.stream("go", constraint, max_tokens=60, sampling=HOT):
        text += event.text
        matcher = constraint.matcher()
        assert matcher.accept_many(list(text.encode())) == len(text.encode())
    assert matcher.is_accepting()


def test_a_stream_that_is_left_is_cancelled(random_llm: LLM) -> None:
    with random_llm.stream("go", Person, max_tokens=90) as stream:
        next(stream)
    generation = stream.result()
    assert generation.finish_reason == "cancelled"
    assert generation.parsed is None
    assert len(generation.token_ids) == 1


def test_an_event_from_outside_cancels(random_llm: LLM) -> None:
    cancel = threading.Event()
    cancel.set()
    assert random_llm.generate("go", Person, max_tokens=90, cancel=cancel).finish_reason == "cancelled"


def test_a_batch_gives_each_prompt_what_it_gets_alone(random_llm: LLM) -> None:
    prompts = ["one", "two", "three"]
    constraints = [Regex("a|b|c"), Choice(["x", "yy"]), None]
    batch = random_llm.generate_batch(prompts, constraints, max_tokens=8, sampling=HOT)
    alone = [
        random_llm.generate(prompt, constraint, max_tokens=8, sampling=HOT)
        for prompt, constraint in zip(prompts, constraints, strict=True)
    ]
    assert [one.text for one in batch] == [one.text for one in alone]
    with pytest.raises(ValueError, match="3 prompts and 2 constraints"):
        random_llm.generate_batch(prompts, constraints[:2])
    with pytest.raises(TypeError, match="list of prompts"):
        random_llm.generate_batch("one")


def test_a_batch_has_the_types_samplings_and_times_of_its_rows(random_llm: LLM) -> None:
    samplings = [Sampling(temperature=1.5, seed=at) for at in range(5)]
    seen: list[tuple[int, int]] = []
    batch = random_llm.generate_batch(
        [f"go {at}" for at in range(5)], Person, max_tokens=60, sampling=samplings, progress=lambda *at: seen.append(at)
    )
    assert all(isinstance(one.parsed, Person) for one in batch)
    assert [one.seed for one in batch] == list(range(5))
    assert seen == [(at, 5) for at in range(1, 6)]
    for one in batch:
        assert one.metrics.ttft_s >= one.metrics.queue_s > 0 and one.metrics.forward_s > 0 and one.metrics.mask_s > 0
        assert len(one.metrics.itl_s) == len(one.token_ids) - 1
    with pytest.raises(ValueError, match="2 prompts and 5 samplings"):
        random_llm.generate_batch(["a", "b"], sampling=samplings)
    assert random_llm.generate_batch([]) == []


def test_an_error_in_one_row_does_not_lose_the_others(random_llm: LLM) -> None:
    class Picky(BaseModel):
        x: Literal[1, 2]

        @field_validator("x")
        @classmethod
        def _refuse(cls, value: int) -> int:
            raise ValueError("never")

    with pytest.raises(BatchError, match=r"1 of 3 generations failed \(at 1\)") as caught:
        random_llm.generate_batch(["a", "b", "c"], [Point, Picky, Point], max_tokens=60)
    first, second, third = caught.value.results
    assert isinstance(first.parsed, Point) and isinstance(third.parsed, Point)
    assert isinstance(second, ResultError) and caught.value.exceptions == (second,)
    assert caught.value.subgroup(ResultError) is not None


def test_a_batch_refuses_before_it_generates(random_llm: LLM) -> None:
    steps = random_llm.engine.engine.steps
    with pytest.raises(BudgetError):
        random_llm.generate_batch(["a", "b"], [Regex("a+"), Person], max_tokens=5)
    with pytest.raises(ContextError):
        random_llm.generate_batch(["a", "b" * 3000], max_tokens=5)
    with pytest.raises(ValueError, match="'static' is not accepted for batches"):
        random_llm.generate_batch(["a"], cache="static")
    assert random_llm.engine.engine.steps == steps


def test_a_batch_can_be_cancelled(random_llm: LLM) -> None:
    cancel = threading.Event()
    cancel.set()
    batch = random_llm.generate_batch(["a", "b"], Person, max_tokens=60, cancel=cancel)
    assert [one.finish_reason for one in batch] == ["cancelled"] * 2


def test_a_batch_longer_than_the_queue_goes_through_it(random_llm: LLM) -> None:
    llm = LLM(random_llm.model, max_sequences=2, max_waiting=3, kv_memory="1MiB")
    batch = llm.generate_batch([f"go {at}" for at in range(12)], Choice(["x", "yy"]), max_tokens=4)
    assert {one.text for one in batch} <= {"x", "yy"} and len(batch) == 12
    assert llm.engine.usage().blocks == 2**20 // (16 * random_llm.model.config.kv_values_per_token * 4)
    with pytest.raises(EngineError, match="give them more memory"):
        LLM(random_llm.model, kv_memory="1KiB").generate_batch(["go"], max_tokens=4)


def _add(first: int, second: Literal[1, 2] = 1) -> int:
    """Adds."""
    return first + second


def _now() -> str:
    return "noon"


@pytest.mark.parametrize("seed", range(5))
def test_a_required_call_always_fits_its_tool(random_llm: LLM, seed: int) -> None:
    call = random_llm.call_tool("go", [_add, _now], max_tokens=100, sampling=Sampling(temperature=1.5, seed=seed))
    assert call.name in ("_add", "_now")
    assert call.run() == ("noon" if call.name == "_now" else call.arguments["first"] + call.arguments.get("second", 1))
    assert json.loads(call.arguments_json).keys() == call.arguments.keys()
    assert call.generation.metrics.output_tokens > 0


def test_a_named_choice_is_the_tool_that_is_called(random_llm: LLM) -> None:
    assert random_llm.call_tool("go", [_add, _now], tool_choice={"name": "_add"}, max_tokens=100).name == "_add"


@pytest.mark.parametrize(("bias", "called"), [(50.0, True), (-50.0, False)])
def test_with_the_auto_choice_the_model_decides(random_llm: LLM, bias: float, called: bool) -> None:
    sampling = Sampling(temperature=1.0, seed=1, logit_bias={ord("{"): bias})  # a call of this format begins so
    call = random_llm.call_tool("go", [_now], tool_choice="auto", max_tokens=60, sampling=sampling)
    assert (call is not None) == called
    assert call is None or call.run() == "noon"


def test_a_model_without_a_chat_template_continues_the_text(untemplated_llm: LLM) -> None:
    generation = untemplated_llm.generate("abc", Regex("x"), max_tokens=4)
    assert generation.metrics.prompt_tokens == len("abc\n")
    raw = untemplated_llm.generate("abc", Regex("x"), max_tokens=4, chat=False)
    assert raw.metrics.prompt_tokens == len("abc")


def test_a_model_without_a_tokenizer_is_refused_in_words(wordless_llm: LLM) -> None:
    with pytest.raises(TextError, match="tokenizer"):
        wordless_llm.generate("abc")


def test_a_prompt_longer_than_the_context_says_by_how_much(random_llm: LLM) -> None:
    with pytest.raises(ContextError, match="2048"):
        random_llm.generate("x" * 3000, Person, max_tokens=60)


@pytest.mark.parametrize("prompt", ["", "  \n"])
def test_an_empty_prompt_is_refused(random_llm: LLM, prompt: str) -> None:
    for call in (random_llm.generate_json, random_llm.generate, random_llm.stream):
        with pytest.raises(ValueError, match="the prompt is empty; pass the text"):
            call(prompt, Person)
    with pytest.raises(ValueError, match="the prompt is empty"):
        random_llm.call_tool(prompt, [_now])
    with pytest.raises(EngineError, match="the prompt is empty"):
        random_llm.generate("", chat=False)


def test_the_memory_limit_is_kept(random_llm: LLM) -> None:
    with pytest.raises(ContextError, match="kv_memory"):
        LLM(random_llm.model, kv_memory="16KiB").generate("go", max_tokens=200)
    LLM(random_llm.model, kv_memory="16MiB").generate("go", max_tokens=4)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"max_tokens": 0}, ValueError),
        ({"max_tokens": True}, ValueError),
        ({"max_tokens": 2.5}, ValueError),
        ({"cache": "fast"}, ValueError),
        ({"proposer": "draft"}, ValueError),
        ({"proposer": "oracle"}, ValueError),
        ({"lookahead": 40}, ValueError),
        ({"temperature": 1.0}, TypeError),
    ],
)
def test_an_option_works_or_is_refused(random_llm: LLM, options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        random_llm.generate("go", **options)


@pytest.mark.parametrize("cache", ["auto", "dynamic", "static", "paged", "sliding", "offloaded"])
def test_each_cache_gives_the_same_text(random_llm: LLM, cache: str) -> None:
    constraint = Regex("[a-z]{12}")
    assert random_llm.generate("go", constraint, cache=cache).text == random_llm.generate("go", constraint).text


@pytest.mark.parametrize(
    ("schema", "error"), [(False, EmptyLanguage), ("{", SchemaError), ({"type": "x"}, SchemaError)]
)
def test_a_bad_schema_fails_before_the_first_token(random_llm: LLM, schema: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        random_llm.generate_json("go", schema)


def test_a_constraint_of_another_vocabulary_is_refused(random_llm: LLM, make_vocabulary: Any) -> None:
    with pytest.raises(ValueError, match="another vocabulary"):
        random_llm.generate("go", compile(Regex("a"), make_vocabulary()))


@pytest.mark.parametrize("settled", [{"device": "cpu"}, {"dtype": "float32"}, {"context_length": 64}])
def test_a_loaded_model_has_its_device_and_context_already(random_llm: LLM, settled: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="loaded already"):
        LLM(random_llm.model, **settled)


def test_batches_are_admitted_as_the_option_says_and_come_out_the_same(random_llm: LLM) -> None:
    prompts = [f"go {at}" for at in range(6)]
    texts = []
    for admission in ("promised", "optimistic"):
        llm = LLM(random_llm.model, admission=admission, kv_memory=40_000, proposer="none")  # type: ignore[arg-type]
        scheduler = llm.engine.engine.scheduler
        assert scheduler.admission == admission
        texts.append([each.text for each in llm.generate_batch(prompts, Point, max_tokens=40)])
        assert (scheduler.preemptions > 0) == (admission == "optimistic")
        assert llm.engine.usage().used_blocks == 0
    assert texts[0] == texts[1]


def test_the_module_level_call_keeps_its_model(random_llm: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(shared, "_shared", {})
    monkeypatch.setattr(shared, "LLM", lambda model: made.append(model) or random_llm)
    for _ in range(2):
        assert isinstance(shared.generate_json("go", Point, max_tokens=60), Point)
    assert made == [None]


def test_bytes_that_never_become_a_character_are_marked() -> None:
    decoding = BytesDecoding(lambda token: bytes([token]))
    assert [decoding.push(byte) for byte in "é".encode()] == ["", "é"]
    assert decoding.push(0xC3) == ""
    assert decoding.flush() == "\ufffd"
