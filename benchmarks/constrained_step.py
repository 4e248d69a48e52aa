"""What a constraint costs per token, and how long the command takes to its first token.

    python benchmarks/constrained_step.py [--tokens 96] [--rounds 5]

Free and constrained generation of the default model take turns, round by round; the figure is the median of the rounds'
ratios of the median time between tokens.  The first round, in which rows are made and kept, is reported apart.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime
from itertools import pairwise

import torch

from constrained import LLM, Sampling

PROMPT = "Write a long story about a lighthouse keeper and the ships that passed."
SCHEMA = {
    "type": "object",
    "properties": {"title": {"type": "string", "maxLength": 40}, "story": {"type": "string", "minLength": 400}},
    "required": ["title", "story"],
}


def seconds_a_token(llm: LLM, tokens: int, *, constrained: bool) -> tuple[float, float]:
    """(median seconds between tokens, share of the time spent in masks)."""
    sampling = Sampling(temperature=0.0)
    if constrained:
        from constrained import JsonSchema

        # a budget far beyond what is read, so that every token is one inside the strings
        stream = llm.stream(PROMPT, constraint=JsonSchema(SCHEMA), max_tokens=1000, sampling=sampling)
    else:
        stream = llm.stream(PROMPT, max_tokens=1000, sampling=sampling)
    times = []
    begin = time.perf_counter()
    with stream:
        for count, _event in enumerate(stream):
            times.append(time.perf_counter() - begin)
            if count + 1 >= tokens:
                break
    gaps = [later - earlier for earlier, later in pairwise(times)]
    return statistics.median(gaps), times[-1]


def first_token_of_the_command() -> float:
    """Seconds of `constrained generate` for a text of very few tokens, start of the interpreter included."""
    begin = time.perf_counter()
    subprocess.run(
        [
            sys.executable,
            "-m",
            "constrained",
            "generate",
            "--choice",
            "yes",
            "--choice",
            "no",
            "--prompt",
            "Is water wet?",
        ],
        check=True,
        capture_output=True,
    )
    return time.perf_counter() - begin


def main() -> None:
    """Measure and print a Markdown table."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--tokens", type=int, default=96)
    arguments.add_argument("--rounds", type=int, default=5)
    options = arguments.parse_args()
    llm = LLM()
    rounds = []
    for _ in range(options.rounds + 1):
        free, _ = seconds_a_token(llm, options.tokens, constrained=False)
        bound, _ = seconds_a_token(llm, options.tokens, constrained=True)
        rounds.append((free, bound))
    first, *rest = rounds
    starts = [first_token_of_the_command() for _ in range(3)]
    print(f"python {' '.join(sys.argv)} · {datetime.now(UTC):%Y-%m-%d} · {platform.machine()}, {torch.get_num_threads()} threads"
          f" · torch {torch.__version__}, Python {platform.python_version()}\n")  # fmt: skip
    print("| figure | value |\n|---|---:|")
    print(f"| free, ms a token (median of the medians) | {1e3 * statistics.median(free for free, _ in rest):.2f} |")
    print(f"| constrained, ms a token | {1e3 * statistics.median(bound for _, bound in rest):.2f} |")
    print(
        f"| constrained / free, median of {len(rest)} rounds | {statistics.median(bound / free for free, bound in rest):.3f} |"
    )
    print(f"| the same in the first round | {first[1] / first[0]:.3f} |")
    print(f"| `constrained generate`, whole command for a choice of two words, best of 3 | {min(starts):.2f} s |")


if __name__ == "__main__":
    main()
