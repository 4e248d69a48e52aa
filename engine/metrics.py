"""Where the time of a generation went."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from time import perf_counter
from typing import Literal

Part = Literal["forward", "mask", "sample"]


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
        drafted, accepted: tokens that were proposed ahead, and those of them that were kept.
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
    cached_prompt_tokens: int = 0


class Stopwatch:
    """Takes the times of one generation while it runs."""

    def __init__(self) -> None:
        self.parts: dict[Part, float] = {"forward": 0.0, "mask": 0.0, "sample": 0.0}
        self.forwards = 0
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
        """Around one part of a step."""
        start = perf_counter()
        try:
            yield
        finally:
            self.parts[name] += perf_counter() - start

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
        )
