"""GGUF files: metadata, tensors, dequantisation (ggml's docs/gguf.md; block layouts of ggml-quants.c).

The reader maps the file and makes Python objects only of what is asked for; the `gguf` package's own reader wraps every
one of a vocabulary's strings in arrays, which takes seconds.  Its block decoders are used as they are.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.architectures.gguf import gguf_tensor_name
from engine.config import ModelConfig
from engine.errors import ModelFileError
from engine.loading.fuse import fuse_weights

MAGIC = b"GGUF"
STRING, ARRAY = 8, 9
SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}

TENSOR_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0",
    12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 30: "BF16",
}  # fmt: skip
BLOCKS = {
    "F32": (1, 4), "F16": (1, 2), "BF16": (1, 2), "Q4_0": (32, 18), "Q4_1": (32, 20), "Q5_0": (32, 22),
    "Q5_1": (32, 24), "Q8_0": (32, 34), "Q4_K": (256, 144), "Q5_K": (256, 176), "Q6_K": (256, 210),
}  # fmt: skip
"""Values and bytes of one block."""


@dataclass(frozen=True)
class TensorInfo:
    """Where a tensor lies: `shape` is outermost first, `offset` counts from the start of the file."""

    shape: tuple[int, ...]
    kind: str
    offset: int
    nbytes: int


class GgufFile:
    """An open GGUF.

    Attributes:
        metadata: key → number, string, bool or list of these.
        tensors: name → place.

    Raises:
        ModelFileError: not a GGUF, of a version this reader does not know, malformed or shorter than it says.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except FileNotFoundError:
            raise ModelFileError(f"no model file {path}: check the path") from None
        except (OSError, ValueError) as error:
            raise ModelFileError(f"cannot read model file {path}: {error}; fetch it again") from None
        if self._bytes[:4] != MAGIC:
            raise ModelFileError(f"{path} is not a GGUF file: it begins with {self._bytes[:4]!r}; fetch it again")
        reader = _Reader(self._bytes)
        try:
            self.metadata, self.tensors = _read_header(reader)
        except (struct.error, ArithmeticError, IndexError, KeyError, MemoryError, TypeError, ValueError) as error:
            raise ModelFileError(f"{path} is truncated or malformed in its header: fetch it again ({error})") from None
        end = max((info.offset + info.nbytes for info in self.tensors.values()), default=0)
        if end > len(self._bytes):
            raise ModelFileError(f"{path} is truncated: {len(self._bytes)} of {end} bytes; fetch it again")

    def tensor(self, name: str) -> Tensor:
        """A tensor dequantised: float32, or float16/bfloat16 where it is stored so."""
        info = self.tensors.get(name)
        if info is None:
            raise ModelFileError(f"{self.path} has no tensor {name!r}: it is not a whole model")
        raw = np.frombuffer(self._bytes, np.uint8, info.nbytes, info.offset)
        return dequantize(raw, info.kind, info.shape)


