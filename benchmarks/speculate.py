"""Speculative decoding of the default model: what proposers save on extraction tasks, what they cost where they fail.

    python benchmarks/speculate.py [--tasks 20] [--few 6] [--dtype auto]

Copying: the 20 tasks of `constrained bench speculate`, whose values stand in the prompt.  Long keys: a schema of which most
is dictated.  Worst case: the model's own first layers, and a draft of every fourth layer, which guess badly.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from constrained import LLM
from constrained.bench.extraction import TASKS, Task
from constrained.bench.speculate import SpeculationBench
from constrained.cli.bench_speculate import table
from engine.speculation import DraftModel, EarlyExit, Proposer
from engine.speculation.models import relative_cost

LONG_KEYS = [
    Task(
        task.prompt,
        {
            **task.schema,
            "properties": {
                f"customer_visible_{key}_as_written": value for key, value in task.schema["properties"].items()
            },
            "required": [f"customer_visible_{key}_as_written" for key in task.schema["required"]],
        },
    )
    for task in TASKS[::5]
]


def measure(
    title: str, llm: LLM, tasks: Sequence[Task], proposers: Sequence[str] | Mapping[str, str | Proposer], **options: str
) -> None:
    """Run the tasks with each proposer in turn and print the table."""
    bench = SpeculationBench(llm, proposers, **options)
    bench.warm_up(tasks[0])
    for task in tasks:
        bench.run(task)
    print(f"\n{title}\n{table(bench.report())}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tasks", type=int, default=20, help="of the copying tasks (20)")
    parser.add_argument("--few", type=int, default=6, help="tasks of the worst cases (6)")
    parser.add_argument("--dtype", default="auto")
    options = parser.parse_args()
    llm = LLM(dtype=options.dtype)
    model = llm.model
    measure("copying", llm, TASKS[: options.tasks], ["forced+ngram", "forced+suffix+ngram"])
    measure("long keys, compact", llm, LONG_KEYS, ["forced", "forced+ngram"], whitespace="compact")
    draft = model.with_layers(range(0, model.config.layers, 4))
    bad = {
        "early_exit": EarlyExit(model, model.config.layers // 3),
        "pruned draft": DraftModel(draft, model.config.vocab_size, relative_cost(draft, model)),
    }
    measure("worst case", llm, TASKS[:: max(1, len(TASKS) // options.few)], bad)


if __name__ == "__main__":
    main()
