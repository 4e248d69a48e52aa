"""Steps of fixed shapes over a pool of blocks, so that a batch that decodes is captured as CUDA graphs.

A program serves a number of rows and a number of positions: rows are filled up to the next power of two with rows that belong to
nobody, tables up to the next of 256, 512, 1,024, ... positions with the spare block.  All that differs from step to step, tokens,
lengths and tables, is one tensor, which goes to the device in one copy that nobody waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, NoReturn

import torch
from torch import Tensor

from engine.attention import Backend, note
from engine.devices import has_triton, upload
from engine.errors import CacheError
from engine.fixed_step import bucket_of, capture
from engine.paged_attention import paged_attend
from engine.rope import RotaryEmbedding

if TYPE_CHECKING:
    from engine.caches import BlockPool, PagedCache
    from engine.model import Model

PagedRunner = Literal["plain", "eager", "graph"]
PAGED_RUNNERS: tuple[PagedRunner, ...] = ("plain", "eager", "graph")
"""`"plain"`: ordinary steps; `"eager"`: fixed ones as they are; `"graph"`: captured as CUDA graphs."""


def choose_runner(model: Model, runner: PagedRunner | Literal["auto"]) -> PagedRunner:
    """`"auto"`: graphs on CUDA where Triton reads the blocks and the model can be captured, ordinary steps elsewhere.

    Raises:
        CacheError: a runner that there is not, or that cannot run this model here.
    """
    config = model.config
    fixed = config.latent is None and config.experts is None
    if runner == "auto":
        return "graph" if model.device.type == "cuda" and has_triton() and fixed else "plain"
    if runner not in PAGED_RUNNERS:
        raise CacheError(f"unknown runner {runner!r}: choose {', '.join(map(repr, (*PAGED_RUNNERS, 'auto')))}")
    if runner == "graph" and model.device.type != "cuda":
        raise CacheError(f"runner='graph' captures CUDA graphs, and the model is on {model.device}: pass 'plain'")
    if runner != "plain" and not fixed:
        raise CacheError(
            f"runner={runner!r}: latent attention and mixtures of experts have no steps of fixed shapes; pass 'plain'"
        )
    return runner


class PagedStep:
    """What the layers of one step share, as `engine.step.Step`: one new token in each row, at the row's own position."""

    unpacked = False
    backend: Backend = "paged"

    def __init__(self, pool: BlockPool, tables: Tensor, lengths: Tensor, bucket: int) -> None:
        """`tables` int64 [batch, blocks] for `bucket` positions; `lengths` int64 [batch]: where the new tokens stand."""
        self.cache = _Blocks(pool, tables, lengths, bucket)
        self._positions, self._bucket = lengths.unsqueeze(1), bucket
        self._rotations: dict[int, tuple[Tensor, Tensor]] = {}

    def rotation(self, rotary: RotaryEmbedding) -> tuple[Tensor, Tensor]:
        if id(rotary) not in self._rotations:
            self._rotations[id(rotary)] = rotary.gather(self._positions, self._bucket - 1)
        return self._rotations[id(rotary)]

    def mask(self, window: int, layer: int) -> NoReturn:
        raise AssertionError("blocks are attended to where they lie")


class _Blocks:
    """A pool's blocks, written and read at places that are tensors."""

    def __init__(self, pool: BlockPool, tables: Tensor, lengths: Tensor, bucket: int) -> None:
        self._pool, self._tables, self._lengths, self._bucket = pool, tables, lengths, bucket
        size, heads = pool.manager.block_size, pool.config.kv_heads
        blocks = tables.gather(1, (lengths // size).unsqueeze(1))
        of_heads = blocks * heads + torch.arange(heads, device=tables.device)
        self._places = (of_heads * size + (lengths % size).unsqueeze(1)).flatten()

    def attend(
        self,
        layer: int,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        backend: Backend,
        *,
        window: int,
        scale: float | None,
        softcap: float,
    ) -> Tensor:
        """As `Cache.attend`, which never declines here."""
        all_keys, all_values = self._pool.tensors[layer]
        for tensor, fresh in ((all_keys, keys), (all_values, values)):
            width = tensor.shape[-1]
            tensor.view(-1, width).index_copy_(0, self._places, fresh.reshape(-1, width))
        note("paged triton" if queries.is_cuda and has_triton() else "paged torch")
        return paged_attend(
            queries, all_keys, all_values, self._tables, self._lengths, self._bucket - 1,
            window=window, scale=scale, softcap=softcap,
        )  # fmt: skip

    def first(self, layer: int) -> int:
        return 0

    def update(self, layer: int, keys: Tensor, values: Tensor) -> NoReturn:
        raise AssertionError("blocks are attended to where they lie")


class PagedDecoder:
    """Runs steps of one new token a row over one pool, whose tensors stay where they are.

    Attributes:
        programs: for (rows, positions), how often it was made or captured: 1, or something is wrong.
    """

    def __init__(self, model: Model, pool: BlockPool, runner: PagedRunner) -> None:
        self._model, self._pool, self._runner = model, pool, runner
        size = pool.manager.block_size
        self._capacity = -(-model.config.context_length // size) * size
        self._programs: dict[tuple[int, int], tuple[Tensor, Callable[[], Tensor]]] = {}
        self._memory = torch.cuda.graph_pool_handle() if runner == "graph" else None
        self.programs: dict[tuple[int, int], int] = {}

    @torch.inference_mode()
    def run(self, tokens: Sequence[int], cache: PagedCache) -> Tensor:
        """Logits float32 [rows, vocab] behind one more token of each row of `cache`, which has it then.

        Raises:
            CacheError: not enough blocks; nothing has changed.
        """
        cache.open(1)
        rows, size = len(tokens), self._pool.manager.block_size
        batch = 1 << (rows - 1).bit_length()
        bucket = bucket_of(cache.longest + 1, self._capacity)
        width, spare = -(-bucket // size), self._pool.spare
        lines = [
            [token, length, *table.blocks, *[spare] * (width - len(table.blocks))]
            for token, length, table in zip(tokens, cache.lengths, cache.tables, strict=True)
        ]
        lines += [[0, 0, *[spare] * width]] * (batch - rows)
        inputs = upload(lines, self._model.device, torch.int64)
        if (batch, bucket) not in self._programs:
            self._model.reach(bucket)
            self._programs[batch, bucket] = self._program(inputs.clone(), bucket)
            self.programs[batch, bucket] = self.programs.get((batch, bucket), 0) + 1
        place, program = self._programs[batch, bucket]
        place.copy_(inputs)
        logits = program()[:rows]
        cache.advance(1)
        return logits

    def _program(self, inputs: Tensor, bucket: int) -> tuple[Tensor, Callable[[], Tensor]]:
        """Where a program reads its inputs, and the program."""

        def step() -> Tensor:
            tables, lengths = inputs[:, 2:], inputs[:, 1].contiguous()
            return self._model.fixed_step(inputs[:, :1], PagedStep(self._pool, tables, lengths, bucket))

        if self._runner == "graph":
            return inputs, capture(step, self._model.device, self._memory)
        return inputs, step
