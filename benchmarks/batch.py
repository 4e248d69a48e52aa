"""Many sequences at once: what constraints cost a batch, the batch beside Transformers', and what the prefix cache saves.

    python benchmarks/batch.py [--sequences 16] [--tokens 64] [--rounds 5] [--requests 64] [--prefix 1000] [--threads N]
                               [--only constrained transformers prefix] [--budget N] [--masks-before]

The sides take turns, round by round, in one process; a figure is the median of the rounds' ratios.  Run it with nothing else
running.

constrained: each sequence under a JSON Schema of its own, against the same prompts free.  In the first figure the schemas are
new in every round, so that their masks are made while they are needed; in the second they are the same once more.  Where other
processes run, the ratio of the processor time disturbs less.
transformers: the same prompts, greedy and in bfloat16, `generate` with a batch of so many.
prefix: requests that share their first tokens come at once; the time to the first token with the prefix cache and without.
"""

from __future__ import annotations

import argparse
import platform
import shlex
import statistics
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import torch

from constrained import JsonSchema, Vocabulary, compile
from engine.batching import BatchEngine, Request
from engine.loading import fetch_default_model, load_model
from engine.model import Model

TOPICS = ("a lighthouse", "the harbour", "a train", "winter", "bread", "a museum", "the moon", "a river")


def prompts(model: Model, count: int) -> list[list[int]]:
    assert model.text is not None
    return [
        model.text.encode_chat([{"role": "user", "content": f"Write a story about {TOPICS[at % 8]}, part {at}."}])
        for at in range(count)
    ]


def schema(name: str) -> JsonSchema:
    """An object of its own: no other schema has its keys, lengths or pattern."""
    length = 400 + sum(name.encode()) % 97
    return JsonSchema(
        {
            "type": "object",
            "properties": {
                f"id_{name}": {"type": "string", "pattern": f"^{name}-[a-z]{{2,8}}$"},
                f"kind_{name}": {"enum": [f"{name} one", f"{name} two", 3]},
                f"count_{name}": {"type": "integer", "minimum": 1, "maximum": length},
                f"text_{name}": {"type": "string", "minLength": length},
            },
            "required": [f"id_{name}", f"kind_{name}", f"count_{name}", f"text_{name}"],
        }
    )


def decode(
    engine: BatchEngine, ids: Sequence[Sequence[int]], tokens: int, matchers: Sequence[Any]
) -> tuple[float, float]:
    """Seconds, and seconds of processors, for `tokens` tokens of every sequence, all of whose prompts are computed."""
    requests = [
        engine.add(prompt, max_new_tokens=tokens + 1, eos_token_ids=[], constraint=matcher)
        for prompt, matcher in zip(ids, matchers, strict=True)
    ]
    while any(len(request.tokens) == len(prompt) for request, prompt in zip(requests, ids, strict=True)):
        engine.step()
    begin, done = (time.perf_counter(), time.process_time()), sum(len(request.tokens) for request in requests)
    engine.run()
    seconds = time.perf_counter() - begin[0], time.process_time() - begin[1]
    made = sum(len(request.tokens) for request in requests) - done
    for request in requests:
        assert engine.result(request).metrics.output_tokens == tokens + 1, (
            "a text ended early: it would not be measured"
        )
    share = tokens * len(ids) / made
    return seconds[0] * share, seconds[1] * share


def constrained(model: Model, options: argparse.Namespace) -> None:
    vocabulary = Vocabulary.from_huggingface(model.text.tokenizer, logits_size=model.config.vocab_size)  # type: ignore[union-attr]
    engine = BatchEngine(model, blocks=4096, max_sequences=options.sequences, mask_thread=not options.masks_before)
    ids, free = prompts(model, options.sequences), [None] * options.sequences
    new: list[tuple[float, float]] = []
    again: list[tuple[float, float]] = []
    for at in range(options.rounds + 1):
        constraints = [compile(schema(f"r{at}s{row}"), vocabulary) for row in range(options.sequences)]
        times = [
            decode(engine, ids, options.tokens, matchers)
            for matchers in (
                free,
                [constraint.matcher(max_tokens=options.budget) for constraint in constraints],
                [constraint.matcher(max_tokens=options.budget) for constraint in constraints],
            )
        ]
        if at:  # the first round compiles kernels
            for ratios, other in ((new, times[1]), (again, times[2])):
                ratios.append((times[0][0] / other[0], times[0][1] / other[1]))
    rate = options.sequences * options.tokens / times[0][0]
    print(f"| {options.sequences} sequences free | {rate:,.1f} tokens/s (last round) |")
    for what, ratios in (
        ("each by a schema of its own, new in every round", new),
        ("the same schemas once more", again),
    ):
        wall, cpu = (statistics.median(each) for each in zip(*ratios, strict=True))
        print(f"| constrained, {what} | {wall:.3f} x free (by processor time {cpu:.3f}) |")


