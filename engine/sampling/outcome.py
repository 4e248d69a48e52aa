"""What one draw hands back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

HardRule = Literal["no_repeat_ngram", "banned_tokens", "logit_bias"]
Policy = Literal["give_way", "eos", "relax"]

GIVE_WAY: tuple[HardRule, ...] = ("no_repeat_ngram", "banned_tokens", "logit_bias")
"""The order in which hard rules give way when together they leave nothing.  The constraint is not among them."""


@dataclass(frozen=True, slots=True)
class Fallback:
    """A hard rule that was not kept, because nothing could be drawn under it.

    Attributes:
        step: 0-based index of the token.
        rule: the rule that was not kept: one of `GIVE_WAY`, `"constraint"`, or `"logits"` where the model gave every
            token `-inf`.
        policy: `"give_way"` for a rule that yields by itself, else the `on_empty` that was applied.
    """

    step: int
    rule: str
    policy: Policy


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """Natural-log probability of the token drawn, under the distribution that it was drawn from.

    That distribution is the processed one: after bias, penalties, bans, the constraint, temperature and truncation.
    Greedy draws report it at temperature 1 without truncation, since theirs would be 0 throughout.

    Attributes:
        top: the n most likely tokens with their log-probabilities, most likely first; tokens that could not be drawn
            are left out.
    """

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Draw:
    """The token that one row of a batch drew.

    Attributes:
        follows_constraint: false where `on_empty` put the token there, so that the constraint must not be advanced.
    """

    token_id: int
    logprob: TokenLogprob | None = None
    fallbacks: tuple[Fallback, ...] = ()

    @property
    def follows_constraint(self) -> bool:
        return all(fallback.policy == "give_way" for fallback in self.fallbacks)
