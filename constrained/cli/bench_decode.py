"""`constrained bench decode`: tokens a second and milliseconds a step at batch sizes, free and constrained."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from constrained.cli.errors import OK, UsageError

if TYPE_CHECKING:
    from constrained.bench.beside_transformers import TransformersBench
    from constrained.bench.decode import Figure
    from constrained.vocabulary import Vocabulary
    from engine.model import Model

SUMMARY = "decode batches, free and constrained: tokens a second, ms a step, the floor that memory sets"

_COLUMNS = ("batch", "free tok/s", "ms/step", "constrained tok/s", "ms/step", "of free", "floor ms", "of floor")
_CUDA_SHAPE, _CUDA_BATCHES, _BATCHES = "llama-3-8b", [1, 8, 64, 256], [1, 4, 16]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", metavar="M", help="GGUF, folder or hub id (the default model)")
    parser.add_argument(
        "--shape", metavar="NAME", help=f"random weights of a published shape instead (on CUDA {_CUDA_SHAPE})"
    )
    parser.add_argument("--device", default="auto", metavar="auto|cpu|cuda")
    parser.add_argument("--dtype", default="bfloat16", help="(bfloat16)")
    parser.add_argument("--batch", type=_size, nargs="+", metavar="N", help="sequences (1 4 16; on CUDA 1 8 64 256)")
    parser.add_argument("--tokens", type=_size, default=64, metavar="N", help="measured for each sequence (64)")
    parser.add_argument("--prompt", type=_size, default=128, metavar="N", help="tokens before them (128)")
    parser.add_argument(
        "--transformers", action="store_true", help="measure Transformers' generate on the same device, too"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")


def run(options: argparse.Namespace) -> int:
    from constrained.bench.decode import DecodeBench
    from engine.devices import choose_device

    on_cuda = choose_device(options.device).type == "cuda"
    if on_cuda and options.model is None and options.shape is None:
        options.shape = _CUDA_SHAPE
    batches = options.batch or (_CUDA_BATCHES if on_cuda else _BATCHES)
    model, vocabulary = _model(options)
    if options.prompt + options.tokens + 1 > model.config.context_length:
        raise UsageError(
            f"--prompt {options.prompt} and --tokens {options.tokens} do not fit into the model's context of "
            f"{model.config.context_length}"
        )
    beside = _transformers(options, model) if options.transformers else None
    bench = DecodeBench(model, vocabulary, prompt=options.prompt, tokens=options.tokens, beside=beside)
    head = {
        "model": options.shape or options.model or "default",
        "device": str(model.device),
        "dtype": options.dtype,
        "weights_mb": model.read_bytes(1) // 10**6,
        "bandwidth_gb_per_s": round(bench.bandwidth / 1e9, 1),
        "prompt": options.prompt,
        "tokens": options.tokens,
    }
    if options.json:
        figures = [figure.as_dict() for figure in bench.measure(batches)]
        print(json.dumps({**head, "figures": figures}, indent=1))
        return OK
    print("  ".join(f"{name}={value}" for name, value in head.items()))
    columns = (*_COLUMNS, "Transformers ms", "of Transformers") if beside else _COLUMNS
    print("".join(f"{name:>19}" for name in columns))
    for figure in bench.measure(batches):
        print("".join(f"{value:>19}" for value in _line(figure)), flush=True)
    return OK


def _line(figure: Figure) -> list[str]:
    theirs = figure.transformers_ms
    beside = [] if theirs is None else [f"{theirs:,.2f}", f"{theirs / figure.free_ms:.2f} x"]
    return [
        f"{figure.batch}",
        f"{figure.free_rate:,.1f}",
        f"{figure.free_ms:,.2f}",
        f"{figure.constrained_rate:,.1f}",
        f"{figure.constrained_ms:,.2f}",
        f"{figure.free_ms / figure.constrained_ms:.3f}",
        f"{figure.floor_ms:,.2f}",
        f"{figure.floor_ms / figure.free_ms:.1%}",
        *beside,
    ]


def _model(options: argparse.Namespace) -> tuple[Model, Vocabulary]:
    from constrained import Vocabulary
    from engine.loading import load_model
    from engine.loading.random_weights import SHAPES, random_model

    if options.shape is not None:
        if options.model is not None:
            raise UsageError("--shape stands for random weights and --model for real ones; give one of them")
        if options.shape not in SHAPES:
            raise UsageError(f"--shape {options.shape}: no such shape; choose {', '.join(SHAPES)}")
        model = random_model(options.shape, device=options.device, dtype=options.dtype)
        return model, _letters(model.config.vocab_size)
    model = load_model(options.model, options.device, options.dtype)
    if model.text is None:
        raise UsageError("--model: it has no tokenizer to compile constraints for")
    size: Any = model.config.vocab_size
    return model, Vocabulary.from_huggingface(model.text.tokenizer, logits_size=size)


def _transformers(options: argparse.Namespace, model: Model) -> TransformersBench:
    from constrained.bench.beside_transformers import TransformersBench
    from engine.loading.places import locate
    from engine.loading.random_weights import SHAPES

    source = locate(options.model, None) if options.shape is None else SHAPES[options.shape]
    try:
        return TransformersBench(source, model.device, model.dtype)
    except ImportError as error:
        raise UsageError(f"--transformers needs {error.name}: pip install 'constrained[transformers]'") from None


def _letters(size: int) -> Vocabulary:
    """A vocabulary of `size` tokens: the bytes, an end token, and words of two to four letters."""
    from constrained import Vocabulary

    tokens: list[bytes | None] = [*(bytes([byte]) for byte in range(256)), None]
    letters = b"etaoinshrdlucmfwygpbvkxqjz ETAOINSHRDLU"
    number = len(letters)
    while len(tokens) < size:
        digits, rest = [], number
        while rest:
            rest, digit = divmod(rest, len(letters))
            digits.append(letters[digit])
        tokens.append(bytes(digits))
        number += 1
    return Vocabulary.from_token_bytes(tokens[:size], eos_token_ids=[256])


def _size(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is below 1")
    return value
