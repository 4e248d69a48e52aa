"""Which tokens a piece of text is told with."""

from __future__ import annotations

from constrained import Vocabulary
from constrained.server.logprobs import UntoldTokens
from engine.sampling import TokenLogprob

TOKENS = [b"</th", b"ink>", b"{", b'"a', b'": ', "é".encode()[:1], "é".encode()[1:], b"}\n", None]


def _untold(*tokens: int) -> UntoldTokens:
    found = UntoldTokens(Vocabulary.from_token_bytes(TOKENS, eos_token_ids=[8]))
    for token in tokens:
        found.add(TokenLogprob(token, -float(token), ()))
    return found


def _ids(entries: list[dict[str, object]]) -> list[float]:
    return [-float(str(entry["logprob"])) for entry in entries]


def test_tokens_of_a_mark_before_the_text_are_not_told() -> None:
    assert _ids(_untold(0, 1, 8, 2, 3).told('{"a')) == [2, 3]


def test_what_is_held_back_is_told_later_and_a_token_in_two_pieces_once() -> None:
    untold = _untold(2, 3, 4)
    assert untold.told("") == []
    assert _ids(untold.told('{"')) == [2, 3]
    assert _ids(untold.told('a"')) == [4]
    untold.add(TokenLogprob(7, -7.0, ()))
    assert _ids(untold.told(": }")) == [7]
    assert _ids(untold.told("\n")) == []


def test_tokens_that_spell_one_character_are_told_together() -> None:
    assert _ids(_untold(5, 6).told("é")) == [5, 6]
    assert _ids(_untold(5).told("\ufffd")) == [5]
