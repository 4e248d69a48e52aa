"""A draft model with another tokenizer (universal assisted decoding): its text is written anew in the target's tokens.

Both sides are re-tokenised in the middle of a text, where some tokenizers would put a space or take one off, and so both are
checked: what is proposed are tokens that a tokenizer writes behind what was there, and that spell the text and the guess.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Protocol

import torch

from engine.speculation.draft import Frontier
from engine.speculation.models import agreement
from engine.speculation.proposer import Drafter

if TYPE_CHECKING:
    from engine.caches import Cache
    from engine.generation import Decoder

WINDOW = 24
"""Tokens of the target's text that are encoded together with a guess, so that they are written as in one text."""

ANCHOR = "\n"
"""What nothing is joined with, and what shows where a text begins: the space that a tokenizer puts at a beginning stands before
it."""


class Tokens(Protocol):
    """Text to tokens and back; `engine.text.Text` is one, whose `token_bytes` tell of spaces, too."""

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]: ...

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = True) -> str: ...


class Universal:
    """The best tokens of a model with other tokens; how likely the target's tokens were is not known, so they count as
    certain guesses."""

    name, draws, wants_state = "universal", False, False

    def __init__(self, model: Decoder, text: Tokens, target_text: Tokens, cost: float = 0.25) -> None:
        """`text` and `target_text` are the tokenizers of the draft and of the target."""
        self.model, self.text, self.target_text, self.cost = model, text, target_text, cost

    def begin(self, prompt: Sequence[int], group: Hashable = None) -> Drafter:
        return _UniversalDrafter(self)


class _UniversalDrafter:
    def __init__(self, proposer: Universal) -> None:
        self._proposer = proposer
        self._cache: Cache | None = None
        self._held: list[int] = []
        self._prompt: list[int] | None = None

    def propose(self, frontier: Frontier, most: int) -> None:
        proposer, model = self._proposer, self._proposer.model
        if most < 1:
            return
        with frontier.timed("retokenize"):
            tokens = self._encoded(frontier)
        # Characters that are not whole yet cannot be encoded; the next token will complete them.
        if not tokens or len(tokens) + most > model.config.context_length:
            return
        if self._cache is None:
            self._cache = model.new_cache()
        known = agreement(self._held, tokens, len(tokens) - 1)
        self._cache.truncate(known)
        self._held = self._held[:known]
        guesses: list[int] = []
        new = tokens[known:]
        for _ in range(most):
            logits = model.forward(torch.tensor([new], device=model.device), self._cache)
            self._held.extend(new)
            guess = int(logits.argmax(-1))
            if guess in model.config.eos_token_ids:
                break
            guesses.append(guess)
            new = [guess]
        if guesses:
            with frontier.timed("retokenize"):
                written = self._in_target_tokens(frontier, tokens, guesses)
            frontier.extend(written[:most], proposer.name)

    def close(self, output: Sequence[int]) -> None:
        self._cache = None

    def _encoded(self, frontier: Frontier) -> list[int] | None:
        """Prompt and text in the draft's tokens; the prompt is encoded once, and the border is one for both sides."""
        text, target_text = self._proposer.text, self._proposer.target_text
        if self._prompt is None:
            prompt = target_text.decode(frontier.tokens[: frontier.prompt_length], skip_special_tokens=False)
            self._prompt = text.encode(prompt) or text.encode(" ")
        written = spelled(target_text, frontier.tokens[frontier.prompt_length :])
        if written.endswith("\N{REPLACEMENT CHARACTER}"):
            return None
        return [*self._prompt, *encoded_behind(text, "", written)]

    def _in_target_tokens(self, frontier: Frontier, known: Sequence[int], guesses: Sequence[int]) -> list[int]:
        """The guess behind the draft's tokens `known` in the target's, as they go on from the text's; nothing where they
        do not fit."""
        proposer, target = self._proposer, self._proposer.target_text
        # Alone, a decoder may take a space off the front; behind what was held it does not.
        held = known[-WINDOW:]
        before, whole = proposer.text.decode(held, False), proposer.text.decode([*held, *guesses], False)
        guessed = whole[len(before) :] if whole.startswith(before) else ""
        guessed = guessed.rstrip("\N{REPLACEMENT CHARACTER}")
        if not guessed:
            return []
        recent = frontier.tokens[max(frontier.prompt_length, len(frontier.tokens) - WINDOW) :]
        context = spelled(target, recent)
        tokens = encoded_behind(target, context, guessed)
        return tokens if spelled(target, [*recent, *tokens]) == context + guessed else []


def encoded_behind(text: Tokens, context: str, more: str) -> list[int]:
    """The tokens of `more` as they go on from `context`; where a token would reach across the border, those of it alone."""
    for before in (ANCHOR + context, ANCHOR) if context else (ANCHOR,):
        known, whole = (text.encode(part, add_special_tokens=False) for part in (before, before + more))
        if whole[: len(known)] == known:
            return whole[len(known) :]
    return text.encode(more, add_special_tokens=False)


def spelled(text: Tokens, token_ids: Sequence[int]) -> str:
    """What tokens write in the middle of a text: with the space that decoders take off the front of the first."""
    decoded = text.decode(token_ids, False)
    spell = getattr(text, "token_bytes", None)
    if spell is None or not token_ids or not spell(token_ids[0]).startswith(b" ") or decoded.startswith(" "):
        return decoded
    return " " + decoded
