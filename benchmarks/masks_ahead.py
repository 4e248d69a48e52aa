"""The masks along a draft of eight tokens in one call, beside the same masks one by one; everything is warm.

    python benchmarks/masks_ahead.py [--tokenizer FILE] [--tokens 8]

At every third place of the answers to a few extraction tasks: writing a mask that is known (`fill_mask`), committing a token and
writing the mask behind it, as a step without speculation does, and `masks_ahead`.  What bounds the latter is printed too:
copying as many rows as it writes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from statistics import median
from time import thread_time

import numpy as np

from constrained import JsonSchema, Matcher, Vocabulary, compile
from constrained.bench.extraction import TASKS

AHEAD = "masks_ahead"


def microseconds(call: Callable[[], object], calls: int = 200, rounds: int = 7) -> float:
    """CPU time of a call, the median of `rounds`."""
    found = []
    for _ in range(rounds):
        begin = thread_time()
        for _ in range(calls):
            call()
        found.append((thread_time() - begin) / calls)
    return 1e6 * median(found)


def calls(matcher: Matcher, draft: list[int]) -> dict[str, Callable[[], object]]:
    """What is compared, for one place."""
    count = len(draft)
    rows = np.zeros((count + 1, matcher.constraint.vocabulary.row_words), np.uint32)
    row, source = rows[0], np.ones_like(rows)

    def step() -> None:
        matcher.accept(draft[0])
        matcher.fill_mask(row)
        matcher.rollback(1)

    def one_by_one() -> None:
        for token in draft:
            matcher.fill_mask(row)
            matcher.accept(token)
        matcher.fill_mask(row)
        matcher.rollback(count)

    return {
        AHEAD: lambda: matcher.masks_ahead(draft, rows),
        "a known mask (fill_mask)": lambda: matcher.fill_mask(row),
        "accept, fill_mask, rollback": step,
        "all of them one by one": one_by_one,
        "copying as many rows": lambda: np.copyto(rows, source),
    }


def measure(vocabulary: Vocabulary, count: int, max_tokens: int | None) -> dict[str, float]:
    """Medians over the places, in microseconds."""
    found: dict[str, list[float]] = {}
    for task in TASKS[:4]:
        constraint = compile(JsonSchema(task.schema), vocabulary)
        kinds = {name: field["type"] for name, field in task.schema["properties"].items()}
        answer = {name: 1843 if kind == "integer" else "Ada Lovelace" for name, kind in kinds.items()}
        text = vocabulary.canonical(json.dumps(answer))
        for place in range(0, len(text) - count, 3):
            matcher = constraint.matcher(max_tokens=max_tokens)
            assert matcher.accept_many(text[:place]) == place
            timed = calls(matcher, text[place : place + count])
            timed[AHEAD]()  # from here on the rows are known
            for name, call in timed.items():
                found.setdefault(name, []).append(microseconds(call))
    return {name: median(times) for name, times in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tokenizer", metavar="FILE", help="tokenizer.json (the default model's)")
    parser.add_argument("--tokens", type=int, default=8)
    options = parser.parse_args()
    if options.tokenizer is None:
        from constrained import LLM

        vocabulary = LLM().vocabulary
    else:
        vocabulary = Vocabulary.from_tokenizer_json(options.tokenizer)
    print(f"{vocabulary.size:,} logits, rows of {4 * vocabulary.row_words:,} bytes")
    for max_tokens in (None, 300):
        print(
            f"\nmicroseconds, {'no budget' if max_tokens is None else f'max_tokens={max_tokens}, as generation has it'}"
        )
        found = measure(vocabulary, options.tokens, max_tokens)
        ahead = found[AHEAD]
        for name, time in found.items():
            print(f"{name:<32}{time:>10.2f}   masks_ahead takes {ahead / time:.2f} times that")


if __name__ == "__main__":
    main()
