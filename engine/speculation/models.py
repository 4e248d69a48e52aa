"""Proposers that run a model: a smaller one with the same tokens, the target's own first layers, a head on its states."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.errors import SpeculationError
from engine.speculation.draft import Frontier
from engine.speculation.proposer import Drafter

if TYPE_CHECKING:
    from engine.caches import Cache
    from engine.generation import Decoder
    from engine.model import Model


class DraftModel:
    """A smaller model with the target's tokens; its logits go through the request's processors and the constraint.

    Each sequence has a cache of its own, which is cut back to what was accepted and then catches up.
    """

    name, draws, wants_state = "draft", True, False

    def __init__(self, model: Decoder, vocab_size: int, cost: float = 0.25, *, sampled: bool = True) -> None:
        """
        Args:
            model: the draft model.
            vocab_size: the target's; the draft's logits are cut or filled up to it.
            cost: of its forward pass, in those of the target (`relative_cost`).
            sampled: draw guesses where the request samples; else they are the draft's best tokens.
        """
        self.model, self.vocab_size, self.cost, self.sampled = model, vocab_size, cost, sampled
        self.draws = sampled

    def begin(self, prompt: Sequence[int], group: Hashable = None) -> Drafter:
        return _ModelDrafter(self)


class _ModelDrafter:
    def __init__(self, proposer: DraftModel) -> None:
        self._proposer = proposer
        self._cache: Cache | None = None
        self._held: list[int] = []

    def propose(self, frontier: Frontier, most: int) -> None:
        model, name, most = self._proposer.model, self._proposer.name, min(most, frontier.room)
        if most < 1 or len(frontier.tokens) + most > model.config.context_length:
            return
        if self._cache is None:
            self._cache = model.new_cache()
        # The text as far as it was confirmed only grows, so what can differ from it are earlier guesses.
        known = agreement(self._held, frontier.tokens, len(frontier.tokens) - 1)
        self._cache.truncate(known)
        del self._held[known:]
        for _ in range(most):
            new = frontier.tokens[len(self._held) :]
            logits = model.forward(torch.tensor([new], device=model.device), self._cache)
            self._held.extend(new)
            token = frontier.draw(fitted(logits, self._proposer.vocab_size), name, sampled=self._proposer.sampled)
            if token is None:
                return

    def close(self, output: Sequence[int]) -> None:
        self._cache = None


class EarlyExit:
    """The target's first `layers` layers, then its own last norm and head (Zhang et al. 2023, arXiv:2309.08168).

    It works in the target's cache, whose first layers hold what it needs, and takes back what it has added.
    """

    name, wants_state = "early_exit", False

    def __init__(self, model: Model, layers: int, *, sampled: bool = True) -> None:
        """
        Raises:
            SpeculationError: not fewer layers than the model has, or none.
        """
        total = model.config.layers
        if not 1 <= layers < total:
            raise SpeculationError(f"an exit after {layers} of {total} layers: choose 1 to {total - 1}")
        self.model, self.layers, self.draws = model, layers, sampled
        whole = model.step_bytes
        self.cost = (whole - model.layer_bytes(total) + model.layer_bytes(layers)) / whole

    def begin(self, prompt: Sequence[int], group: Hashable = None) -> Drafter:
        return _EarlyExitDrafter(self)


class _EarlyExitDrafter:
    def __init__(self, proposer: EarlyExit) -> None:
        self._proposer = proposer

    def propose(self, frontier: Frontier, most: int) -> None:
        model, layers, target = self._proposer.model, self._proposer.layers, frontier.target
        most = min(most, frontier.room)
        if target is None or most < 1 or len(target.pending) > 1:  # a prompt is not run twice
            return
        cache = target.cache
        before = cache.lengths
        new = [*target.pending, *frontier.tokens[frontier.length :]]
        try:
            for _ in range(most):
                logits = model.forward(torch.tensor([new], device=model.device), cache, layers=layers)
                token = frontier.draw(logits, self._proposer.name, sampled=self._proposer.draws)
                if token is None:
                    return
                new = [token]
        finally:
            cache.truncate(before)

    def close(self, output: Sequence[int]) -> None:
        """Holds nothing."""


class DraftHead(Protocol):
    """A head on the target's last hidden states, as EAGLE's (Li et al. 2024, arXiv:2401.15077) or a multi-token
    prediction module (DeepSeek-V3, arXiv:2412.19437, section 2.2)."""

    def __call__(self, state: Tensor, embedding: Tensor) -> Tensor:
        """The state behind a token, guessed: [1, hidden] and the token's embedding [1, hidden] → [1, hidden]."""


class HeadProposer:
    """Guesses with a `DraftHead`: each state that it guesses goes through the target's norm and head, and is what the
    next guess begins with."""

    name, wants_state = "head", True

    def __init__(self, model: Model, head: DraftHead, cost: float = 0.2, *, sampled: bool = True) -> None:
        self.model, self.head, self.cost, self.draws = model, head, cost, sampled

    def begin(self, prompt: Sequence[int], group: Hashable = None) -> Drafter:
        return _HeadDrafter(self)


class _HeadDrafter:
    def __init__(self, proposer: HeadProposer) -> None:
        self._proposer = proposer

    def propose(self, frontier: Frontier, most: int) -> None:
        model, target, most = self._proposer.model, frontier.target, min(most, frontier.room)
        if target is None or target.state is None or most < 1:
            return
        state = target.state.unsqueeze(0)
        # The state is the one before the pending tokens; the head takes it over them and the draft so far.
        for token in (*target.pending[:-1], *frontier.tokens[frontier.length - 1 :]):
            state = self._proposer.head(state, model.embed(torch.tensor([token], device=model.device)))
        for _ in range(most):
            drawn = frontier.draw(model.head(state), self._proposer.name, sampled=self._proposer.draws)
            if drawn is None:
                return
            state = self._proposer.head(state, model.embed(torch.tensor([drawn], device=model.device)))

    def close(self, output: Sequence[int]) -> None:
        """Holds nothing."""


class LinearHead:
    """The smallest head: the next state is linear in the state and the token's embedding."""

    def __init__(self, weight: Tensor) -> None:
        """`weight`: [hidden, 2 · hidden]."""
        self.weight = weight

    def __call__(self, state: Tensor, embedding: Tensor) -> Tensor:
        return F.linear(torch.cat((state, embedding), dim=-1).float(), self.weight.float()).to(state.dtype)


def agreement(held: Sequence[int], tokens: Sequence[int], most: int) -> int:
    """How many of the first tokens of both are the same, at most `most`."""
    most = min(most, len(held))
    if list(held[:most]) == list(tokens[:most]):
        return most
    return next(at for at in range(most) if held[at] != tokens[at])


def fitted(logits: Tensor, vocab_size: int) -> Tensor:
    """Logits [n, any] as wide as the target's: padding is cut off, or filled up with tokens that are never guessed."""
    missing = vocab_size - logits.shape[-1]
    return F.pad(logits, (0, missing), value=-torch.inf) if missing > 0 else logits[..., :vocab_size]


def relative_cost(draft: Model, target: Model) -> float:
    """Bytes of weights that a token of the draft takes, in those of the target."""
    return draft.step_bytes / target.step_bytes
