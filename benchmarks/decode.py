"""Decoding and prefill speed of the default model on this machine, the engine beside Transformers in one process.

    python benchmarks/decode.py [--tokens 128] [--prompt 1000] [--rounds 5] [--dtype bfloat16 int8 int4] [--threads N]

Transformers runs in bfloat16 (in float32 where the engine does nothing else).  The sides take turns, round by round, so
that whatever else the machine does falls on all; the table gives each side's best round (the time with least disturbance)
and the median of the rounds' ratios.  Run it with nothing else running: another process costs Transformers, which waits at
more barriers, more than it costs the engine.
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
from engine.quality import TEXTS, compare

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


def take_turns(sides: list[Callable[[], float]], rounds: int) -> list[list[float]]:
    """Times of each side, one unmeasured round first."""
    for side in sides:
        side()
    times = [[side() for side in sides] for _ in range(rounds)]
    return [list(column) for column in zip(*times, strict=True)]


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
    parser.add_argument(
        "--dtype", nargs="+", default=["bfloat16", "int8", "int4"], help="of the engine, one or several"
    )
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(options.threads)
    path = fetch_default_model()
    models, loaded = {}, {}
    for dtype in options.dtype:
        begin = time.perf_counter()
        models[dtype] = load_model(path, device="cpu", dtype=dtype)
        loaded[dtype] = time.perf_counter() - begin
    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32 if options.dtype == ["float32"] else torch.bfloat16
    ).eval()
    text = next(iter(models.values())).text
    assert text is not None
    long = torch.tensor([text.encode(TEXT * (options.prompt // 10))[: options.prompt]])
    short = long[:, :32]

    decodes = [lambda model=model: engine_decode(model, short, options.tokens) for model in models.values()]
    prefills = [lambda model=model: engine_prefill(model, long) for model in models.values()]
    *decode, decode_theirs = take_turns(
        [*decodes, lambda: transformers_decode(theirs, short, options.tokens)], options.rounds
    )
    *prefill, prefill_theirs = take_turns([*prefills, lambda: transformers_prefill(theirs, long)], options.rounds)
    print(f"`{shlex.join(['python', *sys.argv])}`, {datetime.now(UTC):%Y-%m-%d}, {processor()}, {platform.system()},")
    print(
        f"Python {platform.python_version()}, torch {torch.__version__}, transformers {transformers.__version__} in "
        f"{str(theirs.dtype).removeprefix('torch.')}, {options.threads} threads, batch 1\n"
    )
    print("| SmolLM2-135M-Instruct | engine | Transformers | best : best | median of rounds |")
    print("|---|---:|---:|---:|---:|")
    for dtype, times in zip(models, decode, strict=True):
        name = f"{dtype}, decode, {options.tokens} tokens after 32"
        print(row(name, "tokens/s", options.tokens, times, decode_theirs))
    for dtype, times in zip(models, prefill, strict=True):
        print(row(f"{dtype}, prefill, {options.prompt:,} tokens", "tokens/s", options.prompt, times, prefill_theirs))
    print(
        "\nLoading (converted weights cached): " + ", ".join(f"{dtype} {took:.2f} s" for dtype, took in loaded.items())
    )
    for dtype, model in models.items():
        if model.packing is not None:
            plain = load_model(path, device="cpu", dtype="bfloat16")
            quality = compare(model, plain, [text.encode(each) for each in TEXTS])
            print(
                f"{dtype}: perplexity {quality.perplexity:.3f} against {quality.reference:.3f} in bfloat16 "
                f"({quality.worse:+.2%}), greedy agreement {quality.agreement:.1%}"
            )


if __name__ == "__main__":
    main()
