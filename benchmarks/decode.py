"""Decoding and prefill speed of the default model on this machine, the engine beside Transformers in one process.

    python benchmarks/decode.py [--tokens 128] [--prompt 1000] [--rounds 5] [--dtype bfloat16] [--threads N]

Both sides take turns, round by round, so that whatever else the machine does falls on both; the table gives each side's
best round (the time with least disturbance) and the median of the rounds' ratios.  Run it with nothing else running:
another process costs Transformers, which waits at more barriers, more than it costs the engine.
"""

from __future__ import annotations

import argparse
import platform
import shlex
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from engine.loading import fetch_default_model, load_model
from engine.model import Model

TEXT = "The lighthouse keeper wrote down the weather each evening, and the names of the ships that passed. "


def engine_decode(model: Model, ids: torch.Tensor, tokens: int) -> float:
    """Seconds for `tokens` greedy steps after the prompt."""
    cache = model.new_cache()
    token = model.forward(ids, cache).argmax(-1, keepdim=True)
    begin = time.perf_counter()
    for _ in range(tokens):
        token = model.forward(token, cache).argmax(-1, keepdim=True)
        token.item()
    return time.perf_counter() - begin


def transformers_decode(model: Any, ids: torch.Tensor, tokens: int) -> float:
    """Seconds for `tokens` more greedy steps of `generate` than one."""
    mask = torch.ones_like(ids)

    def generate(count: int) -> float:
        begin = time.perf_counter()
        out = model.generate(ids, attention_mask=mask, max_new_tokens=count, min_new_tokens=count, do_sample=False)
        assert out.shape[1] == ids.shape[1] + count
        return time.perf_counter() - begin

    first = generate(1)
    return generate(tokens + 1) - first


def engine_prefill(model: Model, ids: torch.Tensor) -> float:
    begin = time.perf_counter()
    model.forward(ids, model.new_cache())
    return time.perf_counter() - begin


def transformers_prefill(model: Any, ids: torch.Tensor) -> float:
    begin = time.perf_counter()
    with torch.inference_mode():
        model(ids, use_cache=True, logits_to_keep=1)
    return time.perf_counter() - begin


def take_turns(ours: Callable[[], float], theirs: Callable[[], float], rounds: int) -> tuple[list[float], list[float]]:
    """Times of both sides, one unmeasured round first."""
    ours(), theirs()
    pairs = [(ours(), theirs()) for _ in range(rounds)]
    return [mine for mine, _ in pairs], [other for _, other in pairs]


def row(name: str, unit: str, count: int, ours: list[float], theirs: list[float]) -> str:
    ratio = statistics.median(other / mine for mine, other in zip(ours, theirs, strict=True))
    return (
        f"| {name} | {count / min(ours):,.1f} {unit} | {count / min(theirs):,.1f} {unit} "
        f"| {min(theirs) / min(ours):.2f} × | {ratio:.2f} × |"
    )


def processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]}, {len(names)} cores" if names else platform.processor()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--prompt", type=int, default=1000, help="tokens of the prefill measurement")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(options.threads)
    path = fetch_default_model()
    begin = time.perf_counter()
    ours = load_model(path, device="cpu", dtype=options.dtype)
    loaded = time.perf_counter() - begin
    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=getattr(torch, options.dtype)
    ).eval()
    assert ours.text is not None
    long = torch.tensor([ours.text.encode(TEXT * (options.prompt // 10))[: options.prompt]])
    short = long[:, :32]

    decode = take_turns(
        lambda: engine_decode(ours, short, options.tokens),
        lambda: transformers_decode(theirs, short, options.tokens),
        options.rounds,
    )
    prefill = take_turns(lambda: engine_prefill(ours, long), lambda: transformers_prefill(theirs, long), options.rounds)
    print(f"`{shlex.join(['python', *sys.argv])}`, {datetime.now(UTC):%Y-%m-%d}, {processor()}, {platform.system()},")
    print(
        f"Python {platform.python_version()}, torch {torch.__version__}, transformers {transformers.__version__}, "
        f"{options.threads} threads, {options.dtype}, batch 1\n"
    )
    print("| SmolLM2-135M-Instruct | engine | Transformers | best : best | median of rounds |")
    print("|---|---:|---:|---:|---:|")
    print(row(f"decode, {options.tokens} tokens after 32", "tokens/s", options.tokens, *decode))
    print(row(f"prefill, {options.prompt:,} tokens", "tokens/s", options.prompt, *prefill))
    print(f"\nLoading (converted weights cached): {loaded:.2f} s.")


if __name__ == "__main__":
    main()
