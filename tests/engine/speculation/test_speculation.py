from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import torch

from engine import EmptyRow, Sampling, generate
from engine.errors import EngineError
from engine.speculation import Combined, DraftModel, Forced, NGram, Speculation, Suffix
from tests.engine.speculation.toys import (
    END_THINK,
    EOS,
    VOCAB,
    Automaton,
    Guesser,
    ToyModel,
    free_then_fixed,
    noise,
)

EVERYTHING = {
    "temperature": 1.1, "top_k": 8, "top_p": 0.95, "min_p": 0.01, "typical_p": 0.98, "repetition_penalty": 1.2,
    "presence_penalty": 0.3, "frequency_penalty": 0.2, "no_repeat_ngram": 3, "logit_bias": {3: 0.5}, "logprobs": 2,
}  # fmt: skip
SAMPLINGS = [
    Sampling(temperature=0.0),
    Sampling(temperature=0.0, no_repeat_ngram=2, frequency_penalty=0.5, repetition_penalty=1.3, logprobs=2),
    Sampling(seed=5),
    Sampling(seed=6, **EVERYTHING),
]
PROPOSERS = {
    "nonsense": lambda: Guesser(noise(3)),
    "clever": lambda: Guesser(noise(4, lambda text: int(ToyModel().after(text).argmax()))),
    "ngram": NGram,
    "suffix": Suffix,
    "forced": Forced,
    "all": lambda: Combined([Forced(), NGram(), Suffix(), Guesser(noise(5))]),
    "draft, best tokens": lambda: DraftModel(ToyModel(2), VOCAB, sampled=False),
}


def _run(speculation: Speculation | None, sampling: Sampling, constrained: bool, **options: Any) -> Any:
    constraint = Automaton(free_then_fixed) if constrained else None
    return generate(
        ToyModel(), [5, 6, 7, 5, 6], sampling=sampling, constraint=constraint, max_new_tokens=40,
        speculation=speculation, **options,
    ).result()  # fmt: skip


def _same(one: Any, other: Any) -> None:
    assert (one.token_ids, one.finish_reason, one.fallbacks) == (other.token_ids, other.finish_reason, other.fallbacks)
    assert [each.token_id for each in one.logprobs] == [each.token_id for each in other.logprobs]
    for mine, theirs in zip(one.logprobs, other.logprobs, strict=True):
        assert mine.logprob == pytest.approx(theirs.logprob, abs=1e-5)


@pytest.mark.parametrize("lookahead", [1, 2, 3, 4, 5, 6, 7, 8, "heuristic", "adaptive"])
@pytest.mark.parametrize("name", PROPOSERS)
def test_guesses_that_were_not_drawn_change_no_text_greedy_or_sampled(name: str, lookahead: Any) -> None:
    for sampling in SAMPLINGS:
        for constrained in (False, True):
            plain = _run(None, sampling, constrained)
            found = _run(Speculation(PROPOSERS[name](), lookahead), sampling, constrained)
            _same(found, plain)
            metrics = found.metrics
            assert metrics.target_forwards <= plain.metrics.target_forwards
            assert metrics.accepted <= metrics.drafted == sum(drafted for drafted, _ in metrics.by_source.values())
            assert metrics.output_tokens <= metrics.target_forwards + metrics.accepted
            if lookahead != "adaptive":
                assert sum(metrics.lookaheads) == metrics.drafted


def test_a_draft_that_is_right_takes_one_pass_for_a_whole_block() -> None:
    model = ToyModel()
    greedy = Guesser(lambda text, most: _greedy(model, text, most))
    output = generate(
        ToyModel(), [5, 6], max_new_tokens=12, eos_token_ids=[], speculation=Speculation(greedy, 3)
    ).result()
    assert output.token_ids == _greedy(model, [5, 6], 12)
    assert output.metrics.target_forwards == 3
    assert output.metrics.accepted == 9 == output.metrics.drafted
    assert output.metrics.accepted_per_verification == 3.0
    assert (output.metrics.wasted, output.metrics.fallback_rate) == (0, 0.0)
    assert output.metrics.forwards_per_token == 0.25


def _greedy(model: ToyModel, text: list[int], count: int) -> list[int]:
    text = list(text)
    for _ in range(count):
        text.append(int(model.after(text).argmax()))
    return text[len(text) - count :]


