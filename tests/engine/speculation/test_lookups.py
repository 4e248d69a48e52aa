from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import Sampling
from engine.model import Model
from engine.sampling.sampler import Sampler
from engine.sequence import SequenceState
from engine.speculation import Combined, Forced, Frontier, NGram, Suffix
from engine.speculation.draft import MOST_FORCED
from engine.speculation.names import fold_spaces, make_proposer, same_tokens
from engine.speculation.suffix import NO_MATCH, SuffixAutomaton
from tests.engine.speculation.toys import END_THINK, EOS, VOCAB, Automaton, Guesser, free_then_fixed

Tokens = st.lists(st.integers(2, 5), max_size=24)


def _frontier(prompt: list[int], output: list[int] = [], room: int = 20, allowed: Any = None) -> Frontier:  # noqa: B006
    constraint = None if allowed is None else Automaton(allowed)
    sequence = SequenceState(
        prompt, Sampling(temperature=0), VOCAB, constraint=constraint, max_new_tokens=100, eos_token_ids=[EOS]
    )
    for token in output:
        sequence.row.history.append(token)
        if constraint is not None:
            constraint.accept(token)
    sequence.settle()
    return Frontier(sequence, lambda: Sampler([sequence.row], VOCAB), room)


def _guesses(proposer: Any, prompt: list[int], output: list[int] = [], most: int = 4, **options: Any) -> list[int]:  # noqa: B006
    frontier = _frontier(prompt, output, **options)
    proposer.begin(prompt).propose(frontier, most)
    frontier.close()
    return [drafted.token_id for drafted in frontier.draft]


class TestNGram:
    def test_the_longest_match_counts_and_of_these_the_last(self) -> None:
        assert _guesses(NGram(), [2, 3, 4, 5, 9, 3, 4, 6, 7, 8, 3, 4]) == [6, 7, 8, 3]
        assert _guesses(NGram(), [2, 3, 4, 5, 9, 3, 4, 6, 7, 8, 2, 3, 4]) == [5, 9, 3, 4]

    def test_one_token_is_no_match_unless_tokens_are_folded(self) -> None:
        assert _guesses(NGram(), [3, 4, 5, 3]) == []
        assert _guesses(NGram(fold=lambda token: token), [3, 4, 5, 3]) == [4, 5, 3, 4]

    def test_the_first_token_of_a_match_may_be_folded(self) -> None:
        def fold(token: int) -> int | None:
            return None if token == 9 else token % 4

        assert _guesses(NGram(fold=fold), [6, 4, 5, 8, 2]) == [4, 5, 8, 2]
        assert _guesses(NGram(fold=fold), [6, 4, 5, 8, 2, 4]) == [5, 8, 2, 4]
        assert _guesses(NGram(fold=fold), [6, 4, 5, 8, 2, 8]) == [
            2,
            8,
            2,
            8,
        ]  # 8 itself, since 4 and 8 are folded alike

    def test_a_repetition_goes_on(self) -> None:
        assert _guesses(NGram(), [2, 3, 2, 3, 2, 3], most=5) == [2, 3, 2, 3, 2]

    @given(Tokens, st.integers(1, 5))
    def test_it_is_what_a_search_from_the_end_finds(self, text: list[int], most: int) -> None:
        expected: list[int] = []
        for size in (4, 3, 2):
            ends = [end for end in range(size, len(text)) if text[end - size : end] == text[len(text) - size :]]
            if len(text) > size and ends:
                period = text[ends[-1] :]
                expected = [period[at % len(period)] for at in range(most)]
                break
        assert _guesses(NGram(), text or [2], most=most) == (expected if text else [])

    @given(Tokens, Tokens)
    def test_an_index_that_grows_with_the_text_finds_the_same(self, prompt: list[int], output: list[int]) -> None:
        drafter = NGram().begin([2, *prompt])
        for length in range(len(output) + 1):
            frontier = _frontier([2, *prompt], output[:length])
            drafter.propose(frontier, 4)
            assert [one.token_id for one in frontier.draft] == _guesses(NGram(), [2, *prompt], output[:length])


