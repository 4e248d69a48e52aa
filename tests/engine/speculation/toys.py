"""A model, constraints and proposers small enough to say by hand what must come out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine import generate
from engine.model import Model
from engine.sampling import row_words
from engine.speculation import Frontier, LinearHead

VOCAB, EOS = 12, 11
THINK, END_THINK = 0, 1


class ToyCache(list[int]):
    """Holds the tokens themselves."""

    together = 10_000

    @property
    def lengths(self) -> tuple[int, ...]:
        return (len(self),)

    def truncate(self, lengths: int | tuple[int, ...]) -> None:
        length = lengths if isinstance(lengths, int) else lengths[0]
        assert 0 <= length <= len(self)
        del self[length:]


class ToyModel:
    """Logits that depend on the last two tokens; notes what it was asked to run, and behind what."""

    def __init__(self, seed: int = 1, sharpness: float = 2.0, vocab: int = VOCAB, context: int = 10_000) -> None:
        self.config: Any = SimpleNamespace(
            vocab_size=vocab, context_length=context, longer_context="", eos_token_ids=(EOS,)
        )
        self.device = torch.device("cpu")
        generator = torch.Generator().manual_seed(seed)
        self.table = torch.randn(vocab, vocab, vocab, generator=generator) * sharpness
        self.calls: list[list[int]] = []
        self.texts: list[list[int]] = []

    def new_cache(self, name: str = "auto", batch: int = 1, capacity: int = 0) -> Any:
        return ToyCache()

    def forward(self, input_ids: Tensor, cache: Any, *, logits: Any = "last") -> Tensor:
        tokens = input_ids[0].tolist()
        self.calls.append(tokens)
        cache.extend(tokens)
        self.texts.append(list(cache))
        count = logits if isinstance(logits, int) else 1
        rows = [self.after(cache[: len(cache) - back]) for back in range(count - 1, -1, -1)]
        return torch.stack(rows).unsqueeze(0) if isinstance(logits, int) else rows[-1].unsqueeze(0)

    def after(self, text: Sequence[int]) -> Tensor:
        before = text[-2] if len(text) > 1 else text[-1]
        return self.table[before, text[-1]]


class Stepwise:
    """A constraint that can go back; subclasses say by `next_tokens` what may follow `text`, the tokens accepted so far."""

    def __init__(self, size: int = VOCAB, end: int = EOS) -> None:
        self.size, self.end = size, end
        self.text: list[int] = []

    def next_tokens(self) -> set[int]:
        """Nothing behind the end."""
        raise NotImplementedError

    def fill_mask(self, row: np.ndarray) -> None:
        assert row.shape == (row_words(self.size),)
        row[:] = 0
        for token in self.next_tokens():
            row[token // 32] |= np.uint32(1 << token % 32)

    def accept(self, token: int) -> None:
        assert token in self.next_tokens(), f"{token} is not allowed after {self.text}"
        self.text.append(token)

    def is_accepting(self) -> bool:
        return self.end in self.next_tokens() or self.is_finished()

    def is_finished(self) -> bool:
        return self.text[-1:] == [self.end]

    def rollback(self, count: int) -> None:
        assert 0 <= count <= len(self.text)
        del self.text[len(self.text) - count :]

    def masks_ahead(self, tokens: Sequence[int], rows: np.ndarray) -> None:
        done = 0
        rows[:] = 0
        for at, token in enumerate(tokens):
            self.fill_mask(rows[at])
            if token not in self.next_tokens():
                self.rollback(done)
                return
            self.accept(token)
            done += 1
        self.fill_mask(rows[len(tokens)])
        self.rollback(done)


class Automaton(Stepwise):
    """`allowed(text)` says what may follow, and nothing else."""

    def __init__(self, allowed: Callable[[tuple[int, ...]], set[int]]) -> None:
        super().__init__()
        self.allowed = allowed

    def next_tokens(self) -> set[int]:
        return set() if self.is_finished() else self.allowed(tuple(self.text))

    def forced_tokens(self) -> list[int]:
        forced: list[int] = []
        while len(following := self.next_tokens() - {EOS}) == 1 and EOS not in self.next_tokens() and len(forced) < 20:
            token = following.pop()
            forced.append(token)
            self.accept(token)
        self.rollback(len(forced))
        return forced


def free_then_fixed(text: tuple[int, ...]) -> set[int]:
    """Free text of tokens 2 … 10 until END_THINK; then 3, 4 or 5 in turn with a dictated 9 9, five times; then the end."""
    if END_THINK not in text:
        return {*range(2, 11), END_THINK} if len(text) < 12 else {END_THINK}
    place = len(text) - text.index(END_THINK) - 1
    if place >= 15:
        return {EOS}
    return {3, 4, 5} if place % 3 == 0 else {9}


class Guesser:
    """Proposes what a function says; under sampling drawn from what `q` says, if it is given."""

    cost, wants_state = 0.0, False

    def __init__(self, guess: Callable[[list[int], int], Sequence[int]], name: str = "guesser") -> None:
        self.guess, self.name, self.draws = guess, name, False
        self.frontiers: list[tuple[int, int]] = []

    def begin(self, prompt: Sequence[int], group: object = None) -> Guesser:
        return self

    def propose(self, frontier: Frontier, most: int) -> None:
        guesses = self.guess(frontier.tokens, most)
        taken = frontier.extend(guesses[:most], self.name)
        self.frontiers.append((len(guesses), taken))

    def close(self, output: Sequence[int]) -> None:
        self.closed = list(output)


def noise(seed: int, right: Callable[[list[int]], int] | None = None) -> Callable[[list[int], int], list[int]]:
    """Guesses that are sometimes what `right` says, and otherwise anything."""

    def guess(tokens: list[int], most: int) -> list[int]:
        rng = np.random.default_rng([seed, *tokens])
        text = list(tokens)
        for _ in range(most):
            good = right is not None and rng.random() < 0.7
            text.append(right(text) if good and right is not None else int(rng.integers(VOCAB)))
        return text[len(tokens) :]

    return guess


def fitted_head(model: Model, prompt: Sequence[int], length: int = 90) -> LinearHead:
    """The linear head that guesses best on a text of the model's own, by least squares."""
    text = generate(model, prompt, max_new_tokens=length, eos_token_ids=[]).result().token_ids
    states = model.states(torch.tensor([text]))[0]
    inputs = torch.cat((states[:-1], model.embed(torch.tensor(text[1:]))), dim=-1)
    ridge = 1e-3 * torch.eye(inputs.shape[1])
    return LinearHead(torch.linalg.solve(inputs.T @ inputs + ridge, inputs.T @ states[1:]).T)
