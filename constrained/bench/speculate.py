"""`constrained bench speculate`: what proposers save on extraction tasks, and where the time goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import ceil
from time import process_time
from typing import Any

from constrained.bench.extraction import Task
from constrained.llm import LLM
from constrained.results import Generation
from engine.metrics import Metrics
from engine.sampling import Sampling
from engine.speculation.proposer import Proposer
from grammars import JsonSchema

NONE = "none"


@dataclass
class Side:
    """What one proposer did over the tasks.

    Attributes:
        metrics: of each generation.
        cpu_s: CPU seconds of all of them, whatever else runs on the machine.
        same: texts that are, token for token, those without speculation.
    """

    metrics: list[Metrics] = field(default_factory=list)
    cpu_s: float = 0.0
    same: int = 0

    def seconds(self) -> float:
        """The engine's time for all texts."""
        return sum(each.output_tokens / each.tokens_per_s for each in self.metrics if each.tokens_per_s)

    def total(self, name: str) -> float:
        """A field of the metrics over all texts."""
        return float(sum(getattr(each, name) for each in self.metrics))


@dataclass(frozen=True)
class Figures:
    """One row of the report; times in seconds.

    Attributes:
        speedup: tokens/s by those without speculation, from the same run.
        cpu_s, cpu_speedup: CPU time, and tokens for it by those without speculation.
        itl_p95_s: of all gaps between tokens.
        by_source: guesses and those that held, by who made them.
    """

    proposer: str
    texts: int
    same_texts: int
    output_tokens: int
    tokens_per_s: float
    speedup: float
    cpu_s: float
    cpu_speedup: float
    target_forwards_per_token: float
    accepted_per_verification: float
    drafted: int
    accepted: int
    wasted: int
    fallback_rate: float
    switched_off: int
    itl_p95_s: float
    forward_s: float
    verify_s: float
    propose_s: float
    retokenize_s: float
    mask_s: float
    sample_s: float
    queue_s: float
    by_source: Mapping[str, tuple[int, int]]

    def as_dict(self) -> dict[str, Any]:
        """The figures by name."""
        return asdict(self)


class SpeculationBench:
    """Runs tasks with each proposer in turn, so that whatever else the machine does falls on all alike.

    Attributes:
        sides: by proposer, `"none"` first.
    """

    def __init__(
        self,
        llm: LLM,
        proposers: Sequence[str] | Mapping[str, str | Proposer],
        *,
        lookahead: str | int = "adaptive",
        max_tokens: int = 192,
        sampling: Sampling | None = None,
        whitespace: str = "bounded",
    ) -> None:
        named = dict(proposers) if isinstance(proposers, Mapping) else {name: name for name in proposers}
        self._llm = llm
        self._proposers: dict[str, str | Proposer] = {NONE: NONE, **named}
        self._lookahead, self._max_tokens, self._sampling, self._whitespace = (
            lookahead,
            max_tokens,
            sampling,
            whitespace,
        )
        self.sides = {name: Side() for name in self._proposers}

    def run(self, task: Task) -> None:
        """One text with each proposer."""
        texts = {}
        for name, proposer in self._proposers.items():
            begin = process_time()
            texts[name] = self._generate(task, proposer)
            self.sides[name].cpu_s += process_time() - begin
        for name, text in texts.items():
            self.sides[name].metrics.append(text.metrics)
            self.sides[name].same += text.token_ids == texts[NONE].token_ids

    def warm_up(self, task: Task) -> None:
        """Kernels, rows and the costs of forward passes are there before anything is measured."""
        for proposer in self._proposers.values():
            self._generate(task, proposer)

    def _generate(self, task: Task, proposer: str | Proposer) -> Generation:
        schema = JsonSchema(task.schema, whitespace=self._whitespace)
        return self._llm.stream_json(
            task.prompt, schema, max_tokens=self._max_tokens, sampling=self._sampling, proposer=proposer,
            lookahead=self._lookahead,
        ).result()  # fmt: skip

    def report(self) -> list[Figures]:
        """A row for each proposer."""
        plain = self.sides[NONE]
        tokens, seconds = plain.total("output_tokens"), plain.seconds() if plain.metrics else 0.0
        rates = (tokens / seconds if seconds else 0.0, tokens / plain.cpu_s if plain.cpu_s else 0.0)
        return [_figures(name, side, *rates) for name, side in self.sides.items()]


def _figures(name: str, side: Side, plain_rate: float, plain_cpu_rate: float) -> Figures:
    tokens, seconds = int(side.total("output_tokens")), side.seconds()
    drafted, accepted = int(side.total("drafted")), int(side.total("accepted"))
    verifications = side.total("verifications")
    lookaheads = [guesses for each in side.metrics for guesses in each.lookaheads]
    gaps = sorted(gap for each in side.metrics for gap in each.itl_s)
    sources: dict[str, tuple[int, int]] = {}
    for each in side.metrics:
        for source, (made, held) in each.by_source.items():
            before = sources.get(source, (0, 0))
            sources[source] = before[0] + made, before[1] + held
    times = {part: side.total(part) for part in _TIMES}
    return Figures(
        proposer=name,
        texts=len(side.metrics),
        same_texts=side.same,
        output_tokens=tokens,
        tokens_per_s=tokens / seconds if seconds else 0.0,
        speedup=tokens / seconds / plain_rate if seconds and plain_rate else 0.0,
        cpu_s=side.cpu_s,
        cpu_speedup=tokens / side.cpu_s / plain_cpu_rate if side.cpu_s and plain_cpu_rate else 0.0,
        target_forwards_per_token=side.total("target_forwards") / tokens if tokens else 0.0,
        accepted_per_verification=accepted / verifications if verifications else 0.0,
        drafted=drafted,
        accepted=accepted,
        wasted=drafted - accepted,
        fallback_rate=lookaheads.count(0) / len(lookaheads) if lookaheads else 0.0,
        switched_off=int(side.total("switched_off")),
        itl_p95_s=gaps[max(0, ceil(0.95 * len(gaps)) - 1)] if gaps else 0.0,
        by_source=sources,
        **times,
    )


_TIMES = ("forward_s", "verify_s", "propose_s", "retokenize_s", "mask_s", "sample_s", "queue_s")
