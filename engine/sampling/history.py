"""The tokens of one sequence, and which of them would repeat an n-gram."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy


class History:
    """Prompt and output tokens; keeps an index of n-grams where the n-gram rule is on.

    Attributes:
        tokens: prompt, then output.
        prompt_length: how many of them are the prompt's.
    """

    def __init__(self, prompt: Iterable[int] = (), ngram: int = 0) -> None:
        self.tokens: list[int] = []
        self._ngram = ngram
        self._followers: dict[tuple[int, ...], list[int]] = {}
        for token in prompt:
            self.append(int(token))
        self.prompt_length = len(self.tokens)

    @property
    def output(self) -> list[int]:
        """The tokens after the prompt (a copy)."""
        return self.tokens[self.prompt_length :]

    @property
    def output_length(self) -> int:
        return len(self.tokens) - self.prompt_length

    def append(self, token: int) -> None:
        if self._ngram and len(self.tokens) >= self._ngram - 1:
            self._followers.setdefault(self._context(), []).append(token)
        self.tokens.append(token)

    def fork(self) -> History:
        """A copy that goes its own way."""
        other = copy(self)
        other.tokens = list(self.tokens)
        other._followers = {context: list(tokens) for context, tokens in self._followers.items()}
        return other

    def rollback(self, count: int) -> None:
        """Take back the last `count` output tokens.

        Raises:
            ValueError: there are not that many.
        """
        if not 0 <= count <= self.output_length:
            raise ValueError(f"cannot take back {count} of {self.output_length} output tokens")
        for _ in range(count):
            self.tokens.pop()
            if self._ngram and len(self.tokens) >= self._ngram - 1:
                self._followers[self._context()].pop()

    def repeats(self) -> set[int]:
        """Tokens that, appended now, would make the last n tokens an n-gram that stands earlier."""
        if not self._ngram or len(self.tokens) < self._ngram - 1:
            return set()
        return set(self._followers.get(self._context(), ()))

    def _context(self) -> tuple[int, ...]:
        return tuple(self.tokens[len(self.tokens) - (self._ngram - 1) :])
