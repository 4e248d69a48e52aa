"""`constrained batch`: a file of requests in, a file of answers out, one JSON object a line."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from constrained.cli.errors import OK, UsageError
from constrained.progress import progress_bars


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input", metavar="IN.jsonl", help="requests in the form of OpenAI's batches, or bare bodies")
    parser.add_argument(
        "output", metavar="OUT.jsonl", help="answers; those that it holds already are not asked for again"
    )
    parser.add_argument("--model", metavar="M", help="GGUF file, safetensors folder or hub id (the default model)")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda (auto)")
    parser.add_argument("--dtype", default="auto", help="auto, bfloat16, float16, float32, int8, int4 (auto)")
    parser.add_argument("--kv-memory", metavar="SIZE", help="memory of keys and values, as 2GiB")
    parser.add_argument("--concurrency", type=int, default=64, metavar="N", help="requests at a time (64)")


def run(options: argparse.Namespace) -> int:
    if options.concurrency < 1:
        raise UsageError(f"--concurrency: {options.concurrency} is below 1")
    try:
        from constrained.server.batch import BatchFileError, answer_file, open_answers, read_requests
    except ImportError as error:
        raise UsageError(f"batches need {error.name}: pip install 'constrained[server]'") from None
    try:
        requests = read_requests(Path(options.input))
        answers = open_answers(Path(options.output))
    except BatchFileError as error:
        raise UsageError(str(error)) from None
    with answers, progress_bars() as show:
        left = [one for one in requests if one.custom_id not in answers.done]
        skipped = len(requests) - len(left)
        if skipped:
            print(f"constrained: {skipped} of {len(requests)} are answered already", file=sys.stderr)
        if left:
            failed = answer_file(
                lambda: _load(options), left, answers, options.concurrency,
                lambda done: show("answering", skipped + done, len(requests)),
            )  # fmt: skip
            if failed:
                print(
                    f"constrained: {failed} of {len(left)} were refused or failed; their lines say why", file=sys.stderr
                )
    return OK


def _load(options: argparse.Namespace) -> object:
    from constrained.llm import LLM

    with progress_bars() as show:
        return LLM(
            options.model,
            device=options.device,
            dtype=options.dtype,
            kv_memory=options.kv_memory,
            max_sequences=options.concurrency,
            max_waiting=max(options.concurrency * 16, 16),
            progress=lambda done, total: show("fetching the model", done, total),
        )
