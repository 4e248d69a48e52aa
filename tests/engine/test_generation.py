from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from engine import EmptyRow, Fallback, InvalidLogits, Sampling, SpeculativeConstraint, TokenConstraint, generate
from engine.errors import ContextError, EngineError
from engine.sampling import SamplingError, row_words

VOCAB, EOS = 70, 69
Sentences = Sequence[Sequence[int]]


class ToyModel:
    """Logits that depend on the whole text; remembers what it was asked to run."""

    def __init__(self, context_length: int = 300, override: Callable[[list[int]], Tensor | None] | None = None) -> None:
        self.config: Any = SimpleNamespace(
            vocab_size=VOCAB, context_length=context_length, longer_context="", eos_token_ids=(EOS,)
        )
        self.device = torch.device("cpu")
        self.override = override
        self.calls: list[list[int]] = []
        self.caches: list[tuple[str, int, int]] = []

    def new_cache(self, name: str = "auto", batch: int = 1, capacity: int = 0) -> Any:
        self.caches.append((name, batch, capacity))
        return []

    def forward(self, input_ids: Tensor, cache: Any) -> Tensor:
        assert input_ids.dtype is torch.int64
        tokens = input_ids[0].tolist()
        self.calls.append(tokens)
        cache.extend(tokens)
        given = self.override(cache) if self.override is not None else None
        if given is not None:
            return given.unsqueeze(0)
        rng = np.random.default_rng([len(cache), *cache])
        return torch.from_numpy(rng.normal(0, 2, (1, VOCAB)).astype(np.float32))


