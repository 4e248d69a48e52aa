"""Attention by block table: torch against the definition, and the Triton kernel against torch, in Triton's interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from engine.attention import attend_by_repeating, causal_mask, which
from engine.caches import BlockPool
from engine.model import Model
from engine.paged_attention import paged_attend, paged_attend_torch

# Triton decides when a kernel is defined whether it is interpreted, so that takes a process of its own.
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
interpreted = pytest.mark.skipif(not INTERPRETED, reason="runs in the process with TRITON_INTERPRET=1")
compiled = pytest.mark.skipif(INTERPRETED, reason="nothing is compiled with TRITON_INTERPRET=1")


class Case(NamedTuple):
    queries: Tensor
    keys: Tensor
    values: Tensor
    tables: Tensor
    lengths: Tensor
    longest: int


def _case(heads: tuple[int, int], width: tuple[int, int], new: int, held: list[int], block_size: int = 4) -> Case:
    """Rows of `held` positions in blocks that lie in no order, what nobody holds being large."""
    generator = torch.Generator().manual_seed(sum(held) + new)
    query_heads, kv_heads = heads
    per_row = [-(-(length + new) // block_size) for length in held]
    order = torch.randperm(sum(per_row) + 3, generator=generator).tolist()
    tables = torch.full((len(held), max(per_row)), order.pop(), dtype=torch.int64)
    for row, count in enumerate(per_row):
        for at in range(count):
            tables[row, at] = order.pop()
    shape = (sum(per_row) + 3, kv_heads, block_size)
    keys = torch.randn(*shape, width[0], generator=generator)
    values = torch.randn(*shape, width[1], generator=generator)
    for row, length in enumerate(held):
        for position in range(length + new, per_row[row] * block_size):
            keys[tables[row, position // block_size], :, position % block_size] = 1e4
            values[tables[row, position // block_size], :, position % block_size] = 1e4
    queries = torch.randn(len(held), new, query_heads, width[0], generator=generator).transpose(1, 2)
    return Case(queries, keys, values, tables, torch.tensor(held), max(held))


CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "decoding": (((6, 2), (16, 16), 1, [0, 3, 9, 30]), {}),
    "drafts": (((9, 3), (16, 16), 5, [7, 0, 21]), {}),
    "odd widths": (((4, 4), (24, 10), 2, [5, 12]), {"scale": 0.2}),
    "window": (((6, 2), (16, 16), 3, [40, 2, 11]), {"window": 5}),
    "soft cap": (((4, 1), (16, 16), 1, [9, 17]), {"softcap": 3.0}),
    "several splits": (((4, 2), (16, 16), 2, [1100, 3, 511, 512]), {}),
    "several splits and a window": (((4, 2), (16, 16), 1, [1100, 3]), {"window": 100}),
}


@pytest.mark.parametrize("name", CASES)
def test_torch_agrees_with_the_definition(name: str) -> None:
    arguments, options = CASES[name]
    case = _case(*arguments)
    mixed = paged_attend(*case, **options)
    new, block_size = case.queries.shape[2], case.keys.shape[2]
    for row, length in enumerate(case.lengths.tolist()):
        end = length + new
        blocks = case.tables[row, : -(-end // block_size)]
        keys, values = (each[blocks].transpose(0, 1).flatten(1, 2)[None, :, :end] for each in (case.keys, case.values))
        mask = causal_mask(torch.arange(length, end)[None], end, options.get("window", 0))
        expected = attend_by_repeating(
            case.queries[row : row + 1], keys, values, mask, False,
            scale=options.get("scale"), softcap=options.get("softcap", 0.0),
        )  # fmt: skip
        torch.testing.assert_close(mixed[row : row + 1], expected, rtol=1e-4, atol=1e-5)


@compiled
def test_the_kernel_passes_its_tests_in_the_interpreter() -> None:
    pytest.importorskip("triton")
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", "interpreter_gives"]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", *options, __file__],
        env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{2 * len(CASES)} passed" in result.stdout


@interpreted
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])  # the interpreter multiplies bfloat16 by its bits
def test_the_interpreter_gives_what_torch_gives(name: str, dtype: torch.dtype) -> None:
    from engine.paged_kernel import paged_attend_triton

    arguments, options = CASES[name]
    case = _case(*arguments)
    case = case._replace(queries=case.queries.to(dtype), keys=case.keys.to(dtype), values=case.values.to(dtype))
    scale = options.get("scale", case.queries.shape[-1] ** -0.5)
    rest = (options.get("window", 0), scale, options.get("softcap", 0.0))
    expected = paged_attend_torch(*case, *rest)
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if dtype is torch.float32 else {"rtol": 1e-2, "atol": 1e-2}
    torch.testing.assert_close(paged_attend_triton(*case, *rest), expected, **tolerance)
    # A layer's blocks are a part of a larger tensor, so that a stride mistaken for a length shows.
    wide = torch.zeros((*case.keys.shape[:-1], case.keys.shape[-1] + 7), dtype=dtype)
    wide[..., : case.keys.shape[-1]] = case.keys
    case = case._replace(keys=wide[..., : case.keys.shape[-1]])
    torch.testing.assert_close(paged_attend_triton(*case, *rest), expected, **tolerance)


@compiled
@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize("limits", [False, True])
def test_the_kernel_compiles_for_devices_that_are_not_here(capability: int, limits: bool) -> None:
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from engine.paged_kernel import SPLIT, TILE, paged_attend_kernel

    constants = {"GROUP": 4, "ROWS": 16, "KEY_WIDTH": 128, "VALUE_WIDTH": 128, "TILE": TILE, "SPLIT": SPLIT}
    constants |= {"HAS_SOFTCAP": limits, "HAS_WINDOW": limits}
    kinds = {name: "i32" for name in paged_attend_kernel.arg_names}
    kinds |= {"queries": "*bf16", "keys": "*bf16", "values": "*bf16", "tables": "*i64", "lengths": "*i64"}
    kinds |= {"mixed": "*fp32", "sums": "*fp32", "scale": "fp32", "softcap": "fp32"}
    kinds |= {name: "constexpr" for name in constants}
    source = ASTSource(paged_attend_kernel, kinds, constants)
    assert triton.compile(source, target=GPUTarget("cuda", capability, 32)).asm["cubin"]


@compiled
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("name", CASES)
def test_the_device_gives_what_torch_gives(name: str) -> None:
    arguments, options = CASES[name]
    case = _case(*arguments)
    there = Case(*(each.cuda() if isinstance(each, Tensor) else each for each in case))
    torch.testing.assert_close(
        paged_attend(*there, **options).cpu(), paged_attend(*case, **options), rtol=1e-3, atol=1e-3
    )


@compiled
def test_a_model_attends_by_block_table(random_model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(0, 97, (3, 12), generator=generator)
    rows = []
    for backend in ("sdpa", "paged"):
        monkeypatch.setattr(random_model, "backend", backend)
        pool = BlockPool(random_model.config, random_model.device, random_model.dtype, block_size=4)
        cache = random_model.new_cache("paged", 3, pool=pool)
        random_model.forward(ids, cache, lengths=[12, 5, 1])
        rows.append([random_model.forward(ids[:, :3], cache, lengths=[3, 1, 2], logits="all") for _ in range(2)])
        assert which() == ("paged torch" if backend == "paged" else "flash")
    for theirs, ours in zip(*rows, strict=True):
        for row, count in enumerate([3, 1, 2]):
            torch.testing.assert_close(ours[row, :count], theirs[row, :count], rtol=1e-4, atol=1e-4)
