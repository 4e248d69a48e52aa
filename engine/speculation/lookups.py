"""Proposers that look guesses up: what the grammar dictates, and what followed the same tokens earlier."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from engine.speculation.draft import FORCED, Frontier
from engine.speculation.proposer import Drafter

Fold = Callable[[int], "int | None"]


class Forced:
    """The tokens that the grammar dictates, as the tokenizer would write them.

    They are verified like all guesses, since the model may prefer to write the same text in other tokens; nearly always
    it does not, and a stretch of them takes one forward pass.
    """

    name, cost, draws, wants_state = FORCED, 0.0, False, False

    def begin(self, prompt: Sequence[int], group: Hashable = None) -> Drafter:
        return _ForcedDrafter()


class _ForcedDrafter:
    def propose(self, frontier: Frontier, most: int) -> None:
        # `most` is a limit of guesses, and these are none.
        if frontier.room > 0:
            frontier.extend(frontier.forced_tokens(), FORCED)

    def close(self, output: Sequence[int]) -> None:
        """Holds nothing."""


class NGram:
    """What followed the last occurrence of the text's last tokens (prompt lookup, Saxena 2023).

    The longest match of `longest` … 1 tokens counts.  The first token of a match may differ by a space before it, if `fold`
    says so: a value that is copied into a JSON string stands behind a quote there and behind a space in the prompt.
    """

    name, cost, draws, wants_state = "ngram", 0.0, False, False

    def __init__(self, longest: int = 4, fold: Fold | None = None) -> None:
        """`fold` gives words that differ by a leading space the same number, and `None` for what is no word, which says
        less when it matches alone; without it tokens match as they are, and at least two."""
        self.longest, self.fold = longest, fold

    def begin(self, prompt: Sequence[int], group: Hashable = None) -> Drafter:
        return _NGramDrafter(self.longest, self.fold)


class _NGramDrafter:
    """Keeps, for each n, the last place behind each n-gram of the text."""

    def __init__(self, longest: int, fold: Fold | None) -> None:
        self._fold = fold
        self._sizes = range(longest, 0 if fold is not None else 1, -1)
        self._places: dict[int, dict[tuple[int | None, ...], int]] = {size: {} for size in self._sizes}
        self._indexed = 0

    def propose(self, frontier: Frontier, most: int) -> None:
        tokens = frontier.tokens
        self._index(tokens, frontier.length)
        for size in self._sizes:
            key = self._key(tokens, len(tokens), size)
            place = None if key is None else self._places[size].get(key)
            if place is not None:
                # Where the match overlaps the end, what follows it is what it begins with, again and again.
                following = [tokens[place + at % (len(tokens) - place)] for at in range(most)]
                says = size > 1 or self._fold is None or self._fold(tokens[-1]) is not None
                frontier.extend(following, f"ngram{size if says else 0}")
                return

    def _index(self, tokens: Sequence[int], end: int) -> None:
        """Note what ends before `end`; the last token of the text has nothing behind it yet."""
        for place in range(self._indexed + 1, end):
            for size in self._sizes:
                key = self._key(tokens, place, size)
                if key is not None:
                    self._places[size][key] = place
        self._indexed = max(self._indexed, end - 1)

    def _key(self, tokens: Sequence[int], end: int, size: int) -> tuple[int | None, ...] | None:
        if end < size:
            return None
        if self._fold is None:
            return tuple(tokens[end - size : end])
        first = self._fold(tokens[end - size])
        return (first if first is not None else ~tokens[end - size], *tokens[end - size + 1 : end])

    def close(self, output: Sequence[int]) -> None:
        """The text's own, so it goes with the drafter."""
