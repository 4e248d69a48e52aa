"""Where the time of a generation went."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil
from time import perf_counter
from typing import Any, Literal, get_args

Part = Literal["forward", "mask", "sample", "propose", "retokenize"]


@dataclass(frozen=True, slots=True)
class Metrics:
    """Counts and times of one generation, in tokens and seconds.

    Times are the engine's own: what a consumer of the stream does between two tokens is not in them.  In a batch, times of
    forward passes and draws are those of the whole steps that the sequence took part in, and the others' steps lie between
    its tokens.

    Attributes:
        prompt_tokens: tokens of the prompt.
        output_tokens: tokens of the output, the end token not among them.
        queue_s: from the request to its admission to a batch; 0 for a generation of its own.
        ttft_s: from the request to the first token, queue and the prompt's forward pass included; 0 without one.
        itl_s: from each token to the next; one fewer than there are tokens.
        tokens_per_s: output tokens over the whole time, the prompt's part included.
        forward_s: in forward passes of the model.
        mask_s: in the constraint: filling masks and accepting tokens.
        sample_s: in applying masks, processing logits and drawing.
        target_forwards: forward passes of the model, the prompt's included.
        drafted, accepted: tokens that were guessed and verified, and those of them that held.
        verifications: forward passes that verified guesses.
        lookaheads: guesses of each of the request's steps under speculation, 0 where there were none.
        switched_off: of these steps, those in which guessing would not have paid.
        by_source: (drafted, accepted) of each source of guesses.
        propose_s: in guessing, the masks and what follows not counted.
        retokenize_s: in going from one tokenizer to another.
        verify_s: in those forward passes that verified guesses; `forward_s` has these too.
        cached_prompt_tokens: tokens of the prompt whose keys and values were already there.
    """

    prompt_tokens: int = 0
    output_tokens: int = 0
    queue_s: float = 0.0
    ttft_s: float = 0.0
    itl_s: list[float] = field(default_factory=list)
    tokens_per_s: float = 0.0
    forward_s: float = 0.0
    mask_s: float = 0.0
    sample_s: float = 0.0
    target_forwards: int = 0
    drafted: int = 0
    accepted: int = 0
    verifications: int = 0
    lookaheads: list[int] = field(default_factory=list)
    switched_off: int = 0
    by_source: dict[str, tuple[int, int]] = field(default_factory=dict)
    propose_s: float = 0.0
    retokenize_s: float = 0.0
    verify_s: float = 0.0
    cached_prompt_tokens: int = 0

    @property
    def wasted(self) -> int:
        """Guesses that were verified and did not hold."""
        return self.drafted - self.accepted

    @property
    def accepted_per_verification(self) -> float:
        """Guesses that held, on average over the passes that verified some; 0 without any."""
        return self.accepted / self.verifications if self.verifications else 0.0

    @property
    def forwards_per_token(self) -> float:
        """Forward passes of the target for an output token; 0 without tokens."""
        return self.target_forwards / self.output_tokens if self.output_tokens else 0.0

    @property
    def fallback_rate(self) -> float:
        """Share of the steps under speculation that had no guess to verify; 0 without speculation."""
        return self.lookaheads.count(0) / len(self.lookaheads) if self.lookaheads else 0.0

    @property
    def itl_p95_s(self) -> float:
        """The time from token to token that 95 % do not exceed; 0 with fewer than two tokens."""
        ordered = sorted(self.itl_s)
        return ordered[max(0, ceil(0.95 * len(ordered)) - 1)] if ordered else 0.0


class Stopwatch:
    """Takes the times of one generation while it runs."""

    def __init__(self) -> None:
        self.parts: dict[Part, float] = dict.fromkeys(get_args(Part), 0.0)
        self.forwards = self.verifications = self.switched_off = 0
        self.verify_s = 0.0
        self.by_source: dict[str, tuple[int, int]] = {}
        self.lookaheads: list[int] = []
        self._open: list[Part] = []
        self._since = 0.0
        self._busy = 0.0
        self._token_times: list[float] = []

    @contextmanager
    def step(self) -> Iterator[None]:
        """Around whatever the engine does for the generation; the time between steps is not counted."""
        start = perf_counter()
        try:
            yield
        finally:
            self._busy += perf_counter() - start

    @contextmanager
    def part(self, name: Part) -> Iterator[None]:
        """Around one part of a step; a part inside another is taken off that."""
        self._switch()
        self._open.append(name)
        try:
            yield
        finally:
            self._switch()
            self._open.pop()

    def _switch(self) -> None:
        """The part that is open gets the time since the last switch."""
        now = perf_counter()
        if self._open:
            self.parts[self._open[-1]] += now - self._since
        self._since = now

    def lookahead(self, guesses: int, *, switched_off: bool) -> None:
        """A step under speculation begins with so many guesses; none because it would not pay, or because there are none."""
        self.lookaheads.append(guesses)
        self.switched_off += switched_off

    def verified(self, by_source: dict[str, tuple[int, int]]) -> None:
        """The guesses of a block: (drafted, accepted) by source."""
        for source, (drafted, accepted) in by_source.items():
            before = self.by_source.get(source, (0, 0))
            self.by_source[source] = before[0] + drafted, before[1] + accepted
        self.verifications += bool(by_source)

    def token(self) -> None:
        """After a step that put out a token."""
        self._token_times.append(self._busy)

    def metrics(self, prompt_tokens: int, output_tokens: int) -> Metrics:
        """What was measured so far."""
        times = self._token_times
        return Metrics(
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
            ttft_s=times[0] if times else 0.0,
            itl_s=[later - earlier for earlier, later in pairwise(times)],
            tokens_per_s=output_tokens / self._busy if self._busy > 0.0 else 0.0,
            forward_s=self.parts["forward"],
            mask_s=self.parts["mask"],
            sample_s=self.parts["sample"],
            target_forwards=self.forwards,
            **self.speculation(),
        )

    def speculation(self) -> dict[str, Any]:
        """The fields of `Metrics` that are about speculation."""
        counts = self.by_source.values()
        return {
            "drafted": sum(drafted for drafted, _ in counts),
            "accepted": sum(accepted for _, accepted in counts),
            "verifications": self.verifications,
            "lookaheads": list(self.lookaheads),
            "switched_off": self.switched_off,
            "by_source": dict(self.by_source),
            "propose_s": self.parts["propose"],
            "retokenize_s": self.parts["retokenize"],
            "verify_s": self.verify_s,
        }