@pytest.mark.parametrize("boundary", range(10))
@pytest.mark.parametrize("block", [4, 8])
def test_free_text_may_become_constrained_anywhere_in_a_block(boundary: int, block: int) -> None:
    def ends_thinking(text: tuple[int, ...]) -> set[int]:
        if len(text) < boundary:
            return set(range(2, 11))
        if len(text) == boundary:
            return {END_THINK}
        return free_then_fixed(text)

    def run(speculation: Speculation | None) -> Any:
        return generate(
            ToyModel(), [5, 6], constraint=Automaton(ends_thinking), max_new_tokens=60, speculation=speculation
        ).result()

    plain = run(None)
    assert plain.token_ids.index(END_THINK) == boundary

    def guess(text: list[int], most: int) -> list[int]:
        """The rest of the text that will come, whatever the constraint says about it."""
        return plain.token_ids[len(text) - 2 :][:most]

    clever = run(Speculation(Guesser(guess), block))
    assert clever.token_ids == plain.token_ids
    assert clever.metrics.accepted == clever.metrics.drafted
    passes = plain.metrics.target_forwards
    assert clever.metrics.target_forwards <= -(-passes // (block + 1)) + 1
    assert run(Speculation(Guesser(noise(boundary)), block)).token_ids == plain.token_ids


def test_what_the_constraint_forbids_never_reaches_the_target() -> None:
    constraint, model = Automaton(free_then_fixed), ToyModel()
    guesser = Guesser(noise(1))
    output = generate(model, [5, 6], constraint=constraint, speculation=Speculation(guesser, 6)).result()
    assert any(taken < made for made, taken in guesser.frontiers)
    assert output.metrics.drafted == sum(taken for _, taken in guesser.frontiers)
    for text in model.texts:
        replay = Automaton(free_then_fixed)
        for token in text[2:]:
            replay.accept(token)


def test_constraint_and_sampler_stand_at_the_end_of_the_text_between_two_tokens() -> None:
    constraint = Automaton(free_then_fixed)
    stream = generate(
        ToyModel(), [5, 6], sampling=SAMPLINGS[3], constraint=constraint,
        speculation=Speculation(DraftModel(ToyModel(2), VOCAB), 5), max_new_tokens=40,
    )  # fmt: skip
    taken = []
    for token in stream:
        taken.append(token.token_id)
        assert constraint.text == taken
    assert stream.result().token_ids == taken


def test_a_cancelled_stream_has_committed_what_it_has_yielded_and_no_more() -> None:
    constraint, event = Automaton(free_then_fixed), threading.Event()
    plain = _run(None, SAMPLINGS[0], True)
    guesser = Guesser(lambda text, most: plain.token_ids[len(text) - 5 :][:most])
    stream = generate(
        ToyModel(), [5, 6, 7, 5, 6], constraint=constraint, cancel=event, speculation=Speculation(guesser, 8)
    )
    first = [next(stream).token_id for _ in range(3)]
    event.set()
    assert list(stream) == []
    output = stream.result()
    assert output.token_ids == first == constraint.text == guesser.closed
    assert output.finish_reason == "cancelled"
    assert output.metrics.target_forwards == 1


def test_a_stop_condition_in_the_middle_of_a_block_ends_the_text_there() -> None:
    plain = _run(None, SAMPLINGS[0], False, eos_token_ids=[])
    guesser = Guesser(lambda text, most: plain.token_ids[len(text) - 5 :][:most])
    found = _run(Speculation(guesser, 8), SAMPLINGS[0], False, eos_token_ids=[], stop=lambda tokens: len(tokens) == 4)
    assert (found.token_ids, found.finish_reason) == (plain.token_ids[:4], "stop")


def test_no_draft_is_longer_than_what_the_request_has_left() -> None:
    model, guesser = ToyModel(), Guesser(lambda text, most: [3] * most)
    output = generate(model, [5, 6], max_new_tokens=5, eos_token_ids=[], speculation=Speculation(guesser, 8)).result()
    assert len(output.token_ids) == 5
    assert max(map(len, model.calls)) <= 6
    assert (
        generate(ToyModel(), [5], max_new_tokens=1, speculation=Speculation(guesser, 8)).result().metrics.drafted == 0
    )


def test_end_tokens_are_not_guessed() -> None:
    guesser = Guesser(lambda text, most: [3, EOS, 3][:most])
    generate(ToyModel(), [5, 6], max_new_tokens=9, speculation=Speculation(guesser, 3)).result()
    assert max(taken for _, taken in guesser.frontiers) == 1


def test_a_constraint_that_cannot_go_back_is_not_speculated_on() -> None:
    class Plain:
        def __init__(self) -> None:
            self._inner = Automaton(free_then_fixed)
            self.fill_mask, self.accept = self._inner.fill_mask, self._inner.accept
            self.is_accepting, self.is_finished = self._inner.is_accepting, self._inner.is_finished

    output = generate(ToyModel(), [5], constraint=Plain(), speculation=Speculation(Guesser(noise(1)), 4)).result()
    assert output.metrics.drafted == 0
    assert output.token_ids == generate(ToyModel(), [5], constraint=Automaton(free_then_fixed)).result().token_ids


@pytest.mark.parametrize("policy", ["error", "eos", "relax"])
def test_a_row_that_nothing_can_be_drawn_from_is_dealt_with_when_its_turn_comes(policy: Any) -> None:
    class Speechless(ToyModel):
        def after(self, text: Any) -> torch.Tensor:
            logits = super().after(text).clone()
            if len(text) == 6:
                logits[3:10] = -torch.inf
            return logits

    def allowed(text: tuple[int, ...]) -> set[int]:
        return set(range(3, 10))

    def run(speculation: Speculation | None) -> tuple[list[int], Any]:
        stream = generate(
            Speechless(), [5, 6], sampling=Sampling(temperature=0, on_empty=policy), constraint=Automaton(allowed),
            max_new_tokens=8, speculation=speculation,
        )  # fmt: skip
        taken: list[int] = []
        try:
            taken.extend(token.token_id for token in stream)
            return taken, stream.result().fallbacks
        except EmptyRow as error:
            return taken, error.step

    for seed in range(4):
        assert run(Speculation(Guesser(noise(seed, lambda text: int(ToyModel().after(text).argmax()))), 6)) == run(None)


def test_where_one_token_is_allowed_no_draw_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.sampling.sampler import Sampler

    steps: list[int] = []
    sample = Sampler.sample
    monkeypatch.setattr(
        Sampler, "sample", lambda self, *a, **k: (steps.append(self.rows[0].step), sample(self, *a, **k))[1]
    )
    output = _run(Speculation(Forced(), 2), Sampling(seed=1, logprobs=1), True)
    fixed = output.token_ids.index(END_THINK)
    assert [step - fixed for step in steps if step > fixed] == [1, 4, 7, 10, 13]
    assert all(output.logprobs[at].logprob == 0.0 for at in range(fixed + 2, fixed + 16) if (at - fixed - 1) % 3)


class TestDrawnGuesses:
    """Guesses drawn from a distribution of their own: another text for a seed, the same distribution of texts."""

    @pytest.mark.parametrize("constrained", [False, True])
    @pytest.mark.parametrize("lookahead", [1, 3, "adaptive"])
    def test_texts_are_distributed_as_without(self, lookahead: Any, constrained: bool, assert_distributed: Any) -> None:
        sampling = {"temperature": 1.2, "top_k": 3, "frequency_penalty": 0.4, "presence_penalty": 0.2}
        trials, length = 300, 3

        def allowed(text: tuple[int, ...]) -> set[int]:
            return {2, 3, 4, 5} if not text or text[-1] % 2 else {3, 4, 5, 6, 7}

        def run(speculation: Speculation, seed: int) -> list[int]:
            constraint = Automaton(allowed) if constrained else None
            return generate(
                ToyModel(sharpness=0.7), [5, 6], sampling=Sampling(**sampling, seed=seed), constraint=constraint,
                max_new_tokens=length, eos_token_ids=[], speculation=speculation,
            ).result().token_ids  # fmt: skip

        proposer = DraftModel(ToyModel(2, sharpness=0.7), VOCAB, cost=0.01)
        counts: dict[tuple[int, ...], int] = {}
        for seed in range(trials):
            text = tuple(run(Speculation(proposer, lookahead), seed))
            counts[text] = counts.get(text, 0) + 1
        expected = _joint(ToyModel(sharpness=0.7), [5, 6], length, sampling, allowed if constrained else None)
        assert set(counts) <= set(expected)
        # Texts that are seldom share a cell, as Pearson's test wants it.
        common = [text for text, mass in expected.items() if mass * trials >= 5]
        found = [counts.get(text, 0) for text in common]
        masses = [expected[text] for text in common]
        assert_distributed(np.array([*found, trials - sum(found)]), np.array([*masses, 1 - sum(masses)]))

    def test_a_seed_gives_one_text(self) -> None:
        def run() -> list[int]:
            proposer = DraftModel(ToyModel(2), VOCAB)
            return _run(Speculation(proposer), Sampling(seed=8), True).token_ids

        assert run() == run()


def _joint(
    model: ToyModel, prompt: list[int], length: int, sampling: dict[str, Any], allowed: Any
) -> dict[tuple[int, ...], float]:
    """The distribution of texts drawn one token after the other, by going through all of them."""
    from engine.sampling import Sampler, SamplerRow

    texts: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(length):
        longer = {}
        for text, mass in texts.items():
            sampler = Sampler([SamplerRow(Sampling(**sampling, seed=1), prompt)], VOCAB)
            for token in text:
                sampler.commit([token])
            mask = None
            if allowed is not None:
                mask = np.array([[sum(1 << token for token in allowed(text))]], np.uint32)
            probs = sampler.probabilities(model.after([*prompt, *text]).unsqueeze(0), mask)[0].tolist()
            longer.update({(*text, token): mass * p for token, p in enumerate(probs) if p > 0})
        texts = longer
    return texts


@pytest.mark.parametrize("lookahead", [0, 16, True, "far", 1.5, None])
def test_a_lookahead_that_means_nothing_is_refused(lookahead: Any) -> None:
    with pytest.raises(EngineError, match="pass 'adaptive', 'heuristic' or a number of guesses, 1 to 15"):
        Speculation(NGram(), lookahead)


def test_a_proposer_of_states_needs_a_model_that_has_them() -> None:
    guesser = Guesser(noise(1), "mtp")
    guesser.wants_state = True
    with pytest.raises(EngineError, match="'mtp' needs hidden states, which ToyModel does not hand out"):
        generate(ToyModel(), [1], speculation=Speculation(guesser, 2))
