"""Decoding speed of a batch, free and constrained, against the time that reading weights and cache takes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import torch

from constrained.bench.beside_transformers import TransformersBench
from constrained.compile import Constraint, compile
from constrained.vocabulary import Vocabulary
from engine.batching import BatchEngine
from engine.model import Model
from grammars import JsonSchema

OPEN_TEXT = 100_000
"""Characters that the constrained strings have at least: no text ends while it is measured."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One batch size.

    Attributes:
        batch: sequences.
        free_ms, constrained_ms: median milliseconds of a step.
        floor_ms: milliseconds that reading all weights once, and the cache of all sequences, takes at the measured bandwidth.
        transformers_ms: of Transformers' steps on the same device; `None`: not measured.
    """

    batch: int
    free_ms: float
    constrained_ms: float
    floor_ms: float
    transformers_ms: float | None = None

    @property
    def free_rate(self) -> float:
        """Tokens a second."""
        return 1e3 * self.batch / self.free_ms

    @property
    def constrained_rate(self) -> float:
        return 1e3 * self.batch / self.constrained_ms

    def as_dict(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "free_tokens_per_s": self.free_rate,
            "constrained_tokens_per_s": self.constrained_rate,
            "constrained_to_free": self.free_ms / self.constrained_ms,
            "floor_to_free": self.floor_ms / self.free_ms,
            "free_to_transformers": None if self.transformers_ms is None else self.transformers_ms / self.free_ms,
        }


class DecodeBench:
    """Measures a model.

    Attributes:
        bandwidth: bytes a second that the device's memory was read at.
    """

    def __init__(
        self,
        model: Model,
        vocabulary: Vocabulary,
        *,
        prompt: int,
        tokens: int,
        beside: TransformersBench | None = None,
    ) -> None:
        """`vocabulary` is as long as the model's logits; `prompt` and `tokens` are per sequence."""
        self._beside = beside
        self.model, self.prompt, self.tokens = model, prompt, tokens
        self._vocabulary = vocabulary
        self._constraints: list[Constraint] = []
        self.bandwidth = read_bandwidth(model.device)

    def measure(self, batches: list[int]) -> Iterator[Figure]:
        """One figure for each size, as they come."""
        for batch in batches:
            blocks = batch * (-(-(self.prompt + self.tokens + 2) // 16))
            engine = BatchEngine(self.model, blocks=blocks, max_sequences=batch, prefix_cache=False)
            self._steps(engine, batch, constrained=True)  # kernels are compiled, rows are made
            free = self._steps(engine, batch, constrained=False)
            held = self._steps(engine, batch, constrained=True)
            theirs = None if self._beside is None else self._beside.step_ms(batch, self.prompt, self.tokens)
            yield Figure(batch, free, held, 1e3 * self._bytes(batch) / self.bandwidth, theirs)

    def _steps(self, engine: BatchEngine, batch: int, *, constrained: bool) -> float:
        generator = torch.Generator().manual_seed(batch)
        vocab = self.model.config.vocab_size
        ids = torch.randint(0, vocab, (batch, self.prompt), generator=generator).tolist()
        while constrained and len(self._constraints) < batch:
            self._constraints.append(self._constraint(len(self._constraints)))
        requests = [
            engine.add(
                row, max_new_tokens=self.tokens + 1, eos_token_ids=[],
                constraint=self._constraints[at].matcher() if constrained else None,
            )
            for at, row in enumerate(ids)
        ]  # fmt: skip
        while any(len(request.tokens) == self.prompt for request in requests):
            engine.step()
        times = []
        while True:
            before = time.perf_counter()
            full = len(engine.scheduler.running) == batch
            if not engine.step():
                break
            if full:
                times.append(time.perf_counter() - before)
        for request in requests:
            engine.result(request)  # an error is not a figure
        return 1e3 * median(times)

    def _constraint(self, at: int) -> Constraint:
        schema = {"type": "object", "properties": {f"text_{at}": {"type": "string", "minLength": OPEN_TEXT}}}
        return compile(JsonSchema({**schema, "required": [f"text_{at}"]}), self._vocabulary)

    def _bytes(self, batch: int) -> int:
        """What a step reads: the weights, and half-way through the measurement the cache."""
        config, model = self.model.config, self.model
        positions = batch * (self.prompt + self.tokens // 2)
        return model.read_bytes(batch) + positions * config.kv_values_per_token * model.dtype.itemsize


def read_bandwidth(device: torch.device) -> float:
    """Bytes a second at which the device reads a tensor that no cache holds; the best of some tries."""
    size = 2**30 if device.type == "cuda" else 2**28
    data = torch.ones(size // 4, dtype=torch.float32, device=device)
    best = float("inf")
    for _ in range(5):
        begin = time.perf_counter()
        data.sum().item()
        best = min(best, time.perf_counter() - begin)
    return size / best
