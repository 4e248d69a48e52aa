"""Text that a constraint dictates is spelled as the tokenizer does, unless the request leaves that to the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import Sampling, generate
from engine.batching import BatchEngine
from engine.model import Model
from engine.sampling import GREEDY
from engine.sampling.errors import SamplingError
from engine.speculation import Speculation
from engine.speculation.lookups import Forced
from tests.engine.speculation.toys import EOS, VOCAB, Stepwise, ToyModel

A, B, AB, ABA, OTHER = 3, 4, 5, 6, 7
SPELLED = {A: "a", B: "b", AB: "ab", ABA: "aba"}
DICTATED = "ababab"


class Dictates(Stepwise):
    """Once or twice: `ababab`, in whatever tokens, and then any one of two tokens; then the end.

    Its tokenizer writes `ab ab ab`, or `b ab ab` from the middle on.
    """

    def __init__(self, times: int = 1, size: int = VOCAB, end: int = EOS) -> None:
        super().__init__(size, end)
        self.times, self.asked = times, 0

    def _left(self) -> str | None:
        """What is left to dictate; None behind it all."""
        text = "".join(SPELLED.get(token, "-") for token in self.text)
        done = text.count("-")
        return None if done == self.times else DICTATED[len(text.rpartition("-")[2]) :]

    def next_tokens(self) -> set[int]:
        if self.is_finished():
            return set()
        left = self._left()
        if left is None:
            return {self.end}
        return {token for token, text in SPELLED.items() if left.startswith(text)} or {OTHER, OTHER + 1}

    def forced_tokens(self) -> list[int]:
        self.asked += 1
        left = self._left() or ""
        return [B] * left.startswith("b") + [AB] * (len(left) // 2)


def likes(*tokens: int) -> ToyModel:
    model = ToyModel(seed=3)
    model.table[:, :, list(tokens)] += 50
    return model


def text(model: Any, constraint: Any, **sampling: Any) -> list[int]:
    greedy = {"temperature": 0.0, **sampling}
    return generate(model, [1, 2], constraint=constraint, sampling=Sampling(**greedy)).result().token_ids


def test_the_tokenizer_spells_whatever_the_model_likes() -> None:
    assert text(likes(ABA, B), Dictates())[:3] == [AB, AB, AB]


def test_the_model_spells_if_it_is_asked_to() -> None:
    assert text(likes(ABA), Dictates(), spelling="any")[0] == ABA


def test_a_dictated_text_is_spelled_once_and_then_gone_through() -> None:
    constraint = Dictates(times=2)
    assert len(text(likes(ABA), constraint)) == 8
    assert constraint.asked <= 4  # twice at its beginnings, and where nothing is dictated


@pytest.mark.parametrize("rule", [{"banned_tokens": [AB]}, {"logit_bias": {AB: -np.inf}}])
def test_a_token_that_is_forbidden_is_spelled_in_another_way(rule: dict[str, Any]) -> None:
    out = generate(likes(ABA), [1, 2], constraint=Dictates(), sampling=Sampling(temperature=0.0, **rule)).result()
    assert AB not in out.token_ids
    assert "".join(SPELLED.get(token, "") for token in out.token_ids) == DICTATED
    assert not out.fallbacks


class NoRoom(Dictates):
    """Its mask leaves the tokenizer's token out, as near the end of a budget."""

    def next_tokens(self) -> set[int]:
        allowed = super().next_tokens()
        return allowed - {AB} if len(allowed) > 1 else allowed


def test_a_spelling_that_the_mask_has_no_room_for_is_not_taken() -> None:
    out = text(likes(ABA), NoRoom())
    assert out[0] == ABA
    assert "".join(SPELLED.get(token, "") for token in out) == DICTATED


def test_logprobs_of_what_is_dictated_are_those_of_certainty() -> None:
    out = generate(likes(ABA), [1, 2], constraint=Dictates(), sampling=Sampling(seed=1, logprobs=1)).result()
    assert [one.logprob for one in out.logprobs[:3]] == [0.0, 0.0, 0.0]
    assert out.logprobs[3].token_id == out.token_ids[3]


@given(st.integers(0, 500), st.sampled_from([0.0, 1.0]), st.sampled_from(["canonical", "any"]))
def test_jumping_ahead_gives_the_text_of_going_step_by_step(seed: int, temperature: float, spelling: Any) -> None:
    sampling = Sampling(temperature=temperature, seed=seed, spelling=spelling)

    def run(speculation: Speculation | None) -> tuple[list[int], int]:
        model = ToyModel(seed)
        out = generate(model, [1, 2], constraint=Dictates(2), sampling=sampling, speculation=speculation).result()
        return out.token_ids, len(model.calls)

    alone, steps = run(None)
    ahead, fewer = run(Speculation(Forced(), 8))
    assert ahead == alone
    if spelling == "canonical":
        assert (steps, fewer) == (8, 2)


class Fails(Dictates):
    def forced_tokens(self) -> list[int]:
        raise RuntimeError("no more memory")


def test_requests_of_a_batch_are_spelled_as_alone_and_one_that_fails_ends_no_other(random_model: Model) -> None:
    def constraint(kind: type[Dictates] = Dictates) -> Dictates:
        return kind(2, random_model.config.vocab_size, 2)

    samplings = [GREEDY, Sampling(seed=5), Sampling(seed=6, spelling="any"), GREEDY]
    engine = BatchEngine(random_model, blocks=40, block_size=4)
    requests = [
        engine.add(
            [9, at],
            sampling=how,
            constraint=constraint(Fails if at == 3 else Dictates),
            max_new_tokens=40,
            eos_token_ids=[2],
        )
        for at, how in enumerate(samplings)
    ]
    engine.run()
    for at, how in enumerate(samplings[:3]):
        alone = generate(
            random_model, [9, at], sampling=how, constraint=constraint(), max_new_tokens=40, eos_token_ids=[2]
        ).result()
        assert requests[at].output().token_ids == alone.token_ids
        assert (alone.token_ids[:3] == [AB] * 3) is (at < 2)
    with pytest.raises(RuntimeError, match="no more memory"):
        requests[3].output()


def test_another_name_for_a_spelling_is_refused() -> None:
    with pytest.raises(SamplingError, match="spelling='tokenizer' is not one of 'canonical', 'any'"):
        Sampling(spelling="tokenizer")  # type: ignore[arg-type]
