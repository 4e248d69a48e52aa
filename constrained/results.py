"""What a generation hands back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from engine.metrics import Metrics
from engine.sampling import Fallback, TokenLogprob
from engine.sequence import FinishReason

__all__ = ["Fallback", "FinishReason", "Generation", "Metrics", "StreamEvent", "TokenLogprob"]


@dataclass(frozen=True)
class Generation:
    """One finished generation.

    Attributes:
        text: the output, without prompt and end token.
        parsed: the checked value under a JSON Schema, an instance where the schema was a type; `None` without one.
        token_ids: the output's tokens, the end token not among them.
        finish_reason: `"stop"`: the text ended; `"length"`: `max_tokens` was reached (a constrained text is a whole
            sentence all the same); `"cancelled"`.
        fallbacks: rules that gave way so that a token could be drawn, with their steps.
        metrics: counts, and times in seconds.
        logprobs: one for each token, where `Sampling.logprobs` asks for them.
        seed: the seed that was used; the same request with it gives the same text; `None` where nothing is drawn.
        score: of a beam, what it is ordered by (`engine.beams.Beam`); `None` without beams.
    """

    text: str
    parsed: Any
    token_ids: list[int]
    finish_reason: FinishReason
    fallbacks: list[Fallback]
    metrics: Metrics
    logprobs: list[TokenLogprob] = field(default_factory=list, repr=False)
    seed: int | None = None
    score: float | None = None


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One token of a stream.

    Attributes:
        text: the characters that it completes; empty in the middle of a character.
        token_id: the token.
        logprob: its log-probability, where `Sampling.logprobs` asks for it.
        partial: the value so far, where `partial=True` asks for it.
    """

    text: str
    token_id: int
    logprob: TokenLogprob | None = None
    partial: Any = None
