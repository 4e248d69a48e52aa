"""Counts and times, as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from constrained.results import Generation
from constrained.server.garbage import ShortCollections
from engine.batching.usage import Usage

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_STEP_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1)
_MASK_SECONDS = (1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 0.1, 1)


class ServerMetrics:
    """The metrics of one server; each has a registry of its own."""

    def __init__(
        self, usage: Callable[[], Usage | None], collections: Callable[[], ShortCollections | None] = lambda: None
    ) -> None:
        self.registry = CollectorRegistry()
        prefix, registry = "constrained", self.registry

        self.requests = Counter(f"{prefix}_requests", "Requests", ["route", "status"], registry=registry)
        self.request_seconds = Histogram(
            f"{prefix}_request_seconds", "From a request to the end of its answer", ["route"], buckets=_SECONDS,
            registry=registry,
        )  # fmt: skip
        self.ttft = Histogram(
            f"{prefix}_ttft_seconds", "From queueing to the first token", buckets=_SECONDS, registry=registry
        )
        self.itl = Histogram(
            f"{prefix}_itl_seconds", "From one token to the next", buckets=_STEP_SECONDS, registry=registry
        )
        self.mask = Histogram(
            f"{prefix}_mask_seconds", "Of masks, for each token under a constraint", buckets=_MASK_SECONDS,
            registry=registry,
        )  # fmt: skip
        self.tokens = Counter(f"{prefix}_tokens", "Tokens", ["kind"], registry=registry)
        self.fallbacks = Counter(
            f"{prefix}_fallbacks", "Rules that gave way so that a token could be drawn", ["rule"], registry=registry
        )
        self.ends = Counter(f"{prefix}_answers", "Answers by why they ended", ["reason"], registry=registry)
        registry.register(_EngineGauges(usage))
        registry.register(_CollectionGauges(collections))

    def answered(self, generation: Generation | None, reason: str, *, prompt: int, output: int) -> None:
        """Counts one answer; `generation` is `None` where it was cut before its end."""
        self.ends.labels(reason).inc()
        self.tokens.labels("output").inc(output)
        self.tokens.labels("prompt").inc(prompt)
        if generation is None:
            return
        metrics = generation.metrics
        self.tokens.labels("cached_prompt").inc(metrics.cached_prompt_tokens)
        if metrics.output_tokens:
            self.ttft.observe(metrics.ttft_s)
            if metrics.mask_s:
                self.mask.observe(metrics.mask_s / metrics.output_tokens)
        for seconds in metrics.itl_s:
            self.itl.observe(seconds)
        for fallback in generation.fallbacks:
            self.fallbacks.labels(fallback.rule).inc()

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self.registry)


class _CollectionGauges(Collector):
    """How long full collections of Python's garbage took, in which nothing else is done."""

    def __init__(self, collections: Callable[[], ShortCollections | None]) -> None:
        self._collections = collections

    def collect(self) -> Iterator[Metric]:
        found = self._collections()
        if found is None:
            return
        yield SummaryMetricFamily(
            "constrained_collection_seconds", "Full collections of Python's garbage", found.count, found.seconds
        )
        yield GaugeMetricFamily("constrained_longest_collection_seconds", "The longest of them", value=found.longest)


class _EngineGauges(Collector):
    """What the engine has in use at the moment of asking."""

    def __init__(self, usage: Callable[[], Usage | None]) -> None:
        self._usage = usage

    def collect(self) -> Iterator[Metric]:
        usage = self._usage()
        if usage is None:
            return
        sequences = GaugeMetricFamily("constrained_sequences", "Sequences in the engine", labels=["state"])
        sequences.add_metric(["running"], usage.running)
        sequences.add_metric(["waiting"], usage.waiting)
        yield sequences
        blocks = GaugeMetricFamily("constrained_kv_blocks", "Blocks of keys and values", labels=["state"])
        for state, count in (
            ("used", usage.used_blocks), ("kept", usage.kept_blocks), ("promised", usage.promised_blocks),
            ("all", usage.blocks),
        ):  # fmt: skip
            blocks.add_metric([state], count)
        yield blocks
        yield GaugeMetricFamily("constrained_engine_steps", "Steps of the engine so far", value=usage.steps)
        yield GaugeMetricFamily("constrained_engine_forwards", "Forward passes so far", value=usage.forwards)
