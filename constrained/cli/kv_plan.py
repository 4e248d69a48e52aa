"""`constrained kv-plan`: how much memory keys and values take, and how many sequences fit."""

from __future__ import annotations

import argparse

from constrained.cli.errors import OK, UsageError
from constrained.options import format_size, parse_size

_DTYPES = {"float32": 4, "bfloat16": 2, "float16": 2, "int8": 1}


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
    parser.add_argument("--block-size", type=count, default=16, help="tokens of a block of a paged cache (16)")
    parser.add_argument("--memory", metavar="SIZE", help="memory for the cache, such as 2GiB: how many sequences fit")


def run(options: argparse.Namespace) -> int:
    from rich.console import Console
    from rich.table import Table

    from engine.caches import kv_cache_bytes, required_blocks

    memory = None
    if options.memory is not None:
        try:
            memory = parse_size(options.memory)
        except ValueError as error:
            raise UsageError(f"--memory: {error}") from None
    kinds = {f"{options.dtype_bytes} bytes": options.dtype_bytes} if options.dtype_bytes else _DTYPES
    shape = (options.kv_heads, options.seq_len, options.head_dim)
    columns = ["dtype", "per token", "per sequence", f"batch of {options.batch}", "blocks per sequence"]
    table = Table(*columns, *([f"sequences in {options.memory}"] if memory else []), box=None, pad_edge=False)
    blocks = required_blocks(options.seq_len, 0, options.block_size)
    for name, width in kinds.items():
        token = kv_cache_bytes(options.layers, 1, options.kv_heads, 1, options.head_dim, width)
        cells = [
            name,
            format_size(token),
            format_size(kv_cache_bytes(options.layers, 1, *shape, width)),
            format_size(kv_cache_bytes(options.layers, options.batch, *shape, width)),
            str(blocks),
        ]
        if memory:
            cells.append(str(memory // (token * blocks * options.block_size)))
        table.add_row(*cells)
    Console(soft_wrap=True).print(table)
    return OK
