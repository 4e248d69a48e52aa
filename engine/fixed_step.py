"""Decoding with fixed shapes and addresses, so that a step can be compiled once and captured as a CUDA graph.

Where an ordinary step cuts keys and values to the length that they have, this one attends over the first 256, 512, 1,024,
... slots of a static cache and masks what is not there yet.  Lengths are tensors, so nothing of the step depends on them but
through the bucket: one program for each bucket serves all lengths in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, cast

import torch
from torch import Tensor

from engine.attention import Backend, causal_mask
from engine.devices import upload
from engine.errors import CacheError
from engine.rope import RotaryEmbedding

if TYPE_CHECKING:
    from engine.caches.contiguous import StaticCache
    from engine.model import Model

Runner = Literal["plain", "eager", "compile", "graph"]
RUNNERS: tuple[Runner, ...] = ("plain", "eager", "compile", "graph")
"""`"plain"`: ordinary steps; `"eager"`: fixed ones as they are; `"compile"`: through `torch.compile`; `"graph"`: captured as
CUDA graphs."""

FIRST_BUCKET = 256


def bucket_of(positions: int, capacity: int) -> int:
    """The slots that a step up to `positions` attends over."""
    bucket = FIRST_BUCKET
    while bucket < positions:
        bucket *= 2
    return min(bucket, capacity)


def compile_graph(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
    """What `torch.compile` does by default; needs a C++ compiler on a CPU."""
    from torch._inductor.compile_fx import compile_fx

    return cast(Callable[..., Any], compile_fx(graph, inputs))


def capture(step: Callable[[], Tensor], device: torch.device, memory: Any = None) -> Callable[[], Tensor]:
    """A CUDA graph of a step; what it computes is written to one place, of which a copy is handed out.

    `memory` is that of other graphs, which do not run at the same time (`torch.cuda.graph_pool_handle`).
    """
    with torch.cuda.device(device):
        side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            for _ in range(2):  # libraries choose their kernels and take their memory before
                step()
        torch.cuda.current_stream(device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=memory):
            result = step()

    def replay() -> Tensor:
        graph.replay()
        return result.clone()

    return replay


class FixedStep:
    """What the layers of one step share, as `engine.step.Step`: one new token in each row, at the row's own position."""

    unpacked = False

    def __init__(self, cache: StaticCache, positions: Tensor, bucket: int, backend: Backend) -> None:
        """`positions` int64 [batch]: where the new tokens stand."""
        self.cache = _Slots(cache, positions, bucket)
        self.backend: Backend = backend
        self._positions, self._bucket = positions.unsqueeze(1), bucket
        self._masks: dict[int, Tensor] = {}
        self._rotations: dict[int, tuple[Tensor, Tensor]] = {}

    def rotation(self, rotary: RotaryEmbedding) -> tuple[Tensor, Tensor]:
        if torch.compiler.is_compiling():  # the compiler sees by itself that all layers ask for the same
            return rotary.gather(self._positions, self._bucket - 1)
        if id(rotary) not in self._rotations:
            self._rotations[id(rotary)] = rotary.gather(self._positions, self._bucket - 1)
        return self._rotations[id(rotary)]

    def mask(self, window: int, layer: int) -> tuple[Tensor | None, bool]:
        if torch.compiler.is_compiling():
            return causal_mask(self._positions, self._bucket, window), False
        if window not in self._masks:
            self._masks[window] = causal_mask(self._positions, self._bucket, window)
        return self._masks[window], False


class _Slots:
    """The first slots of a static cache, written at positions that are a tensor."""

    def __init__(self, cache: StaticCache, positions: Tensor, bucket: int) -> None:
        self._keys, self._values, self._bucket = cache.keys, cache.values, bucket
        self._slots = positions[:, None, None, None]

    def first(self, layer: int) -> int:
        return 0

    def attend(self, *arguments: object, **options: object) -> None:
        return None

    def update(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        for tensor, fresh in ((self._keys[layer], keys), (self._values[layer], values)):
            tensor.scatter_(2, self._slots.expand_as(fresh), fresh)
        return self._keys[layer].narrow(2, 0, self._bucket), self._values[layer].narrow(2, 0, self._bucket)


class FixedDecoder:
    """Runs steps of one new token a row over one static cache.

    Attributes:
        programs: for each bucket in use, how often it was compiled or captured: 1, or something is wrong.
        steps: steps so far.
    """

    def __init__(self, model: Model, cache: StaticCache, runner: Runner) -> None:
        """
        Raises:
            CacheError: an unknown runner, graphs without CUDA, or weights whose products cannot be compiled.
        """
        if runner not in RUNNERS[1:]:
            raise CacheError(f"unknown runner {runner!r}: choose {', '.join(map(repr, RUNNERS))}")
        if runner == "graph" and cache.device.type != "cuda":
            raise CacheError(f"runner='graph' captures CUDA graphs, and the cache is on {cache.device}: pass 'plain'")
        if runner != "eager" and model.config.experts is not None:
            raise CacheError(
                f"runner={runner!r}: which experts a step goes through depends on its tokens, so a mixture of experts is neither "
                "compiled nor captured; pass 'plain'"
            )
        if runner == "compile" and model.has_blocked_weights:
            raise CacheError(
                "runner='compile': products with weights in oneDNN's layout cannot be compiled; load the model with "
                "dtype='float32', or pass 'plain'"
            )
        self._model, self._cache, self._runner = model, cache, runner
        # A graph reads its inputs where they were when it was captured.
        with torch.inference_mode(False):
            self._ids = torch.zeros((cache.batch, 1), dtype=torch.int64, device=cache.device)
            self._positions = torch.zeros(cache.batch, dtype=torch.int64, device=cache.device)
        self._runs: dict[int, Callable[[], Tensor]] = {}
        self.programs: dict[int, int] = {}
        self.steps = 0

    def run(self, input_ids: Tensor) -> Tensor:
        """Logits [batch, vocab] behind one token a row, int64 [batch, 1]; the cache is to be advanced by the caller."""
        cache = self._cache
        bucket = bucket_of(cache.longest + 1, cache.capacity)
        self._ids.copy_(input_ids)
        self._positions.copy_(upload(cache.lengths, cache.device))
        if bucket not in self._runs:
            self._model.reach(bucket)
            self._runs[bucket] = self._program(bucket)
        self.steps += 1
        return self._runs[bucket]()

    def _program(self, bucket: int) -> Callable[[], Tensor]:
        def step(ids: Tensor, positions: Tensor) -> Tensor:
            return self._model.fixed_step(ids, FixedStep(self._cache, positions, bucket, "sdpa"))

        if self._runner == "graph":
            self.programs[bucket] = self.programs.get(bucket, 0) + 1
            return capture(lambda: step(self._ids, self._positions), self._cache.device)
        if self._runner == "compile":
            return self._compiled(step, bucket)
        return lambda: step(self._ids, self._positions)

    def _compiled(self, step: Callable[[Tensor, Tensor], Tensor], bucket: int) -> Callable[[], Tensor]:
        compiled = torch.compile(step, fullgraph=True, dynamic=False, backend=self._counting(bucket))

        def run() -> Tensor:
            # The compiler keeps count of changes to tensors, which those of inference mode do not have.
            with torch.inference_mode(False), torch.no_grad():
                return compiled(self._ids, self._positions)

        return run

    def _counting(self, bucket: int) -> Callable[..., Callable[..., Any]]:
        def compiler(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
            self.programs[bucket] = self.programs.get(bucket, 0) + 1
            return compile_graph(graph, inputs)

        return compiler
