"""`constrained generate`: the constrained text alone on standard output, everything else on standard error."""

from __future__ import annotations

import argparse
import gc
import sys
from typing import TYPE_CHECKING, Any

from constrained.cli.errors import OK, UsageError
from constrained.cli.grammar_options import add_grammar_options, read_grammar
from constrained.progress import progress_bars
from grammars import Grammar, JsonSchema

if TYPE_CHECKING:
    from constrained.llm import LLM
    from constrained.results import Generation
    from constrained.streaming import TextStream


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--prompt", required=True, metavar="TEXT", help="what the model reads; - reads standard input")
    add_grammar_options(parser)
    model = parser.add_argument_group("model")
    model.add_argument("--model", metavar="M", help="GGUF file, safetensors folder or hub id (the default model)")
    model.add_argument("--device", default="auto", help="auto, cpu, cuda (auto)")
    model.add_argument("--dtype", default="auto", help="auto, bfloat16, float16, float32 (auto)")
    sampling = parser.add_argument_group("sampling")
    sampling.add_argument("--max-tokens", type=int, default=256, metavar="N", help="most tokens of the text (256)")
    sampling.add_argument("--temperature", type=float, default=0.0, metavar="T", help="0 takes the likeliest (0)")
    sampling.add_argument("--top-k", type=int, default=0, metavar="K")
    sampling.add_argument("--top-p", type=float, default=1.0, metavar="P")
    sampling.add_argument("--min-p", type=float, default=0.0, metavar="P")
    sampling.add_argument("--seed", type=int, metavar="S", help="the same seed gives the same text")
    output = parser.add_argument_group("output")
    output.add_argument("--stream", action="store_true", help="write the text as it comes")
    output.add_argument("--stats", action="store_true", help="times and counts, on standard error")


def run(options: argparse.Namespace) -> int:
    if options.max_tokens < 1:
        raise UsageError(f"--max-tokens: {options.max_tokens} is below 1")
    grammar = read_grammar(options)
    prompt = sys.stdin.read() if options.prompt == "-" else options.prompt
    if not prompt.strip():
        raise UsageError("--prompt: the prompt is empty")
    sampling = _sampling(options)
    if grammar is not None:
        from constrained.compile import check_grammar

        check_grammar(grammar)  # before a model is fetched or loaded for it
    gc.disable()  # loading makes many objects and drops none
    try:
        llm = _load(options)
    finally:
        gc.enable()
        gc.freeze()
    stream = _start(llm, prompt, grammar, options.max_tokens, sampling)
    with stream:
        for event in stream:
            if options.stream:
                sys.stdout.write(event.text)
                sys.stdout.flush()
        generation = stream.result()
    text = generation.text
    # What was streamed is whole but for a character that never was.
    sys.stdout.write(text[stream.written :] if options.stream else text)
    if sys.stdout.isatty():
        sys.stdout.write("\n")
    if options.stats:
        sys.stdout.flush()
        print_stats(generation)
    return OK


def _sampling(options: argparse.Namespace) -> Any:
    from engine.sampling import Sampling, SamplingError

    try:
        return Sampling(
            temperature=options.temperature,
            top_k=options.top_k,
            top_p=options.top_p,
            min_p=options.min_p,
            seed=options.seed,
        )
    except SamplingError as error:
        raise UsageError(str(error)) from None


def _load(options: argparse.Namespace) -> LLM:
    with progress_bars() as show:
        show("loading the model", 0, 0)
        from constrained.llm import LLM

        def fetched(done: int, total: int) -> None:
            show("fetching the model", done, total)

        return LLM(options.model, device=options.device, dtype=options.dtype, progress=fetched)


def _start(llm: LLM, prompt: str, grammar: Grammar | None, max_tokens: int, sampling: Any) -> TextStream:
    if isinstance(grammar, JsonSchema):
        return llm.stream_json(prompt, grammar, max_tokens=max_tokens, sampling=sampling)
    return llm.stream(prompt, grammar, max_tokens=max_tokens, sampling=sampling)


def print_stats(generation: Generation) -> None:
    """Counts and times on standard error."""
    metrics = generation.metrics
    print(
        f"prompt {metrics.prompt_tokens} tokens, output {metrics.output_tokens} tokens, {generation.finish_reason}\n"
        f"first token after {metrics.ttft_s:.3f} s, {metrics.tokens_per_s:.1f} tokens/s\n"
        f"forward {metrics.forward_s:.3f} s, masks {1000 * metrics.mask_s:.2f} ms, "
        f"sampling {1000 * metrics.sample_s:.2f} ms\n"
        f"{metrics.target_forwards} forward passes, {metrics.accepted} of {metrics.drafted} guessed tokens accepted",
        file=sys.stderr,
    )
    for fallback in generation.fallbacks:
        print(f"step {fallback.step}: {fallback.rule} gave way ({fallback.policy})", file=sys.stderr)
