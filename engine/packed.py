"""Weights of 8 or 4 bits for the few rows of a decode step, through torch's packed CPU kernels.

A product with one row of activations costs what reading the matrix costs, so bytes are time there.  With many rows
(prefill, large batches) the arithmetic counts, and oneDNN's bfloat16 products win; they run on the *rounded* matrix, so
both ways compute the same function but for rounding.  Which of them a token goes by is the step's to say
(`engine.step.Step.unpacked`); either gives a row the same bits whatever rows come with it.

`"int8"`: one scale per output channel, symmetric.  `"int4"`: groups of 32 inputs, each with its own scale and offset,
w = (q - 8)·scale + zero.  This is the grid of GGUF's Q4_1 and Q4_0, so matrices that come from there lose nothing but
the rounding of scales to bfloat16.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

import torch
from torch import Tensor

from engine.devices import PACKINGS, Packing
from engine.errors import ModelError
from engine.layers import Linear

GROUP = 32
"""Inputs that share a scale in `"int4"`."""

MOST_ROWS = 4
"""Rows of activations up to which the packed kernels are faster than bfloat16 products; they take them in fours.  More are
multiplied by packed weights only for the sake of equal bits (`engine.model.Model.batch_invariant`)."""

_ALIGNMENT = 16
"""Bytes at whose multiples packed weights must begin: torch's kernel for 8 bits fails otherwise, with four rows."""

_ROWS_PER_TILE = 16


class PackedLinear(Linear):
    """`Linear` that multiplies by packed weights, or, where it is told so, by the same matrix in bfloat16."""

    def __init__(self, weight: Tensor, bias: Tensor | None, packing: Packing, packed: Tensor, scales: Tensor) -> None:
        """`weight` [out, in] is the rounded matrix; `packed` and `scales` are `quantize`'s."""
        super().__init__(weight, bias)
        if packed.data_ptr() % _ALIGNMENT:  # mapped from a file
            packed = packed.clone()
        self.packing, self._packed, self._scales = packing, packed, scales

    def __call__(self, x: Tensor, unpacked: bool = False) -> Tensor:
        if unpacked:
            return super().__call__(x)
        flat = x.reshape(-1, self.in_features).contiguous()
        if self.packing == "int4":
            product = torch.ops.aten._weight_int4pack_mm_for_cpu(flat, self._packed, GROUP, self._scales)
        else:
            product = torch.ops.aten._weight_int8pack_mm(flat, self._packed, self._scales)
        if self.bias is not None:
            product = product.add_(self.bias)
        return cast(Tensor, product.view(*x.shape[:-1], self.out_features))

    def add_to(self, residual: Tensor, x: Tensor, unpacked: bool = False) -> Tensor:
        if unpacked:
            return super().add_to(residual, x)
        return self(x).add_(residual)

    def read_bytes(self, unpacked: bool = False) -> int:
        return super().read_bytes() if unpacked else self._packed.nbytes + self._scales.nbytes

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._packed.nbytes + self._scales.nbytes


def quantize(weight: Tensor, packing: Packing) -> tuple[Tensor, Tensor, Tensor]:
    """The kernel's operands, and the matrix that they stand for.

    Args:
        weight: [out, in], any floating dtype.

    Returns:
        packed: int8 [out, in], or uint8 [out, in / 2] in the kernel's own order.
        scales: bfloat16 [out], or [in / 32, out, 2] with each group's scale and zero.
        rounded: bfloat16 [out, in].

    Raises:
        ModelError: a shape that the kernel does not take.
    """
    weight = weight.float()
    if packing == "int8":
        # The scale is rounded first, so that the levels are those that the kernel will multiply by.
        scale = (weight.abs().amax(dim=1) / 127).clamp(min=1e-12).bfloat16()
        levels = (weight / scale.float().unsqueeze(1)).round().clamp(-127, 127)
        return levels.to(torch.int8), scale, (levels * scale.float().unsqueeze(1)).bfloat16()
    out_features, in_features = weight.shape
    if in_features % GROUP or out_features % _ROWS_PER_TILE:
        raise ModelError(
            f"a matrix of {out_features} x {in_features} cannot be packed to int4: the kernel takes multiples of "
            f"{_ROWS_PER_TILE} x {GROUP}; pass dtype='int8' or 'bfloat16'"
        )
    groups = weight.view(out_features, in_features // GROUP, GROUP)
    low, high = groups.amin(dim=-1), groups.amax(dim=-1)
    scale = ((high - low) / 15).clamp(min=1e-12).bfloat16()
    zero = (low + 8 * scale.float()).bfloat16()
    step, centre = scale.float().unsqueeze(-1), zero.float().unsqueeze(-1)
    levels = ((groups - centre) / step).round().add_(8).clamp_(0, 15)
    rounded = ((levels - 8) * step + centre).view(out_features, in_features).bfloat16()
    packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(levels.view(out_features, in_features).int(), 1)
    return packed, torch.stack((scale.t(), zero.t()), dim=-1).contiguous(), rounded


def pack_weights(weights: Mapping[str, Tensor], packing: Packing) -> dict[str, Tensor]:
    """The engine's weights with every matrix but the embedding packed: `NAME.packed.int4` (or `.int8`) and
    `NAME.scales` beside `NAME.weight`, which becomes the rounded matrix.

    The head keeps 8 bits in `"int4"` too: its rows are tokens, and an error there moves a choice at once.  Where it is
    tied to the embedding it becomes a matrix of its own, and the embedding stays as it is.

    Raises:
        ModelError: a matrix whose shape the kernel does not take.
    """
    result = dict(weights)
    for name, matrix in _matrices(weights):
        chosen: Packing = "int8" if name == "head" else packing
        packed, scales, rounded = quantize(matrix, chosen)
        result[f"{name}.packed.{chosen}"], result[f"{name}.scales"] = packed, scales
        result[f"{name}.weight"] = rounded
    return result


def make_linear(weights: Mapping[str, Tensor], name: str) -> Linear:
    """The product with matrix `name`, packed where `weights` hold it packed."""
    weight, bias = weights[f"{name}.weight"], weights.get(f"{name}.bias")
    for packing in PACKINGS:
        packed = weights.get(f"{name}.packed.{packing}")
        if packed is not None:
            return PackedLinear(weight, bias, packing, packed, weights[f"{name}.scales"])
    return Linear(weight, bias)


def _matrices(weights: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Name and matrix of every product of the model."""
    for key, tensor in weights.items():
        # The router decides more than it costs; experts are stacks of matrices, which no packed kernel takes.
        if key.startswith("layers.") and key.endswith(".weight") and tensor.dim() == 2 and ".router." not in key:
            yield key.removesuffix(".weight"), tensor
    yield "head", weights["head.weight" if "head.weight" in weights else "embedding.weight"]
