"""Beams find what brute force finds, and never the same text twice."""

from __future__ import annotations

import threading
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from engine import Sampling
from engine.beams import beam_search
from engine.errors import EngineError
from engine.model import Model
from engine.sampling import EmptyRow, SamplingError

PROMPT = [5, 9, 11]
LETTERS = (20, 21, 22)
END = 2


class Words:
    """Texts of `LETTERS` of a length from `least` to `most`, then the end."""

    def __init__(self, least: int = 1, most: int = 3, banned: frozenset[tuple[int, ...]] = frozenset()) -> None:
        self.least, self.most, self.banned = least, most, banned
        self.text: tuple[int, ...] = ()
        self.ended = False

    def fork(self) -> Words:
        other = Words(self.least, self.most, self.banned)
        other.text, other.ended = self.text, self.ended
        return other

    def fill_mask(self, row: Any) -> None:
        row[:] = 0
        allowed = [END] if self.is_accepting() else []
        if len(self.text) < self.most:
            allowed += [letter for letter in LETTERS if (*self.text, letter) not in self.banned]
        for token in allowed:
            row[token // 32] |= np.uint32(1 << token % 32)

    def accept(self, token: int) -> None:
        if token == END:
            self.ended = True
        else:
            self.text += (token,)

    def is_accepting(self) -> bool:
        return len(self.text) >= self.least

    def is_finished(self) -> bool:
        return self.ended


def _logprob(model: Model, tokens: tuple[int, ...]) -> float:
    """Of a text and its end, without a cache."""
    ids = [*PROMPT, *tokens, END]
    rows = model.forward(torch.tensor([ids]), logits="all")[0].double().log_softmax(-1)
    return sum(float(rows[at - 1, ids[at]]) for at in range(len(PROMPT), len(ids)))


def _everything(model: Model, length_penalty: float) -> list[tuple[float, tuple[int, ...]]]:
    """All texts of one to three letters, best score first."""
    texts = [text for length in range(1, 4) for text in product(LETTERS, repeat=length)]
    scored = [(_logprob(model, text) / (len(text) + 1) ** length_penalty, text) for text in texts]
    return sorted(scored, reverse=True)


@pytest.mark.parametrize("length_penalty", [0.0, 1.0, 2.5, -1.0])
def test_a_wide_search_finds_the_best_of_all_texts(random_model: Model, length_penalty: float) -> None:
    expected = _everything(random_model, length_penalty)
    found = beam_search(
        random_model, PROMPT, beams=64, length_penalty=length_penalty, constraint=Words(), max_new_tokens=4
    )
    assert len(found.beams) == len(expected) == 39
    for beam, (score, text) in zip(found.beams, expected, strict=True):
        assert beam.token_ids == text and beam.finish_reason == "stop"
        assert beam.score == pytest.approx(score, rel=1e-3)
        assert beam.logprob == pytest.approx(_logprob(random_model, text), rel=1e-3)


@pytest.mark.parametrize("beams", [1, 2, 4, 9, 27])
def test_more_beams_never_end_with_less(random_model: Model, beams: int) -> None:
    found = beam_search(random_model, PROMPT, beams=beams, constraint=Words(), max_new_tokens=4)
    wider = beam_search(random_model, PROMPT, beams=64, constraint=Words(), max_new_tokens=4)
    assert len({beam.token_ids for beam in found.beams}) == len(found.beams) == beams
    assert [beam.score for beam in found.beams] == sorted((beam.score for beam in found.beams), reverse=True)
    assert found.beams[0].score <= wider.beams[0].score + 1e-6
    if beams >= 27:
        assert found.beams[0].token_ids == wider.beams[0].token_ids


def test_a_text_with_several_ends_is_one_text(random_model: Model) -> None:
    class TwoEnds(Words):
        def fill_mask(self, row: Any) -> None:
            super().fill_mask(row)
            if self.is_accepting():
                row[0] |= np.uint32(1 << 3)

        def accept(self, token: int) -> None:
            super().accept(END if token == 3 else token)

        def fork(self) -> TwoEnds:
            other = TwoEnds(self.least, self.most)
            other.text, other.ended = self.text, self.ended
            return other

    found = beam_search(
        random_model, PROMPT, beams=12, constraint=TwoEnds(most=2), max_new_tokens=3, eos_token_ids=[END, 3]
    )
    assert len(found.beams) == 12 == len({beam.token_ids for beam in found.beams})


def test_a_constraint_that_forbids_the_best_leaves_the_next_with_the_same_probability(random_model: Model) -> None:
    expected = _everything(random_model, 1.0)
    forbidden = frozenset({expected[0][1][:1]})
    found = beam_search(random_model, PROMPT, beams=64, constraint=Words(banned=forbidden), max_new_tokens=4)
    left = [(score, text) for score, text in expected if text[:1] not in forbidden]
    assert [beam.token_ids for beam in found.beams[:5]] == [text for _, text in left[:5]]
    assert found.beams[0].score == pytest.approx(left[0][0], rel=1e-3)


def test_bans_and_penalties_hold_in_every_beam(random_model: Model) -> None:
    banned = beam_search(
        random_model, PROMPT, beams=8, constraint=Words(), max_new_tokens=4, sampling=Sampling(banned_tokens=[20])
    )
    assert all(20 not in beam.token_ids for beam in banned.beams)
    once = beam_search(
        random_model, PROMPT, beams=8, constraint=Words(least=3, most=3), max_new_tokens=4,
        sampling=Sampling(no_repeat_ngram=1),
    )  # fmt: skip
    assert all(len(set(beam.token_ids)) == 3 for beam in once.beams) and len(once.beams) == 6
    biased = beam_search(
        random_model, PROMPT, beams=4, constraint=Words(), max_new_tokens=4, sampling=Sampling(logit_bias={21: 30.0})
    )
    assert set(biased.beams[0].token_ids) == {21}


def test_free_beams_end_at_their_length_and_give_their_blocks_back(
    random_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    caches: list[Any] = []
    new_cache = random_model.new_cache
    monkeypatch.setattr(random_model, "new_cache", lambda *a, **o: caches.append(new_cache(*a, **o)) or caches[-1])
    found = beam_search(random_model, PROMPT, beams=5, max_new_tokens=20, eos_token_ids=[])
    assert {beam.finish_reason for beam in found.beams} == {"length"}
    assert {len(beam.token_ids) for beam in found.beams} == {20} and len(found.beams) == 5
    assert caches[0].pool.manager.used == 0
    assert found.metrics.output_tokens == found.metrics.target_forwards == 20
    rows = random_model.forward(torch.tensor([[*PROMPT, *found.beams[0].token_ids]]), logits="all")[0].log_softmax(-1)
    total = sum(float(rows[len(PROMPT) - 1 + at, token]) for at, token in enumerate(found.beams[0].token_ids))
    assert found.beams[0].logprob == pytest.approx(total, rel=1e-3)


def test_a_search_can_be_cancelled(random_model: Model) -> None:
    cancel = threading.Event()
    cancel.set()
    found = beam_search(random_model, PROMPT, beams=3, max_new_tokens=9, cancel=cancel)
    assert [(beam.token_ids, beam.finish_reason) for beam in found.beams] == [((), "cancelled")]


def test_what_makes_no_sense_is_refused(random_model: Model) -> None:
    with pytest.raises(EngineError, match="beams=0: choose 1 to 64"):
        beam_search(random_model, PROMPT, beams=0)
    with pytest.raises(SamplingError, match="beam search draws nothing"):
        beam_search(random_model, PROMPT, sampling=Sampling(top_k=5), max_new_tokens=3)

    class Rigid(Words):
        fork = None  # type: ignore[assignment]

    with pytest.raises(EngineError, match=r"Rigid has no fork\(\)"):
        beam_search(random_model, PROMPT, constraint=Rigid(), max_new_tokens=3)
    with pytest.raises(EmptyRow, match="no beam has a token"):
        beam_search(
            random_model, PROMPT, constraint=Words(), sampling=Sampling(banned_tokens=LETTERS), max_new_tokens=3
        )
