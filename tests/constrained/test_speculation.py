from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from constrained import LLM, BudgetError, JsonSchema, Regex, Sampling, compile
from engine import SpeculativeConstraint
from engine.errors import SpeculationError
from engine.sampling import allowed_tokens
from engine.speculation import EarlyExit, Speculation
from grammars import Sequence

RECORD = {
    "type": "object",
    "properties": {
        "customer_shipping_address": {"type": "string", "maxLength": 6},
        "customer_order_number": {"type": "integer", "minimum": 0, "maximum": 99},
        "customer_is_returning": {"type": "boolean"},
    },
    "required": ["customer_shipping_address", "customer_order_number", "customer_is_returning"],
    "additionalProperties": False,
}
COMPACT = JsonSchema(RECORD, whitespace="compact")


@pytest.mark.parametrize("sampling", [None, Sampling(seed=3, temperature=1.2, frequency_penalty=0.3)])
@pytest.mark.parametrize("lookahead", ["adaptive", "heuristic", 3])
@pytest.mark.parametrize("proposer", ["auto", "forced", "ngram", "suffix", "forced+suffix+ngram"])
def test_the_text_is_that_of_no_speculation(
    random_llm: LLM, proposer: str, lookahead: Any, sampling: Sampling | None
) -> None:
    options = {"max_tokens": 140, "sampling": sampling}
    plain = random_llm.generate("go", COMPACT, proposer="none", **options)
    found = random_llm.generate("go", COMPACT, proposer=proposer, lookahead=lookahead, **options)
    assert (found.text, found.token_ids, found.parsed) == (plain.text, plain.token_ids, plain.parsed)
    assert found.metrics.drafted >= plain.metrics.drafted == 0


@pytest.mark.parametrize("sampled", [False, True])
def test_a_proposer_may_be_an_object(random_llm: LLM, sampled: bool) -> None:
    proposer = EarlyExit(random_llm.model, 1, sampled=sampled)
    plain = random_llm.generate("go", COMPACT, max_tokens=140, proposer="none")
    assert random_llm.generate("go", COMPACT, max_tokens=140, proposer=proposer, lookahead=2).text == plain.text


def test_long_keys_take_few_forward_passes(random_llm: LLM) -> None:
    metrics = random_llm.generate("go", COMPACT, max_tokens=140, proposer="forced", lookahead=4).metrics
    assert metrics.forwards_per_token <= 0.6
    assert metrics.by_source["forced"][1] > 50


def test_a_batch_gives_each_prompt_what_it_gets_alone(random_llm: LLM) -> None:
    samplings = [Sampling(seed=at, temperature=0.8) for at in range(4)]
    prompts = [f"number {at}" for at in range(4)]
    alone = [
        random_llm.generate(prompt, COMPACT, max_tokens=140, sampling=sampling, proposer="none").text
        for prompt, sampling in zip(prompts, samplings, strict=True)
    ]
    batch = LLM(random_llm.model, lookahead=4).generate_batch(prompts, COMPACT, max_tokens=140, sampling=samplings)
    assert [generation.text for generation in batch] == alone
    assert all(generation.metrics.accepted > 20 for generation in batch)
    assert all(generation.metrics.queue_s >= 0 for generation in batch)


def test_a_draft_model_is_asked_for_where_one_is_needed(random_llm: LLM) -> None:
    with pytest.raises(SpeculationError, match="pass draft_model="):
        LLM(random_llm.model, proposer="draft")
    with pytest.raises(SpeculationError, match="pass draft_model="):
        random_llm.generate("go", proposer="forced+universal")


def test_a_draft_model_with_the_same_tokens_proposes_for_the_target(random_llm: LLM) -> None:
    llm = LLM(random_llm.model, draft_model=random_llm.model, proposer="forced+draft", lookahead=3)
    plain = random_llm.generate("go", COMPACT, max_tokens=140, proposer="none")
    found = llm.generate("go", COMPACT, max_tokens=140)
    assert found.text == plain.text
    drafted, accepted = found.metrics.by_source["draft"]
    assert drafted == accepted > 0


def test_requests_of_a_model_share_what_they_learn(random_llm: LLM) -> None:
    llm = LLM(random_llm.model, proposer="suffix", lookahead=8)
    first = llm.generate("go", COMPACT, max_tokens=140)
    second = llm.generate("go", COMPACT, max_tokens=140)
    assert second.text == first.text
    assert second.metrics.accepted > first.metrics.accepted
    assert second.metrics.target_forwards < 0.5 * first.metrics.target_forwards


