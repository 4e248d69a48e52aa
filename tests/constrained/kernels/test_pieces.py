"""Kernels in pieces: one for all kinds of arguments, the same from Python and from other kernels, kept on disk as entries."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import numba
import numpy as np
import pytest
from numba.core import config
from numpy.typing import NDArray

from constrained.kernels.jit import Bytes, inlined, kernel, making_kernel
from constrained.kernels.object_keys import brace_from
from constrained.kernels.pieces import Kernel

pytestmark = pytest.mark.skipif(bool(config.DISABLE_JIT), reason="kernels are not compiled")

ROOT = Path(__file__).parents[3]
Int32 = NDArray[np.int32]


@inlined
def weighed(value: int, times: int) -> int:
    """Called with what comes from int32 arrays, with constants and with booleans."""
    return value * times + (value << 33)


@kernel
def total(data: Bytes) -> int:
    """Called with bytes that can be written and with others."""
    found = 0
    for at in range(data.shape[0]):
        found += weighed(data[at], 3)
    return found


@kernel
def all_of(numbers: Int32, data: Bytes) -> int:
    found = weighed(7, True) + weighed(len(numbers), numbers[0]) + total(data)
    for number in numbers:
        found += weighed(number, number > 2)
    return found


@making_kernel
def spread(count: int) -> Int32:
    made = np.zeros(count, dtype=np.int32)
    for at in range(count):
        made[at] = min(weighed(at, 2), 5)
    return made


@kernel
def beyond(numbers: Int32, at: int) -> int:
    return item(numbers, at)


@kernel
def item(numbers: Int32, at: int) -> int:
    return numbers[at]  # type: ignore[no-any-return]


@inlined
def narrow(value: int, data: Bytes, at: int) -> int:
    return value + data[at]  # type: ignore[no-any-return]


@kernel
def narrow_sums(numbers: Int32, data: Bytes, constant: Bytes) -> int:
    return narrow(1, data, 0) + narrow(numbers[0], constant, data[0]) + narrow(len(data), data, data[0] < 1)


def expected(numbers: list[int], data: bytes) -> int:
    def weight(value: int, times: int) -> int:
        return value * times + (value << 33)

    found = weight(7, 1) + weight(len(numbers), numbers[0]) + sum(weight(byte, 3) for byte in data)
    return found + sum(weight(number, number > 2) for number in numbers)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What these kernels are compiled to is kept for the one test."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    config.reload_config()
    yield
    monkeypatch.undo()
    config.reload_config()


def test_kernels_that_are_called_by_kernels_and_by_python_give_the_same() -> None:
    numbers, data = [5, -1, 2, 3], b"piece"
    writable = np.frombuffer(bytearray(data), dtype=np.uint8)
    assert all_of(np.array(numbers, dtype=np.int32), writable) == expected(numbers, data)
    assert total(writable) == total(np.frombuffer(data, dtype=np.uint8)) == sum(b * 3 + (b << 33) for b in data)
    assert weighed(4, 2) == 8 + (4 << 33)
    assert weighed(np.int32(1 << 20), 1) == (1 << 20) + (1 << 53)


def test_constants_booleans_and_narrow_integers_share_one_piece() -> None:
    data = np.zeros(2, dtype=np.uint8)
    assert narrow_sums(np.full(1, 5, dtype=np.int32), data, np.frombuffer(b"abc", dtype=np.uint8)) == 1 + 5 + 97 + 2
    (signature,) = cast(Any, narrow).piece.overloads
    value, read, at = signature
    assert value == at == numba.types.int64
    assert not read.mutable


def test_a_kernel_that_makes_arrays_gives_them_away() -> None:
    made = spread(4)
    assert made.tolist() == [0, 5, 5, 5]
    made[0] = 1  # it is ours


def test_threads_that_call_a_kernel_for_the_first_time_at_once_all_get_its_result() -> None:
    first = Kernel(cast(Any, all_of).py_func, cast(Any, all_of).targetoptions)
    numbers, data = np.array([1, 2, 3], dtype=np.int32), np.frombuffer(b"ab", dtype=np.uint8)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: first(numbers, data), range(8)))
    assert set(found) == {expected([1, 2, 3], b"ab")}


def test_only_what_python_calls_is_kept_on_disk_and_it_is_found_again(tmp_path: Path) -> None:
    arguments = (np.array([1], dtype=np.int32), np.frombuffer(b"a", dtype=np.uint8))
    fresh = Kernel(cast(Any, all_of).py_func, cast(Any, all_of).targetoptions)
    found = fresh(*arguments)
    assert {path.name.split("-")[0] for path in tmp_path.rglob("*.nbc")} == {"test_pieces.all_of"}
    again = Kernel(cast(Any, all_of).py_func, cast(Any, all_of).targetoptions)
    assert again(*arguments) == found
    assert sum(again.stats.cache_hits.values()) == 1


def test_kept_code_with_another_stamp_is_not_used() -> None:
    made = []
    for stamp in ("one", "other", "other"):
        fresh = Kernel(cast(Any, total).py_func, cast(Any, total).targetoptions)
        fresh.stamp = stamp
        fresh(np.zeros(1, dtype=np.uint8))
        made.append(sum(fresh.stats.cache_hits.values()))
    assert made == [0, 0, 1]


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
def test_a_damaged_file_on_disk_is_written_again(tmp_path: Path, ending: str) -> None:
    data = np.frombuffer(b"abc", dtype=np.uint8)
    hits = []
    for _ in range(3):
        fresh = Kernel(cast(Any, total).py_func, cast(Any, total).targetoptions)
        assert fresh(data) == sum(byte * 3 + (byte << 33) for byte in b"abc")
        hits.append(sum(fresh.stats.cache_hits.values()))
        if len(hits) == 1:
            (kept,) = tmp_path.rglob(f"*.{ending}")
            kept.write_bytes(kept.read_bytes()[:-20])
    assert hits == [0, 0, 1]


def test_kernels_work_where_nothing_can_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    fresh = Kernel(cast(Any, total).py_func, cast(Any, total).targetoptions)
    monkeypatch.setattr("numba.core.caching.IndexDataCacheFile._save_index", full)
    assert fresh(np.frombuffer(b"a", dtype=np.uint8)) == 97 * 3 + (97 << 33)
    assert not list(tmp_path.rglob("*.nb?"))


def test_a_place_out_of_bounds_is_told_where_bounds_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_BOUNDSCHECK", "1")
    config.reload_config()
    checked = Kernel(cast(Any, beyond).py_func, cast(Any, beyond).targetoptions)
    with pytest.raises(IndexError):
        checked(np.zeros(2, dtype=np.int32), 5)


def test_a_kernel_is_pickled_by_its_name() -> None:
    assert pickle.loads(pickle.dumps(brace_from)) is brace_from


PROGRAM = """
import gc
from constrained import JsonSchema, Vocabulary, compile
from constrained.kernels.pieces import Kernel
from numba.core import types
words = [bytes([byte]) for byte in range(256)]
vocabulary = Vocabulary.from_token_bytes([*words, None], eos_token_ids=[256])
schema = {"required": ["wifi"], "additionalProperties": False, "properties": {"wifi": {}}, "type": "object"}
matcher = compile(JsonSchema(schema), vocabulary).matcher()
for byte in b'{"w':
    matcher.accept(byte)
import numpy as np
row = np.empty(vocabulary.row_words, dtype=np.uint32)
matcher.fill_mask(row)
print([i for i in range(257) if row[i // 32] >> (i % 32) & 1])
kernels = [kernel for kernel in gc.get_objects() if isinstance(kernel, Kernel)]
for kernel in kernels:
    pieces = kernel.__dict__["piece"].overloads.values() if "piece" in kernel.__dict__ else []
    for piece in pieces:
        for name, kind in piece.type_annotation.typemap.items():
            if isinstance(kind, types.Float):
                print("float", kernel, name)
print(sum("piece" in kernel.__dict__ for kernel in kernels) > 0)
"""


@pytest.mark.slow
def test_no_kernel_counts_in_floating_point_and_kept_ones_give_the_same_mask(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    environment.pop("NUMBA_BOUNDSCHECK", None)
    said = []
    for _ in range(2):
        run = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=300, check=True
        )
        said.append(run.stdout.splitlines())
    assert said == [["[105]", "True"], ["[105]", "False"]]
