"""Beams at the front door."""

from __future__ import annotations

import re

import pytest
from pydantic import BaseModel, Field

from constrained import LLM, BudgetError, Choice, Regex, Sampling
from engine.sampling import SamplingError
from grammars import Phrases


class Pair(BaseModel):
    a: int = Field(ge=0, le=99)
    b: bool


def test_the_best_choice_is_the_one_that_brute_force_finds(random_llm: LLM) -> None:
    words = ["ab", "abc", "b", "xyz", "xa", "c"]
    found = random_llm.beam_search("go", Choice(words), beams=8, length_penalty=0.0, max_tokens=8)
    assert sorted(generation.text for generation in found) == sorted(words)
    scores = {
        word: random_llm.beam_search("go", Choice([word]), beams=1, length_penalty=0.0, max_tokens=8)[0].score
        for word in words
    }
    assert [generation.text for generation in found] == sorted(words, key=lambda word: -(scores[word] or 0.0))
    for generation in found:
        assert generation.score == pytest.approx(scores[generation.text], rel=1e-4)
        assert generation.finish_reason == "stop" and generation.seed is None


def test_every_beam_is_an_instance_and_no_two_are_alike(random_llm: LLM) -> None:
    found = random_llm.beam_search("go", Pair, beams=6, max_tokens=40)
    assert len(found) == 6 == len({generation.text for generation in found})
    assert all(isinstance(generation.parsed, Pair) for generation in found)
    scores = [generation.score or 0.0 for generation in found]
    assert scores == sorted(scores, reverse=True)


def test_required_and_banned_phrases_hold_in_every_beam(random_llm: LLM) -> None:
    grammar = Phrases(required=["abc"], banned=["bb", "ca"], within=Regex("[abc]{3,8}"))
    found = random_llm.beam_search("go", grammar, beams=5, max_tokens=20)
    assert found
    for generation in found:
        assert re.fullmatch("[abc]{3,8}", generation.text)
        assert "abc" in generation.text and "bb" not in generation.text and "ca" not in generation.text


def test_what_cannot_be_is_refused(random_llm: LLM) -> None:
    with pytest.raises(BudgetError):
        random_llm.beam_search("go", Pair, max_tokens=4)
    with pytest.raises(SamplingError, match="beam search draws nothing"):
        random_llm.beam_search("go", Pair, sampling=Sampling(temperature=0.7), max_tokens=40)