def test_reasoning_goes_over_into_the_answer_inside_a_block(random_llm: LLM) -> None:
    vocabulary = random_llm.vocabulary
    constraint = compile(Sequence(Regex(r"[ab]{0,6}</think>"), COMPACT), vocabulary)
    text = b"ab</think>" + b'{"customer_shipping_address":"xy"'
    tokens = list(text)
    for begin in range(len(tokens)):
        matcher = constraint.matcher(max_tokens=200)
        assert isinstance(matcher, SpeculativeConstraint)
        for token in tokens[:begin]:
            matcher.accept(token)
        rows = np.zeros((len(tokens) - begin + 1, vocabulary.row_words), np.uint32)
        matcher.masks_ahead(tokens[begin:], rows)
        expected = np.zeros(vocabulary.row_words, np.uint32)
        for at, token in enumerate(tokens[begin:]):
            matcher.fill_mask(expected)
            assert (rows[at] == expected).all()
            matcher.accept(token)
        matcher.fill_mask(expected)
        assert (rows[-1] == expected).all()


WORDS = ("name", '":', '"a', "ab", '","', "12", '{"', '"}', "[1", "],", " ", "true")
SCHEMAS = [
    COMPACT,
    JsonSchema({"type": "object", "additionalProperties": {"type": "array", "items": {"type": "integer"}}}),
    JsonSchema({"type": "array", "items": {"type": "integer"}, "uniqueItems": True, "minItems": 1, "maxItems": 4}),
    JsonSchema({"type": "object", "properties": {"name": {"type": "string"}}, "patternProperties": {"^a": True}}),
    Regex(r"(ab|a12|name)*"),
]


@pytest.mark.parametrize("max_tokens", [None, 9, 14, 30, 200])
@pytest.mark.parametrize("grammar", SCHEMAS, ids=range(len(SCHEMAS)))
def test_the_rows_of_a_draft_are_those_of_its_tokens_one_by_one(
    make_vocabulary: Any, grammar: Any, max_tokens: int | None
) -> None:
    vocabulary = make_vocabulary(*WORDS)
    constraint = compile(grammar, vocabulary)
    rng = np.random.default_rng(5)
    try:
        matcher = constraint.matcher(max_tokens=max_tokens)
    except BudgetError:
        pytest.skip("no sentence fits")
    for _ in range(25):
        draft = _walk(constraint.matcher(), matcher.tokens, rng, 8)
        if draft and rng.random() < 0.3:
            draft[rng.integers(len(draft))] = int(rng.integers(vocabulary.size))
        before = matcher.tokens
        rows = np.ones((len(draft) + 1, vocabulary.row_words), np.uint32)
        matcher.masks_ahead(draft, rows)
        assert matcher.tokens == before
        other = constraint.matcher(max_tokens=max_tokens)
        assert other.accept_many(before) == len(before)
        one = np.zeros(vocabulary.row_words, np.uint32)
        accepted = 0
        for at, token in enumerate(draft):
            other.fill_mask(one)
            assert (rows[at] == one).all()
            if other.accept_many([token]) == 0:
                assert not rows[at + 1 :].any()
                break
            accepted += 1
        else:
            other.fill_mask(one)
            assert (rows[len(draft)] == one).all()
        assert matcher.accept_many(draft[: rng.integers(0, 3)]) <= accepted
        if matcher.is_finished():
            matcher.reset()


def _walk(matcher: Any, begin: tuple[int, ...], rng: np.random.Generator, length: int) -> list[int]:
    """Tokens that may come behind `begin`, whatever the budget; longer ones preferred."""
    matcher.accept_many(begin)
    row = np.zeros(matcher.constraint.vocabulary.row_words, np.uint32)
    tokens: list[int] = []
    for _ in range(length):
        matcher.fill_mask(row)
        allowed = allowed_tokens(row)
        if not len(allowed):
            break
        words = allowed[allowed >= 256]
        tokens.append(int(rng.choice(words if len(words) and rng.random() < 0.7 else allowed)))
        matcher.accept(tokens[-1])
    return tokens


def test_speculation_is_shared_by_the_requests_that_ask_for_the_same(random_llm: LLM) -> None:
    first = random_llm.prepare("go", COMPACT).arguments["speculation"]
    assert isinstance(first, Speculation)
    assert random_llm.prepare("go", COMPACT).arguments["speculation"] is first
    assert random_llm.prepare("go", COMPACT, lookahead=3).arguments["speculation"] is not first
    assert random_llm.prepare("go", COMPACT, proposer="none").arguments["speculation"] is None