class TestSuffixAutomaton:
    @given(Tokens)
    def test_the_repeated_suffix_is_the_longest_that_stands_earlier(self, text: list[int]) -> None:
        automaton = SuffixAutomaton()
        for length, token in enumerate(text, 1):
            automaton.extend(token)
            state, found = automaton.repeated()
            part = text[:length]
            longest = max(
                (size for size in range(length) for end in range(size, length) if part[end - size : end] == part[length - size :]),
                default=0,
            )  # fmt: skip
            assert found == longest
            if found:
                end = automaton.end(state)
                assert end < length
                assert part[end - found : end] == part[length - found :]
            automaton.note_end()

    @given(Tokens, Tokens, st.integers(0, 24))
    def test_a_match_is_followed_while_the_automaton_grows(self, corpus: list[int], text: list[int], cut: int) -> None:
        automaton = SuffixAutomaton()
        for token in corpus[:cut]:
            automaton.extend(token)
        match = NO_MATCH
        half = len(text) // 2
        for token in text[:half]:
            match = automaton.step(match, token)
        for token in corpus[cut:]:
            automaton.extend(token)
        for token in text[half:]:
            match = automaton.step(match, token)
        state, length = match
        assert length <= len(text)
        end = automaton.end(state)
        assert length == 0 or corpus[end - length : end] == text[len(text) - length :]
        if cut >= len(corpus):
            longest = max(size for size in range(len(text) + 1) if _contains(corpus, text[len(text) - size :]))
            assert length == longest


def _contains(corpus: list[int], part: list[int]) -> bool:
    return any(corpus[at : at + len(part)] == part for at in range(len(corpus) - len(part) + 1))


class TestSuffix:
    def test_it_looks_in_the_text_itself(self) -> None:
        assert _guesses(Suffix(), [2, 3, 4, 5, 9, 2, 3, 4]) == [5, 9, 2, 3]
        assert _guesses(Suffix(), [2, 3, 4, 5, 9, 4]) == []
        assert _guesses(Suffix(shortest=1), [2, 3, 4, 5, 9, 4]) == [5, 9, 4]

    def test_it_looks_in_the_outputs_of_the_group(self) -> None:
        proposer = Suffix()
        proposer.begin([2], "g").close([6, 7, 8, 9, 10, 3])
        proposer.begin([2], "h").close([6, 7, 5, 5, 5])
        frontier = _frontier([2, 3], [6, 7])
        proposer.begin([2, 3], "g").propose(frontier, 3)
        assert [one.token_id for one in frontier.draft] == [8, 9, 10]
        assert frontier.draft[0].source == "suffix2"
        assert _guesses(proposer, [2, 3], [6, 7]) == []

    def test_it_does_not_go_from_one_output_into_the_next(self) -> None:
        proposer = Suffix()
        for output in ([6, 7, 8], [9, 10, 6]):
            proposer.begin([2], "g").close(output)
        frontier = _frontier([2, 3], [6, 7])
        proposer.begin([2, 3], "g").propose(frontier, 5)
        assert [one.token_id for one in frontier.draft] == [8]

    def test_what_it_keeps_is_bounded(self) -> None:
        proposer = Suffix(kept=50, groups=3)
        for at in range(20):
            proposer.learn(at % 5, [3] * 30)
        assert len(proposer._of_group) == 3
        assert max(len(automaton.tokens) for automaton in proposer._of_group.values()) <= 51


class TestForced:
    def test_it_proposes_what_the_grammar_dictates_whatever_the_limit_of_guesses(self) -> None:
        thoughts = [2, 3, END_THINK]
        assert _guesses(Forced(), [5], [*thoughts, 4], most=0, allowed=free_then_fixed) == [9, 9]
        assert _guesses(Forced(), [5], [*thoughts, 4], room=1, allowed=free_then_fixed) == [9]
        assert _guesses(Forced(), [5], thoughts, allowed=free_then_fixed) == []
        assert _guesses(Forced(), [5]) == []

    def test_a_block_has_an_end(self) -> None:
        assert len(_guesses(Forced(), [5], room=500, allowed=lambda text: {3})) == 20  # what the toy hands out
        assert _frontier([5], room=500).room == MOST_FORCED


