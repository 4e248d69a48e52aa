"""How a request wants its tokens drawn: one frozen value, validated when it is made."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from engine.sampling.errors import SamplingError

OnEmpty = Literal["error", "eos", "relax"]
Spelling = Literal["canonical", "any"]
_MOST_TOKENS = 2**31 - 1
MAX_BIAS = 1e6

ON_EMPTY: tuple[OnEmpty, ...] = ("error", "eos", "relax")
SPELLINGS: tuple[Spelling, ...] = ("canonical", "any")


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters of one request; the neutral value of every field leaves the logits as they are.

    Attributes:
        temperature: divides the logits; 0 is greedy (always the most likely token, so truncation changes nothing).
        top_k: keep the k most likely tokens; 0 keeps all.
        top_p: keep the fewest most likely tokens whose mass reaches p (Holtzman et al. 2020, arXiv:1904.09751).
        min_p: keep tokens at least `min_p` times as likely as the likeliest (Nguyen et al. 2024, arXiv:2407.01082).
        typical_p: keep the tokens closest to the entropy whose mass reaches p (Meister et al. 2023, arXiv:2202.00666).
        repetition_penalty: divides positive and multiplies negative logits of tokens that stand in the prompt or the
            output (Keskar et al. 2019, arXiv:1909.05858, section 4.1).
        presence_penalty: subtracted once from the logits of tokens that stand in the output.
        frequency_penalty: subtracted from the logits of a token for each time that it stands in the output.
        no_repeat_ngram: n > 0 forbids the token that would repeat an n-gram of prompt and output; 0 forbids nothing.
        logit_bias: added to the logits, by token id; `-inf` forbids a token.  Kept as sorted pairs.
        banned_tokens: token ids that may not be drawn.
        seed: the same seed gives the same text, alone or in any batch; `None` draws one.
        logprobs: `None` reports no log-probabilities, 0 that of the token drawn, n > 0 also the n most likely ones.
        on_empty: what to do where the constraint leaves nothing that the model can say: raise `EmptyRow`, end the
            text, or drop the constraint for the step.
        spelling: of text that the constraint dictates, where its tokens are open: `"canonical"` takes those that the
            tokenizer writes, without a draw; `"any"` leaves them to the model.

    Raises:
        SamplingError: a value outside its range.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    no_repeat_ngram: int = 0
    logit_bias: Mapping[int, float] | tuple[tuple[int, float], ...] = ()
    banned_tokens: Iterable[int] = ()
    seed: int | None = None
    logprobs: int | None = None
    on_empty: OnEmpty = "error"
    spelling: Spelling = "canonical"

    def __post_init__(self) -> None:
        def settle(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        settle("temperature", _real("temperature", self.temperature, 0.0, math.inf, "0 or more, finite", top_open=True))
        # No vocabulary has more, and tensors hold no larger numbers.
        settle("top_k", min(_whole("top_k", self.top_k, 0), _MOST_TOKENS))
        settle("top_p", _real("top_p", self.top_p, 0.0, 1.0, "0 < top_p <= 1", bottom_open=True))
        settle("min_p", _real("min_p", self.min_p, 0.0, 1.0, "0 <= min_p <= 1"))
        settle("typical_p", _real("typical_p", self.typical_p, 0.0, 1.0, "0 < typical_p <= 1", bottom_open=True))
        settle("repetition_penalty", _real("repetition_penalty", self.repetition_penalty, 0.01, 100.0, "0.01 to 100"))
        settle("presence_penalty", _real("presence_penalty", self.presence_penalty, -2.0, 2.0, "-2 to 2"))
        settle("frequency_penalty", _real("frequency_penalty", self.frequency_penalty, -2.0, 2.0, "-2 to 2"))
        settle("no_repeat_ngram", min(_whole("no_repeat_ngram", self.no_repeat_ngram, 0), _MOST_TOKENS))
        settle("logit_bias", _bias(self.logit_bias))
        settle("banned_tokens", _tokens("banned_tokens", self.banned_tokens))
        if self.seed is not None:
            settle("seed", _whole("seed", self.seed, 0, 2**64 - 1))
        if self.logprobs is not None:
            settle("logprobs", _whole("logprobs", self.logprobs, 0))
        if self.on_empty not in ON_EMPTY:
            raise SamplingError(f"on_empty={self.on_empty!r} is not one of {', '.join(map(repr, ON_EMPTY))}")
        if self.spelling not in SPELLINGS:
            raise SamplingError(f"spelling={self.spelling!r} is not one of {', '.join(map(repr, SPELLINGS))}")

    @property
    def is_greedy(self) -> bool:
        """Whether the most likely token is always the one drawn."""
        return self.temperature == 0.0

    @property
    def bias_pairs(self) -> tuple[tuple[int, float], ...]:
        """`logit_bias` as sorted (token id, bias) pairs."""
        assert isinstance(self.logit_bias, tuple)
        return self.logit_bias

    @property
    def banned_ids(self) -> tuple[int, ...]:
        """`banned_tokens` as sorted, distinct token ids."""
        assert isinstance(self.banned_tokens, tuple)
        return self.banned_tokens

    @property
    def has_penalties(self) -> bool:
        """Whether earlier tokens change the logits of later ones (the n-gram rule apart)."""
        return (self.repetition_penalty, self.presence_penalty, self.frequency_penalty) != (1.0, 0.0, 0.0)


def _real(
    name: str,
    value: Any,
    least: float,
    most: float,
    accepted: str,
    *,
    bottom_open: bool = False,
    top_open: bool = False,
) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise SamplingError(f"{name}={value!r} is not a number; accepted: {accepted}") from None
    above = number > least if bottom_open else number >= least
    below = number < most if top_open else number <= most
    if isinstance(value, str | bool) or not (above and below):
        raise SamplingError(f"{name}={value!r} is out of range; accepted: {accepted}")
    return number


def _whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    accepted = f"an integer >= {least}" if most is None else f"an integer from {least} to {most}"
    try:
        number = operator.index(value)
    except TypeError:
        raise SamplingError(f"{name}={value!r} is not an integer; accepted: {accepted}") from None
    if isinstance(value, bool) or number < least or (most is not None and number > most):
        raise SamplingError(f"{name}={value!r} is out of range; accepted: {accepted}")
    return number


def _tokens(name: str, value: Any) -> tuple[int, ...]:
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise SamplingError(f"{name}={value!r} is not a collection of token ids; accepted: integers >= 0")
    return tuple(sorted({_whole(name, token, 0) for token in value}))


def _bias(value: Any) -> tuple[tuple[int, float], ...]:
    accepted = f"token ids >= 0 with numbers from -{MAX_BIAS:g} to {MAX_BIAS:g}, or -inf to forbid a token"
    try:
        pairs = dict(value.items() if isinstance(value, Mapping) else value)
    except (TypeError, ValueError):
        raise SamplingError(f"logit_bias={value!r} is not a mapping; accepted: {accepted}") from None
    biases: list[tuple[int, float]] = []
    for key, bias in pairs.items():
        token = _whole("logit_bias", key, 0)
        name = f"logit_bias[{token}]"
        number = -math.inf if bias == -math.inf else _real(name, bias, -MAX_BIAS, MAX_BIAS, accepted)
        biases.append((token, number))
    return tuple(sorted(biases))


GREEDY = Sampling(temperature=0.0)
