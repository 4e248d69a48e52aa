"""The automaton of phrases against looking for them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrained.automata.phrases.follower import DEAD, Follower
from constrained.errors import LimitExceeded

PHRASE = st.text("abé", min_size=1, max_size=4)


@given(st.lists(PHRASE, max_size=3), st.lists(PHRASE, max_size=3), st.text("abéc", max_size=12))
def test_what_it_says_after_a_text_is_what_is_in_the_text(required: list[str], banned: list[str], text: str) -> None:
    follower = Follower(required, banned)
    data = text.encode()
    state = follower.after(follower.start, data)
    if any(phrase in text for phrase in banned):
        assert state == DEAD
        return
    assert follower.is_final(state) == all(phrase in text for phrase in required)
    assert follower.is_final(state) == (follower.distance(state) == 0)
    assert follower.root(state) == follower.root(follower.after(state, b"\x00"))
    for bits, after in follower.split(state):
        assert all(follower.moves(state)[byte] == after for byte in range(256) if bits >> byte & 1)


def test_a_text_with_all_that_is_required_is_as_good_as_any_other() -> None:
    follower = Follower(["abc", "bcd"], [])
    assert follower.after(follower.start, b"abcd") == follower.after(follower.start, b"xbcdabc")
    assert follower.distance(follower.after(follower.start, b"xab")) == 2
    assert follower.distance(follower.after(follower.start, b"abcx")) == 3


@given(st.lists(PHRASE, max_size=3), st.lists(PHRASE, max_size=2), st.text("abc", max_size=8))
def test_the_states_of_texts_that_end_in_a_byte_are_listed(required: list[str], banned: list[str], text: str) -> None:
    follower = Follower(required, banned)
    state = follower.after(follower.start, (text + "a").encode())
    listed = follower.ends(frozenset(b"a"), 1000)
    assert listed is not None
    assert state in {DEAD, *listed}


def test_phrases_are_bounded_in_size() -> None:
    with pytest.raises(LimitExceeded, match="2,000 bytes each"):
        Follower(["x" * 2001], [])
    with pytest.raises(LimitExceeded, match="20,000 together"):
        Follower([], [f"{number}{'y' * 100}" for number in range(200)])