class TestCombined:
    def test_each_goes_on_where_the_others_end(self) -> None:
        pick = Guesser(lambda tokens, most: [4] if tokens[-1] in (9, END_THINK) else [])
        combined = Combined([Forced(), pick])
        assert _guesses(combined, [5], [2, END_THINK], most=3, allowed=free_then_fixed) == [4, 9, 9, 4, 9, 9, 4, 9, 9]
        assert (combined.name, combined.cost, combined.draws) == ("forced+guesser", 0.0, False)

    def test_the_first_that_has_something_is_heard_first(self) -> None:
        one = Guesser(lambda tokens, most: [3], "one")
        two = Guesser(lambda tokens, most: [4], "two")
        frontier = _frontier([5])
        Combined([one, two]).begin([5]).propose(frontier, 3)
        assert [drafted.source for drafted in frontier.draft] == ["one", "two", "one"]


class TestFrontier:
    def test_the_constraint_is_back_at_the_text_after_closing(self) -> None:
        constraint = Automaton(free_then_fixed)
        sequence = SequenceState([5], Sampling(seed=1), VOCAB, constraint=constraint, max_new_tokens=50)
        sequence.settle()
        frontier = Frontier(sequence, lambda: Sampler([sequence.row], VOCAB), 20)
        assert frontier.extend([2, 3, END_THINK, 7, 4], "a") == 3
        assert frontier.forced_tokens() == []
        assert frontier.extend([4], "b") == 1
        assert frontier.forced_tokens() == [9, 9]
        assert len(frontier.rows) == 5
        frontier.close()
        assert constraint.text == []
        assert sequence.row.history.tokens == [5]
        assert frontier.tokens == [5, 2, 3, END_THINK, 4]
        assert (frontier.length, frontier.guessed, frontier.room) == (1, 4, 16)

    def test_a_limit_that_the_constraint_meets_ahead_ends_the_draft_and_not_the_text(self) -> None:
        class Limited(Automaton):
            broken = False

            def masks_ahead(self, tokens: Any, rows: Any) -> None:
                if tokens or self.broken:
                    raise RuntimeError("too deep")

        constraint = Limited(free_then_fixed)
        sequence = SequenceState([5], Sampling(seed=1), VOCAB, constraint=constraint, max_new_tokens=9)
        sequence.settle()
        frontier = Frontier(sequence, lambda: Sampler([sequence.row], VOCAB), 20)
        assert frontier.extend([2, 3], "a") == 0
        constraint.broken = True
        with pytest.raises(RuntimeError, match="too deep"):
            frontier.extend([2, 3], "a")

    def test_end_tokens_and_what_is_behind_them_are_left_out(self) -> None:
        assert _frontier([5]).extend([3, EOS, 4], "a") == 1


def test_proposers_are_made_by_name_for_a_model(random_model: Model) -> None:
    assert make_proposer("none", random_model) is None
    auto = make_proposer("auto", random_model)
    assert isinstance(auto, Combined) and auto.name == "forced+ngram"
    exit_proposer = make_proposer("early_exit", random_model)
    assert exit_proposer is not None and exit_proposer.layers == 1  # type: ignore[attr-defined]
    draft = make_proposer("forced+draft", random_model, random_model.with_layers([0]))
    assert draft is not None and 0 < draft.cost < 1 and draft.draws
    with_draft = make_proposer("auto", random_model, random_model.with_layers([0]))
    assert with_draft is not None and with_draft.name == "forced+ngram+draft"
    assert same_tokens(None, None)


def test_words_with_and_without_a_space_are_folded() -> None:
    class Words:
        pieces = (b" Ada", b"Ada", b"  Ada", b'"', b' "', b" ", b"\xc3", b" 7", b"7", b"")

        def token_bytes(self, token: int) -> bytes:
            return self.pieces[token]

    fold = fold_spaces(Words())  # type: ignore[arg-type]
    assert [fold(token) for token in range(10)] == [0, 0, 0, None, None, None, 6, 7, 7, None]


def test_the_toy_constraint_is_what_the_protocol_says() -> None:
    automaton = Automaton(free_then_fixed)
    rows = np.zeros((4, 1), np.uint32)
    automaton.masks_ahead([2, END_THINK, 7], rows)
    assert automaton.text == [] and rows[2, 0] == 0b111000 and rows[3, 0] == 0
    with pytest.raises(AssertionError):
        automaton.accept(EOS)
