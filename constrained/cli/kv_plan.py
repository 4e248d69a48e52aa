"""`constrained kv-plan`: how much memory keys and values take, and how many sequences fit."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from constrained.cli.errors import OK, UsageError
from constrained.options import format_size, parse_size

_DTYPES = {"float32": 4, "bfloat16": 2, "float16": 2}
_BLOCK_SIZE = 16


def add_options(parser: argparse.ArgumentParser) -> None:
    def count(text: str) -> int:
        value = int(text)
        if value < 1:
            raise argparse.ArgumentTypeError(f"{text} is below 1")
        return value

    parser.add_argument("--layers", type=count, required=True)
    parser.add_argument("--kv-heads", type=count, required=True, help="heads that keep keys and values")
    parser.add_argument("--head-dim", type=count, required=True)
    parser.add_argument("--seq-len", type=count, required=True, help="tokens of a sequence, prompt and output")
    parser.add_argument("--batch", type=count, default=1, help="sequences at the same time (1)")
    parser.add_argument("--dtype-bytes", type=count, help="bytes of one number; without it, a row for each dtype")
    parser.add_argument("--block-size", type=count, help=f"tokens of a block of a paged cache ({_BLOCK_SIZE})")
    parser.add_argument("--memory", metavar="SIZE", help="memory for the cache, such as 2GiB: how many sequences fit")


def run(options: argparse.Namespace) -> int:
    from rich.console import Console
    from rich.table import Table

    from engine.caches import NAMES

    memory = _memory(options.memory)
    if options.block_size is not None and "paged" not in NAMES:
        raise UsageError(f"--block-size: there is no paged cache here; the caches are {', '.join(NAMES)}")
    block = (options.block_size or _BLOCK_SIZE) if "paged" in NAMES else None
    columns = ["dtype", "per token", "per sequence", f"batch of {options.batch}"]
    columns += ["blocks per sequence"] if block else []
    columns += [f"sequences in {options.memory}"] if memory else []
    table = Table(*columns, box=None, pad_edge=False)
    for row in rows(options, "quantized" in NAMES, block, memory):
        table.add_row(*row)
    Console(soft_wrap=True).print(table)
    return OK


def rows(options: argparse.Namespace, quantized: bool, block: int | None, memory: int | None) -> Iterator[list[str]]:
    """The cells of the table, a row for each dtype; `block` where a paged cache exists, `memory` where it was given."""
    from engine.caches.plan import kv_cache_bytes, required_blocks

    widths = {f"{options.dtype_bytes} bytes": options.dtype_bytes} if options.dtype_bytes else dict(_DTYPES)
    if quantized and not options.dtype_bytes:
        widths["int8"] = 1
    shape = (options.kv_heads, options.seq_len, options.head_dim)
    blocks = required_blocks(options.seq_len, 0, block) if block else 0
    for name, width in widths.items():
        token = kv_cache_bytes(options.layers, 1, options.kv_heads, 1, options.head_dim, width)
        cells = [name, format_size(token)]
        cells += [format_size(kv_cache_bytes(options.layers, batch, *shape, width)) for batch in (1, options.batch)]
        cells += [str(blocks)] if block else []
        cells += [str(memory // (token * (blocks * block if block else options.seq_len)))] if memory else []
        yield cells


def _memory(size: str | None) -> int | None:
    if size is None:
        return None
    try:
        return parse_size(size)
    except ValueError as error:
        raise UsageError(f"--memory: {error}") from None
