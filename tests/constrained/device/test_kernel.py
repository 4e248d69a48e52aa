"""The Triton kernel, run by Triton's interpreter on the CPU and compiled for devices that need not be there."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

pytest.importorskip("triton")


from constrained.device import apply_rows
from constrained.device.apply import apply_rows_torch
from tests.constrained.device.cases import DTYPES, bits, expected, make_case

# Triton decides when a kernel is defined whether it is interpreted, so that takes a process of its own.
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
interpreted = pytest.mark.skipif(not INTERPRETED, reason="runs in the process with TRITON_INTERPRET=1")
compiled = pytest.mark.skipif(INTERPRETED, reason="nothing is compiled with TRITON_INTERPRET=1")


@compiled
def test_the_kernel_passes_its_tests_in_the_interpreter() -> None:
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", "interpreter_gives"]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", *options, __file__],
        env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "15 passed" in result.stdout


@interpreted
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("batch", "vocab", "words"),
    [
        (1, 1, 1),
        (3, 31, 2),  # bits past the end of the logits
        (4, 2048, 64),  # exactly one program a sequence
        (3, 2500, 70),  # tokens past the end of the row, in a program of their own and beside others
        (2, 4100, 130),
    ],
)
def test_the_interpreter_gives_the_bits_of_the_torch_path(
    dtype: torch.dtype, batch: int, vocab: int, words: int
) -> None:
    from constrained.device.kernel import apply_rows_triton

    for seed in range(3):
        case = make_case(dtype, batch, vocab, 4, words, seed)
        by_torch = apply_rows_torch(case.logits.clone(), case.table, case.numbers)
        assert torch.equal(bits(by_torch), bits(expected(case)))
        # a part of a larger tensor, so that a stride mistaken for a length shows
        wide = torch.full((batch, vocab + 5), 7.0, dtype=dtype)
        wide[:, :vocab] = case.logits
        apply_rows_triton(wide[:, :vocab], case.table, case.numbers)
        assert torch.equal(bits(wide[:, :vocab]), bits(by_torch))
        assert (wide[:, vocab:] == 7.0).all()


@compiled
@pytest.mark.parametrize("logits", ["*fp32", "*fp16", "*bf16"])
@pytest.mark.parametrize("capability", [80, 90])
def test_the_kernel_compiles_for_devices_that_are_not_here(logits: str, capability: int) -> None:
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from constrained.device.kernel import WORDS, apply_rows_kernel

    names = ["logits", "table", "numbers", "batch_stride", "token_stride", "row_stride", "vocab", "words"]
    kinds = dict(zip(names, [logits, "*i32", "*i32", *["i32"] * 5], strict=True))
    source = ASTSource(apply_rows_kernel, {**kinds, "WORDS": "constexpr"}, {"WORDS": WORDS})
    machine_code = triton.compile(source, target=GPUTarget("cuda", capability, 32)).asm
    assert f"sm_{capability}" in machine_code["ptx"]
    assert machine_code["cubin"]


@compiled
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_large_vocabulary_on_the_device_agrees_with_torch(dtype: torch.dtype) -> None:
    case = make_case(dtype, 9, 128_256, 40, 4008, 3, "cuda")
    by_torch = apply_rows_torch(case.logits.clone(), case.table, case.numbers)
    assert torch.equal(bits(apply_rows(*case)), bits(by_torch))
