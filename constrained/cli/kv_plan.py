"""`constrained kv-plan`: how much memory keys and values take in each layout, and how many sequences fit."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

from constrained.cli.errors import OK, UsageError
from constrained.options import format_size, parse_size

_DTYPES = {"float32": 4, "bfloat16": 2, "float16": 2}
_BLOCK_SIZE = 16
_LONG = 1 << 20

Bytes = Callable[[int, int], int]
"""Sequences and tokens of each → bytes."""


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
    parser.add_argument("--query-heads", type=count, help="adds what a key and value for each query head would take")
    parser.add_argument(
        "--latent-dim", type=count, help="adds latent attention: its rank and rotated dimensions together"
    )
    parser.add_argument("--dtype-bytes", type=count, help="bytes of one number; without it, a row for each dtype")
    parser.add_argument("--block-size", type=count, help=f"tokens of a block of the paged cache ({_BLOCK_SIZE})")
    parser.add_argument("--memory", metavar="SIZE", help="memory for the cache, such as 2GiB: how many sequences fit")


def run(options: argparse.Namespace) -> int:
    from rich.console import Console
    from rich.table import Column, Table

    memory = _memory(options.memory)
    columns = ["per token", "per sequence", f"batch of {options.batch}", "blocks per sequence"]
    columns += [f"sequences in {options.memory}"] if memory else []
    table = Table(Column("layout", no_wrap=True), *columns, box=None, pad_edge=False)
    for row in rows(options, memory):
        table.add_row(*row)
    Console(soft_wrap=True).print(table)
    return OK


def rows(options: argparse.Namespace, memory: int | None) -> Iterator[list[str]]:
    """The cells of the table, a row for each layout; how many sequences fit where `memory` was given.

    Quantized caches are not paged, so their rows name no blocks; what they take per token is that of a very long sequence.
    """
    from engine.caches.plan import required_blocks

    block = options.block_size or _BLOCK_SIZE
    tokens = options.seq_len
    for name, paged, needed in layouts(options):
        blocks = required_blocks(tokens, 0, block)
        token = needed(1, 1) if paged else needed(1, _LONG) // _LONG
        cells = [name, format_size(token), format_size(needed(1, tokens)), format_size(needed(options.batch, tokens))]
        cells.append(str(blocks) if paged else "-")
        if memory:
            cells.append(str(memory // needed(1, blocks * block if paged else tokens)))
        yield cells


def layouts(options: argparse.Namespace) -> Iterator[tuple[str, bool, Bytes]]:
    """Name, whether it can be paged, and its size."""
    from engine.caches.plan import kv_cache_bytes, latent_cache_bytes, quantized_kv_bytes

    layers, heads, width = options.layers, options.kv_heads, options.head_dim
    dtypes = {f"{options.dtype_bytes} bytes": options.dtype_bytes} if options.dtype_bytes else dict(_DTYPES)

    def plain(heads: int, size: int) -> Bytes:
        return lambda batch, tokens: kv_cache_bytes(layers, batch, heads, tokens, width, size)

    def packed(bits: int) -> Bytes:
        return lambda batch, tokens: quantized_kv_bytes(layers, batch, heads, tokens, width, bits)

    def latent(size: int) -> Bytes:
        return lambda batch, tokens: latent_cache_bytes(layers, batch, options.latent_dim, 0, tokens, size)

    for name, size in dtypes.items():
        yield name, True, plain(heads, size)
    if not options.dtype_bytes:
        yield "quantized int8", False, packed(8)
        yield "quantized int4", False, packed(4)
    size = options.dtype_bytes or 2
    if options.query_heads:
        yield f"{options.query_heads} heads, {size} bytes", True, plain(options.query_heads, size)
        yield f"1 head, {size} bytes", True, plain(1, size)
    if options.latent_dim:
        yield f"latent, {size} bytes", True, latent(size)


def _memory(size: str | None) -> int | None:
    if size is None:
        return None
    try:
        return parse_size(size)
    except ValueError as error:
        raise UsageError(f"--memory: {error}") from None