def transformers_batch(model: Model, options: argparse.Namespace) -> None:
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    path = fetch_default_model()
    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.bfloat16
    ).eval()
    engine = BatchEngine(model, blocks=4096, max_sequences=options.sequences)
    length = min(map(len, prompts(model, options.sequences)))
    ids = [prompt[-length:] for prompt in prompts(model, options.sequences)]
    batch, mask = torch.tensor(ids), torch.ones(len(ids), length, dtype=torch.int64)

    def generate(count: int) -> float:
        begin = time.perf_counter()
        theirs.generate(batch, attention_mask=mask, max_new_tokens=count, min_new_tokens=count, do_sample=False)
        return time.perf_counter() - begin

    ratios, best = [], [float("inf")] * 2
    for at in range(options.rounds + 1):
        mine, _ = decode(engine, ids, options.tokens, [None] * len(ids))
        other = generate(options.tokens + 1) - generate(1)
        if at:
            ratios.append(other / mine)
            best = [min(best[0], mine), min(best[1], other)]
    rates = [options.tokens * len(ids) / seconds for seconds in best]
    print(f"| {len(ids)} sequences, bfloat16, best round | {rates[0]:,.1f} tokens/s |")
    print(f"| Transformers {transformers.__version__}, batch of {len(ids)}, best round | {rates[1]:,.1f} tokens/s |")
    print(f"| engine : Transformers, median of {options.rounds} rounds | {statistics.median(ratios):.2f} x |")


def first_tokens(model: Model, options: argparse.Namespace, prefix_cache: bool) -> float:
    """Median time to the first token of requests that come at once and begin alike."""
    assert model.text is not None
    long = model.text.encode("The keeper wrote down the weather each evening, and the ships that passed. " * 200)
    engine = BatchEngine(model, blocks=8192, max_sequences=options.requests, prefix_cache=prefix_cache)
    requests: list[Request] = [
        engine.add([*long[: options.prefix], *model.text.encode(f"Question {at}: why?")], max_new_tokens=1)
        for at in range(options.requests)
    ]
    engine.run()
    return statistics.median(engine.result(request).metrics.ttft_s for request in requests)


def prefix(model: Model, options: argparse.Namespace) -> None:
    first_tokens(model, argparse.Namespace(requests=2, prefix=options.prefix), True)
    ratios = []
    for _ in range(max(1, options.rounds // 3)):
        without = first_tokens(model, options, False)
        ratios.append(first_tokens(model, options, True) / without)
    print(
        f"| {options.requests} requests with {options.prefix:,} shared tokens: TTFT p50 without the prefix cache | "
        f"{without:.2f} s |"
    )
    print(f"| the same with it, median of {len(ratios)} rounds | {statistics.median(ratios):.3f} x |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--prefix", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--budget", type=int, help="max_tokens of the constraints (none)")
    parser.add_argument("--masks-before", action="store_true", help="fill masks before the forward pass, not beside it")
    kinds = {"constrained": constrained, "transformers": transformers_batch, "prefix": prefix}
    parser.add_argument("--only", nargs="+", choices=kinds, default=list(kinds))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model = load_model(fetch_default_model(), device="cpu", dtype="bfloat16")
    print(f"`{shlex.join(['python', *sys.argv])}`, {datetime.now(UTC):%Y-%m-%d}, {platform.machine()},")
    print(f"Python {platform.python_version()}, torch {torch.__version__}, {options.threads} threads\n")
    print("| SmolLM2-135M-Instruct, bfloat16 | |\n|---|---:|")
    for kind in options.only:
        kinds[kind](model, options)


if __name__ == "__main__":
    main()