class _Reader:
    """A cursor over little-endian bytes."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data, self.at = data, 4

    def scalar(self, layout: str) -> Any:
        (value,) = struct.unpack_from(layout, self.data, self.at)
        self.at += struct.calcsize(layout)
        return value

    def string(self) -> str:
        size = self.scalar("<Q")
        start, self.at = self.at, self.at + size
        if self.at > len(self.data):
            raise IndexError(f"a string of {size} bytes at {start}")
        return self.data[start : self.at].decode("utf-8")

    def value(self, kind: int) -> Any:
        if kind == STRING:
            return self.string()
        if kind != ARRAY:
            return self.scalar(SCALARS[kind])
        inner, count = self.scalar("<I"), self.scalar("<Q")
        if inner in SCALARS:
            layout = f"<{count}{SCALARS[inner][1]}"
            values = struct.unpack_from(layout, self.data, self.at)
            self.at += struct.calcsize(layout)
            return list(values)
        if count > len(self.data):
            raise IndexError(f"an array of {count} values at {self.at}")
        return [self.value(inner) for _ in range(count)]


def _read_header(reader: _Reader) -> tuple[dict[str, Any], dict[str, TensorInfo]]:
    version = reader.scalar("<I")
    if version not in (2, 3):
        raise ModelFileError(f"GGUF version {version}: versions 2 and 3 are read; convert the file again")
    tensor_count, key_count = reader.scalar("<Q"), reader.scalar("<Q")
    metadata: dict[str, Any] = {}
    for _ in range(key_count):
        key = reader.string()
        metadata[key] = reader.value(reader.scalar("<I"))
    places: list[tuple[str, tuple[int, ...], int, int]] = []
    for _ in range(tensor_count):
        name = reader.string()
        dims = tuple(reader.scalar("<Q") for _ in range(reader.scalar("<I")))
        places.append((name, dims[::-1], reader.scalar("<I"), reader.scalar("<Q")))
    alignment = int(metadata.get("general.alignment", 32))
    start = -(-reader.at // alignment) * alignment
    return metadata, dict(_tensor_infos(places, start))


def _tensor_infos(places: list[tuple[str, tuple[int, ...], int, int]], start: int) -> Iterator[tuple[str, TensorInfo]]:
    for name, shape, number, offset in places:
        kind = TENSOR_TYPES.get(number)
        if kind is None:
            raise ModelFileError(
                f"tensor {name} has quantisation type {number}: readable are {', '.join(TENSOR_TYPES.values())}; "
                "take the model in one of these"
            )
        values, nbytes = BLOCKS[kind]
        count = math.prod(shape)
        yield name, TensorInfo(shape, kind, start + offset, count // values * nbytes)


def dequantize(raw: np.ndarray[Any, np.dtype[np.uint8]], kind: str, shape: tuple[int, ...]) -> Tensor:
    """Bytes of a tensor of block type `kind` as a tensor of `shape`."""
    if kind == "F32":
        return torch.from_numpy(raw.view(np.float32).copy()).view(shape)
    if kind == "F16":
        return torch.from_numpy(raw.view(np.float16).copy()).view(shape)
    if kind == "BF16":
        return torch.from_numpy(raw.view(np.int16).copy()).view(torch.bfloat16).view(shape)
    from gguf import GGMLQuantizationType, quants

    rows = raw.reshape(int(np.prod(shape[:-1], dtype=np.int64)), -1)
    return torch.from_numpy(quants.dequantize(rows, GGMLQuantizationType[kind])).view(shape)


def read_weights(file: GgufFile, config: ModelConfig, device: torch.device, dtype: torch.dtype) -> dict[str, Tensor]:
    """The engine's weights (`fuse_weights`) of a GGUF."""

    def get(name: str) -> Tensor:
        gguf_name = gguf_tensor_name(name, config.architecture)
        tensor = file.tensor(gguf_name)
        if config.architecture in ("llama", "mistral"):
            for part, heads in ((".attn_q.", config.query_heads), (".attn_k.", config.kv_heads)):
                if part in gguf_name:
                    tensor = pair_halves(tensor, heads)
        return tensor.to(device, dtype)

    weights = fuse_weights(config, get, norms_from_one=False)
    # Divisors of the frequencies: Llama 3's, and Phi-3's two sets.
    if config.rope.kind == "longrope":
        weights["rope.factors"] = file.tensor("rope_factors_short.weight").float()
        weights["rope.long_factors"] = file.tensor("rope_factors_long.weight").float()
    elif "rope_freqs.weight" in file.tensors:
        weights["rope.factors"] = file.tensor("rope_freqs.weight").float()
    return weights


def pair_halves(tensor: Tensor, heads: int) -> Tensor:
    """Undoes the order in which GGUF stores the query and key rows of llama models.

    There the rotated planes of a head are neighbouring rows (2i, 2i + 1); this engine, like Transformers, pairs row i
    with row i + d/2.
    """
    rows = tensor.shape[0]
    if rows % (2 * heads):
        raise ModelFileError(f"a tensor of {rows} rows does not hold {heads} heads of pairs: fetch the model again")
    return tensor.view(heads, rows // heads // 2, 2, *tensor.shape[1:]).transpose(1, 2).reshape(tensor.shape)
