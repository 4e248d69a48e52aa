"""`constrained bench speculate`: proposers side by side on extraction tasks, the built-in ones or the user's."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from constrained.cli.errors import OK, UsageError
from constrained.progress import progress_bars

if TYPE_CHECKING:
    from constrained.bench.extraction import Task
    from constrained.bench.speculate import Figures


SUMMARY = "speculative decoding: tokens/s, target forwards per token, what is accepted and wasted, the time by part"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "tasks",
        nargs="?",
        metavar="FILE",
        help="JSON Lines of {prompt, schema} (20 extraction tasks that come with it)",
    )
    parser.add_argument("--model", metavar="M", help="GGUF file, safetensors folder or hub id (the default model)")
    parser.add_argument("--dtype", default="auto", help="auto, int4, int8, bfloat16, float16, float32 (auto)")
    parser.add_argument("--draft-model", metavar="M", help="for the proposers draft and universal")
    parser.add_argument(
        "--proposer", action="append", metavar="P", dest="proposers",
        help="auto, forced, ngram, suffix, early_exit, draft, universal, or several joined by + (forced+ngram); may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--lookahead", default="adaptive", metavar="L", help="adaptive, heuristic, or a number (adaptive)"
    )
    parser.add_argument("-n", type=int, metavar="N", help="tasks (all)")
    parser.add_argument("--max-tokens", type=int, default=192, metavar="N", help="most tokens of a text (192)")
    parser.add_argument("--temperature", type=float, default=0.0, metavar="T", help="0 takes the likeliest (0)")
    parser.add_argument("--seed", type=int, default=1, help="where the temperature is not 0 (1)")
    parser.add_argument("--whitespace", default="bounded", metavar="bounded|compact|any|RE", help="between JSON tokens")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")


def run(options: argparse.Namespace) -> int:
    from constrained.bench.speculate import SpeculationBench
    from constrained.llm import LLM
    from engine.errors import SpeculationError
    from engine.sampling import Sampling, SamplingError
    from engine.speculation.lookahead import check_lookahead
    from engine.speculation.names import check_name

    for name in ("n", "max_tokens"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise UsageError(f"{'-n' if name == 'n' else '--max-tokens'}: {value} is below 1")
    lookahead = int(options.lookahead) if options.lookahead.isdigit() else options.lookahead
    tasks, proposers = _tasks(options.tasks)[: options.n], options.proposers or ["auto"]
    try:
        sampling = Sampling(temperature=options.temperature, seed=options.seed)
        check_lookahead(lookahead)
        for proposer in proposers:
            check_name(proposer)
    except (SamplingError, SpeculationError) as error:
        raise UsageError(str(error)) from None
    try:
        with progress_bars() as show:
            show("loading the model", 0, 0)
            llm = LLM(options.model, dtype=options.dtype, draft_model=options.draft_model)
            bench = SpeculationBench(
                llm, proposers, lookahead=lookahead, max_tokens=options.max_tokens,
                sampling=sampling, whitespace=options.whitespace,
            )  # fmt: skip
            bench.warm_up(tasks[0])
            for done, task in enumerate(tasks):
                show("generating", done, len(tasks))
                bench.run(task)
    except SpeculationError as error:  # of a proposer that wants a draft model, or another one
        raise UsageError(str(error)) from None
    report = bench.report()
    print(json.dumps([row.as_dict() for row in report], indent=1) if options.json else table(report))
    return OK


def _tasks(path: str | None) -> list[Task]:
    from constrained.bench.extraction import TASKS, Task

    if path is None:
        return list(TASKS)
    tasks = []
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
            tasks.append(Task(value["prompt"], value["schema"]))
        except (ValueError, KeyError, TypeError):
            raise UsageError(f'{path}: line {number} is not a JSON object {{"prompt": ..., "schema": ...}}') from None
    if not tasks:
        raise UsageError(f"{path}: no tasks in it")
    return tasks


_ROWS: tuple[tuple[str, str, str], ...] = (
    ("texts, of these as without", "same", ""),
    ("output tokens", "output_tokens", ",d"),
    ("tokens/s", "tokens_per_s", ",.1f"),
    ("tokens/s by those of none", "speedup", ".2f"),
    ("the same for CPU time", "cpu_speedup", ".2f"),
    ("target forwards per token", "target_forwards_per_token", ".3f"),
    ("accepted per verification", "accepted_per_verification", ".2f"),
    ("guesses accepted", "accepted", ",d"),
    ("guesses wasted", "wasted", ",d"),
    ("steps without a guess", "fallback_rate", ".1%"),
    ("of these since none would pay", "switched_off", ",d"),
    ("p95 inter-token latency, ms", "itl_p95_s", "ms"),
    ("target forwards, ms a token", "forward_s", "each"),
    ("of these verifying", "verify_s", "each"),
    ("proposing", "propose_s", "each"),
    ("re-tokenising", "retokenize_s", "each"),
    ("masks", "mask_s", "each"),
    ("sampling", "sample_s", "each"),
    ("queue", "queue_s", "each"),
)


def table(report: list[Figures]) -> str:
    """A column for each proposer."""
    width = max(12, *(len(row.proposer) + 2 for row in report))
    lines = [f"{'':<32}" + "".join(f"{row.proposer:>{width}}" for row in report)]
    for title, name, form in _ROWS:
        lines.append(f"{title:<32}" + "".join(f"{_cell(row, name, form):>{width}}" for row in report))
    sources = sorted({source for row in report for source in row.by_source})
    for source in sources:
        held = [row.by_source.get(source) for row in report]
        cells = ["-" if pair is None else f"{pair[1]:,}/{pair[0]:,}" for pair in held]
        lines.append(f"{'accepted of ' + source:<32}" + "".join(f"{cell:>{width}}" for cell in cells))
    return "\n".join(lines)


def _cell(row: Figures, name: str, form: str) -> str:
    if name == "same":
        return f"{row.texts}, {row.same_texts}"
    value = getattr(row, name)
    if form == "ms":
        return f"{1000 * value:.1f}"
    if form == "each":
        return f"{1000 * value / max(1, row.output_tokens):.3f}"
    return format(value, form)