class OneOf:
    """The language of a few sentences of tokens."""

    def __init__(self, sentences: Sentences) -> None:
        self.sentences = [list(sentence) for sentence in sentences]
        self.text: list[int] = []
        self.finished = False

    def next_tokens(self) -> set[int]:
        n = len(self.text)
        rest = [s[n:] for s in self.sentences if s[:n] == self.text]
        return {EOS if not tail else tail[0] for tail in rest}

    def fill_mask(self, row: np.ndarray) -> None:
        row[:] = 0
        for token in self.next_tokens():
            row[token // 32] |= np.uint32(1 << token % 32)

    def accept(self, token: int) -> None:
        assert token in self.next_tokens(), f"{token} is not allowed after {self.text}"
        if token == EOS:
            self.finished = True
        else:
            self.text.append(token)

    def is_accepting(self) -> bool:
        return self.text in self.sentences

    def is_finished(self) -> bool:
        return self.finished


class NeverEarly(OneOf):
    """The same language from a constraint whose end is only seen by drawing the end token."""

    def is_accepting(self) -> bool:
        return False


def expected_greedy(prompt: list[int], count: int) -> list[int]:
    text, model = list(prompt), ToyModel()
    for _ in range(count):
        text.append(int(model.forward(torch.tensor([text]), []).argmax()))
    return text[len(prompt) :]


def test_greedy_text_is_the_argmax_at_every_step_and_each_token_is_run_once() -> None:
    model = ToyModel()
    output = generate(model, [1, 2, 3], max_new_tokens=8).result()
    assert output.token_ids == expected_greedy([1, 2, 3], 8)
    assert output.finish_reason == "length"
    assert model.calls == [[1, 2, 3], *[[token] for token in output.token_ids[:-1]]]


def test_the_prompt_may_be_a_tensor_of_one_or_two_dimensions() -> None:
    expected = generate(ToyModel(), [4, 5], max_new_tokens=3).result().token_ids
    for ids in (torch.tensor([4, 5]), torch.tensor([[4, 5]])):
        assert generate(ToyModel(), ids, max_new_tokens=3).result().token_ids == expected


def test_an_end_token_stops_and_is_not_part_of_the_output() -> None:
    def end_after_three(text: list[int]) -> Tensor | None:
        return torch.eye(VOCAB)[EOS] if len(text) == 5 else None

    output = generate(ToyModel(override=end_after_three), [1, 2], max_new_tokens=9).result()
    assert output.finish_reason == "stop"
    assert output.token_ids == expected_greedy([1, 2], 3)
    assert output.metrics.target_forwards == 4


def test_end_tokens_given_replace_those_of_the_model() -> None:
    first, second = expected_greedy([1, 2], 2)
    output = generate(ToyModel(), [1, 2], eos_token_ids=[second]).result()
    assert (output.token_ids, output.finish_reason) == ([first], "stop")


def test_a_stop_condition_ends_the_text_with_the_token_that_met_it() -> None:
    output = generate(ToyModel(), [1, 2], stop=lambda tokens: len(tokens) == 4).result()
    assert (len(output.token_ids), output.finish_reason) == (4, "stop")


def test_the_same_seed_gives_the_same_text_and_the_seed_is_reported() -> None:
    def run(seed: int | None) -> Any:
        return generate(ToyModel(), [7], sampling=Sampling(seed=seed), max_new_tokens=12).result()

    assert run(3).token_ids == run(3).token_ids != run(4).token_ids
    unseeded = run(None)
    assert run(unseeded.seed).token_ids == unseeded.token_ids


def test_penalties_see_the_tokens_of_the_output() -> None:
    constant = ToyModel(override=lambda _: torch.arange(VOCAB, dtype=torch.float32) / 10)
    sampling = Sampling(temperature=0, frequency_penalty=2.0)
    output = generate(constant, [1], sampling=sampling, max_new_tokens=5, eos_token_ids=[]).result()
    assert output.token_ids == [69, 68, 67, 66, 65]


class TestConstraint:
    @given(
        st.lists(st.lists(st.integers(0, 4), max_size=5), min_size=1, max_size=8),
        st.integers(0, 50),
        st.sampled_from([0.0, 1.0, 2.0]),
    )
    def test_finishing_early_gives_the_same_text_with_one_forward_pass_less(
        self, sentences: list[list[int]], seed: int, temperature: float
    ) -> None:
        sampling = Sampling(temperature=temperature, seed=seed)
        early = generate(ToyModel(), [9], sampling=sampling, constraint=OneOf(sentences)).result()
        late = generate(ToyModel(), [9], sampling=sampling, constraint=NeverEarly(sentences)).result()
        assert early.token_ids == late.token_ids
        assert early.token_ids in sentences
        assert early.finish_reason == late.finish_reason == "stop"
        longer = any(s[: len(early.token_ids)] == early.token_ids and s != early.token_ids for s in sentences)
        saved = late.metrics.target_forwards - early.metrics.target_forwards
        assert saved == (0 if longer else 1)

    def test_a_text_that_just_fits_ends_as_whole(self) -> None:
        output = generate(ToyModel(), [9], constraint=OneOf([[1, 2, 3]]), max_new_tokens=3).result()
        assert (output.token_ids, output.finish_reason) == ([1, 2, 3], "stop")

    def test_a_text_that_could_go_on_ends_by_length(self) -> None:
        output = generate(ToyModel(), [9], constraint=OneOf([[1, 2], [1, 2, 3]]), max_new_tokens=2).result()
        assert (output.token_ids, output.finish_reason) == ([1, 2], "length")

    def test_a_language_of_nothing_but_the_empty_text_needs_no_forward_pass(self) -> None:
        model = ToyModel()
        output = generate(model, [9], constraint=OneOf([[]])).result()
        assert (output.token_ids, output.finish_reason, model.calls) == ([], "stop", [])
        assert output.metrics.ttft_s == 0.0

    def test_the_end_token_of_the_constraint_ends_the_text_even_if_the_engine_does_not_know_it(self) -> None:
        output = generate(ToyModel(), [9], constraint=OneOf([[1, 2]]), eos_token_ids=[]).result()
        assert (output.token_ids, output.finish_reason) == ([1, 2], "stop")

    def test_a_dead_end_is_an_error_that_names_the_step(self) -> None:
        class Stuck(OneOf):
            def next_tokens(self) -> set[int]:
                return super().next_tokens() if len(self.text) < 2 else set()

        stream = generate(ToyModel(), [9], constraint=Stuck([[1, 2, 3]]))
        assert [next(stream).token_id, next(stream).token_id] == [1, 2]
        with pytest.raises(EmptyRow, match="step 2"):
            next(stream)
        with pytest.raises(EmptyRow, match="step 2"):
            stream.result()

    def test_relaxed_steps_do_not_move_the_constraint_and_are_on_record(self) -> None:
        class StuckOnce(OneOf):
            calls = 0

            def next_tokens(self) -> set[int]:
                return super().next_tokens()

            def fill_mask(self, row: np.ndarray) -> None:
                super().fill_mask(row)
                self.calls += 1
                if self.calls == 2:
                    row[:] = 0

        constraint = StuckOnce([[1, 2, 3]])
        sampling = Sampling(temperature=0, on_empty="relax")
        output = generate(ToyModel(), [9], sampling=sampling, constraint=constraint).result()
        assert constraint.text == [1, 2, 3]
        assert output.token_ids[0] == 1
        assert output.token_ids[2:] == [2, 3]
        assert output.fallbacks == [Fallback(1, "constraint", "relax")]

    def test_the_policy_eos_ends_a_text_that_is_stuck(self) -> None:
        class Stuck(OneOf):
            def next_tokens(self) -> set[int]:
                return super().next_tokens() if not self.text else set()

        sampling = Sampling(temperature=0, on_empty="eos")
        output = generate(ToyModel(), [9], sampling=sampling, constraint=Stuck([[1, 2]])).result()
        assert (output.token_ids, output.finish_reason) == ([1], "stop")
        assert output.fallbacks == [Fallback(1, "constraint", "eos")]

    def test_bans_give_way_to_the_constraint_on_record(self) -> None:
        sampling = Sampling(temperature=0, no_repeat_ngram=1, banned_tokens=[5])
        output = generate(ToyModel(), [4], sampling=sampling, constraint=OneOf([[4, 5, 4]])).result()
        assert output.token_ids == [4, 5, 4]
        assert output.fallbacks == [
            Fallback(0, "no_repeat_ngram", "give_way"),
            Fallback(1, "banned_tokens", "give_way"),
            Fallback(2, "no_repeat_ngram", "give_way"),
        ]

    def test_the_protocol_is_what_the_loop_uses(self) -> None:
        assert isinstance(OneOf([[1]]), TokenConstraint)
        assert not isinstance(OneOf([[1]]), SpeculativeConstraint)
        assert not isinstance(object(), TokenConstraint)


class TestStream:
    def test_tokens_come_one_by_one_and_only_when_asked_for(self) -> None:
        model = ToyModel()
        stream = generate(model, [1, 2], max_new_tokens=5)
        assert model.calls == []
        first = next(stream)
        assert model.calls == [[1, 2]]
        rest = list(stream)
        output = stream.result()
        assert [first.token_id, *[token.token_id for token in rest]] == output.token_ids
        assert stream.result() == output
        with pytest.raises(StopIteration):
            next(stream)

    def test_closing_cancels_what_is_left(self) -> None:
        model = ToyModel()
        with generate(model, [1, 2]) as stream:
            next(stream)
            next(stream)
        output = stream.result()
        assert output.finish_reason == "cancelled"
        assert output.token_ids == expected_greedy([1, 2], 2)
        assert output.metrics.output_tokens == len(model.calls) == 2

    def test_closing_a_finished_generation_changes_nothing(self) -> None:
        stream = generate(ToyModel(), [1, 2], max_new_tokens=2)
        list(stream)
        stream.close()
        assert stream.result().finish_reason == "length"

    def test_an_event_cancels_before_the_next_token(self) -> None:
        event = threading.Event()
        stream = generate(ToyModel(), [1, 2], cancel=event)
        next(stream)
        event.set()
        assert list(stream) == []
        assert (stream.result().finish_reason, len(stream.result().token_ids)) == ("cancelled", 1)

    def test_an_error_ends_the_generation(self) -> None:
        def nan_later(text: list[int]) -> Tensor | None:
            return torch.full((VOCAB,), math.nan) if len(text) == 4 else None

        stream = generate(ToyModel(override=nan_later), [1, 2])
        next(stream)
        next(stream)
        with pytest.raises(InvalidLogits, match="step 2"):
            next(stream)
        assert list(stream) == []
        with pytest.raises(InvalidLogits, match="step 2"):
            stream.result()

    def test_nothing_is_left_in_inference_mode_between_two_tokens(self) -> None:
        stream = generate(ToyModel(), [1, 2], max_new_tokens=3)
        for _ in stream:
            assert not torch.is_inference_mode_enabled()

    def test_logprobs_come_with_the_tokens(self) -> None:
        stream = generate(ToyModel(), [1], sampling=Sampling(seed=1, logprobs=2), max_new_tokens=3)
        tokens = list(stream)
        assert [token.logprob for token in tokens] == stream.result().logprobs
        assert all(token.logprob is not None and token.logprob.token_id == token.token_id for token in tokens)
        assert generate(ToyModel(), [1], max_new_tokens=3).result().logprobs == []


def test_metrics_add_up() -> None:
    output = generate(ToyModel(), [1, 2, 3], max_new_tokens=6, constraint=OneOf([[1, 2, 3, 4]])).result()
    metrics = output.metrics
    assert (metrics.prompt_tokens, metrics.output_tokens, metrics.target_forwards) == (3, 4, 4)
    assert (metrics.drafted, metrics.accepted, metrics.cached_prompt_tokens) == (0, 0, 0)
    assert len(metrics.itl_s) == 3
    assert min(metrics.ttft_s, metrics.forward_s, metrics.mask_s, metrics.sample_s, *metrics.itl_s) > 0
    whole = metrics.ttft_s + sum(metrics.itl_s)
    assert metrics.forward_s + metrics.mask_s + metrics.sample_s <= whole + 1e-9
    assert math.isclose(metrics.tokens_per_s, 4 / whole, rel_tol=1e-6)


def test_the_time_that_the_consumer_takes_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def tick() -> float:
        now[0] += 1.0
        return now[0]

    monkeypatch.setattr("engine.metrics.perf_counter", tick)
    stream = generate(ToyModel(), [1], max_new_tokens=3)
    for _ in stream:
        now[0] += 1000.0
    metrics = stream.result().metrics
    assert metrics.ttft_s + sum(metrics.itl_s) < 100


@pytest.mark.parametrize(
    ("prompt", "new", "remedy"),
    [(20, 1, "shorten it by at least 1"), (25, 1, "shorten it by at least 6"), (15, 6, "lower max_tokens to 5")],
)
def test_a_text_longer_than_the_context_is_an_error_before_anything_runs(prompt: int, new: int, remedy: str) -> None:
    model = ToyModel(context_length=20)
    with pytest.raises(ContextError, match=remedy):
        generate(model, [1] * prompt, max_new_tokens=new)
    assert (model.calls, model.caches) == ([], [])


def test_a_text_as_long_as_the_context_is_fine() -> None:
    assert len(generate(ToyModel(context_length=20), [1] * 15, max_new_tokens=5).result().token_ids) == 5


def test_malformed_requests_are_refused_before_anything_runs() -> None:
    with pytest.raises(EngineError, match="prompt is empty"):
        generate(ToyModel(), [])
    with pytest.raises(EngineError, match="max_new_tokens=0"):
        generate(ToyModel(), [1], max_new_tokens=0)
    with pytest.raises(SamplingError, match="the prompt names token 70"):
        generate(ToyModel(), [1, VOCAB])


def test_the_cache_is_made_by_name_and_a_static_one_as_large_as_the_text() -> None:
    model = ToyModel()
    generate(model, [1, 2], max_new_tokens=10, cache="static")
    generate(model, [1, 2], max_new_tokens=10, cache="dynamic")
    assert model.caches == [("static", 1, 12), ("dynamic", 1, 0)]


def test_masks_have_a_word_for_each_32_logits() -> None:
    class Sized(OneOf):
        def fill_mask(self, row: np.ndarray) -> None:
            assert (row.shape, row.dtype) == ((row_words(VOCAB),), np.uint32)
            super().fill_mask(row)

    assert generate(ToyModel(), [1], constraint=Sized([[3, 4]])).result().token_ids == [3, 4]
