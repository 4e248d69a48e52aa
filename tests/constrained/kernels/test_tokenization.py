"""The shortest tokenisation against recursion over all tokens."""

from __future__ import annotations

from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from constrained.vocabulary import Vocabulary

WORDS = st.lists(st.text("ab\U0001f600", min_size=1, max_size=3).map(str.encode), min_size=1, max_size=8)


def fewest(tokens: list[bytes], data: bytes) -> int | None:
    @cache
    def below(at: int) -> int | None:
        if at == len(data):
            return 0
        found = [below(at + len(token)) for token in tokens if data.startswith(token, at)]
        counts = [count for count in found if count is not None]
        return 1 + min(counts) if counts else None

    return below(0)


@given(WORDS, st.lists(st.integers(0, 7), max_size=8), st.binary(max_size=1))
def test_a_tokenisation_has_the_fewest_tokens(words: list[bytes], picks: list[int], tail: bytes) -> None:
    data = b"".join(words[pick % len(words)] for pick in picks) + tail
    found = Vocabulary.from_token_bytes(words).shortest_tokenization(data)
    expected = fewest(words, data)
    assert (None if found is None else len(found)) == expected
    if found is not None:
        assert b"".join(words[token] for token in found) == data


def test_of_equally_short_ones_the_longest_first_token_is_taken() -> None:
    vocabulary = Vocabulary.from_token_bytes([b"a", b"ab", b"bc", b"c"])
    assert vocabulary.shortest_tokenization(b"abc") == [1, 3]
    assert vocabulary.shortest_tokenization(b"") == []
    assert vocabulary.shortest_tokenization(b"abd") is None
