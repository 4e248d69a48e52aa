"""Log-probabilities as OpenAI writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from constrained.vocabulary import Vocabulary
from engine.sampling import TokenLogprob

_LEAST = -9999.0


def chat_logprobs(vocabulary: Vocabulary, tokens: Sequence[TokenLogprob]) -> dict[str, Any]:
    """The `logprobs` of a chat choice: every token of the output, in its order, marks and thoughts among them."""
    return {"content": logprob_entries(vocabulary, tokens), "refusal": None}


def logprob_entries(vocabulary: Vocabulary, tokens: Sequence[TokenLogprob]) -> list[dict[str, Any]]:
    """What is told of each token."""
    return [
        {
            **_entry(vocabulary, token.token_id, token.logprob),
            "top_logprobs": [_entry(vocabulary, other, logprob) for other, logprob in token.top],
        }
        for token in tokens
    ]


class UntoldTokens:
    """Tokens whose text has not been told yet: a reader may hold it back, and takes marks out of it."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._tokens: list[tuple[TokenLogprob | None, bytes]] = []

    def add(self, token: TokenLogprob) -> None:
        """The next token of the output."""
        self._tokens.append((token, self._vocabulary.token_bytes(token.token_id) or b""))

    def clear(self) -> None:
        """They spell no content."""
        self._tokens.clear()

    def told(self, text: str) -> list[dict[str, Any]]:
        """What is told of those that spell `text`, each once, with its first character; those before it spell something else."""
        if not text:
            return []
        spelled = text.encode("utf-8", "replace")
        joined = b"".join(one for _, one in self._tokens)
        begin = joined.rfind(spelled)
        if begin < 0:  # an unfinished character was replaced
            begin, spelled = 0, joined
        end, at = begin + len(spelled), 0
        found: list[TokenLogprob] = []
        left: list[tuple[TokenLogprob | None, bytes]] = []
        for token, own in self._tokens:
            stop = at + len(own)
            if token is not None and at < end and stop > begin:
                found.append(token)
            if stop > end:
                left.append((token if at >= end else None, own[max(0, end - at) :]))
            at = stop
        self._tokens = left
        return logprob_entries(self._vocabulary, found)


def completion_logprobs(vocabulary: Vocabulary, tokens: Sequence[tuple[TokenLogprob, int]]) -> dict[str, Any]:
    """The `logprobs` of a text completion, each token with the number of characters that were told before it."""
    return {
        "tokens": [token_text(vocabulary, token.token_id) for token, _ in tokens],
        "token_logprobs": [_bounded(token.logprob) for token, _ in tokens],
        "top_logprobs": [
            {token_text(vocabulary, other): _bounded(logprob) for other, logprob in token.top} for token, _ in tokens
        ],
        "text_offset": [offset for _, offset in tokens],
    }


def token_text(vocabulary: Vocabulary, token: int) -> str:
    """What a token spells; bytes of an unfinished character as U+FFFD."""
    spelled = vocabulary.token_bytes(token)
    return "" if spelled is None else spelled.decode("utf-8", "replace")


def _entry(vocabulary: Vocabulary, token: int, logprob: float) -> dict[str, Any]:
    spelled = vocabulary.token_bytes(token)
    return {
        "token": token_text(vocabulary, token),
        "logprob": _bounded(logprob),
        "bytes": None if spelled is None else list(spelled),
    }


def _bounded(logprob: float) -> float:
    """JSON has no infinity."""
    return max(logprob, _LEAST)
