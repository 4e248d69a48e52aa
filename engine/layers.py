"""The pieces of a transformer block that know nothing of sequences: matrix products, norms, the gated MLP."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.config import Activation
from engine.devices import cpu_multiplies_bfloat16

ALIKE = 16
"""New tokens of one sequence up to which a forward pass computes each as if it came alone, where it can
(`engine.model.Model.alike`): those of a verified draft."""


class Linear:
    """y = x·Wᵀ + b, with W [out, in] and x [..., in].

    On a CPU that multiplies bfloat16 in hardware, bfloat16 weights are kept only in oneDNN's blocked layout, in which
    one row of x costs what reading W once costs; the plain layout takes up to three times as long for wide W.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.out_features, self.in_features = weight.shape
        self.bias = bias
        self.packed = can_pack(weight)
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight, None) if self.packed else weight

    def __call__(self, x: Tensor) -> Tensor:
        if self.packed:
            product: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, self.bias, "none", [], "")
            return product
        return F.linear(x, self._weight, self.bias)

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """residual + x·Wᵀ + b, the sum taken inside the product where the backend can."""
        if self.packed:
            total: Tensor = torch.ops.mkldnn._linear_pointwise.binary(x, residual, self._weight, self.bias, "add")
            return total
        return residual + F.linear(x, self._weight, self.bias)

    def read_bytes(self, rows: int) -> int:
        """Bytes that a product with so many rows reads."""
        return self.out_features * self.in_features * self._weight.element_size()

    @property
    def nbytes(self) -> int:
        return self.out_features * self.in_features * self._weight.element_size()


def can_pack(weight: Tensor) -> bool:
    """Whether oneDNN has a fast product for this weight's device and dtype on this machine."""
    return weight.device.type == "cpu" and weight.dtype == torch.bfloat16 and cpu_multiplies_bfloat16()


class RMSNorm:
    """x / sqrt(mean(x²) + ε) · w over the last dimension (Zhang & Sennrich 2019)."""

    def __init__(self, weight: Tensor, eps: float) -> None:
        self.weight, self.eps = weight, eps
        self.size: int = weight.shape[-1]
        self._shape, self._mirrored_shape = [self.size], [2 * self.size]
        self._mirrored_weight = torch.cat((weight, weight))
        self._mirrors = weight.device.type == "cpu"

    def __call__(self, x: Tensor) -> Tensor:
        """`x` [tokens, size] or [batch, new, ..., size] → the same shape and dtype; sums are taken in float32."""
        tokens = x.shape[0] if x.dim() == 2 else x.shape[0] * x.shape[1]
        if self._mirrors and tokens <= ALIKE:
            # [x, -x] has mean 0 and variance mean(x²), so its LayerNorm is the RMSNorm of x: one fused kernel on the
            # CPU, where rms_norm is a chain of seven that costs twice as much for a few rows.
            mirrored = torch.cat((x, -x), dim=-1)
            normed = torch.layer_norm(mirrored, self._mirrored_shape, self._mirrored_weight, None, self.eps)
            return normed.narrow(-1, 0, self.size)
        return F.rms_norm(x, self._shape, self.weight, self.eps)


def gelu_tanh(x: Tensor) -> Tensor:
    """GELU by its tanh approximation (Hendrycks & Gimpel 2016)."""
    return F.gelu(x, approximate="tanh")


ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {"silu": F.silu, "gelu_tanh": gelu_tanh}


class GatedMLP:
    """down(activation(gate(x)) · up(x)), gate and up in one product (Shazeer 2020, SwiGLU and GEGLU)."""

    def __init__(self, gate_up: Linear, down: Linear, activation: Activation = "silu") -> None:
        self.gate_up, self.down = gate_up, down
        self._activation = ACTIVATIONS[activation]

    def __call__(self, x: Tensor) -> Tensor:
        return self.down(self._inner(x))

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        return self.down.add_to(residual, self._inner(x))

    def _inner(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self._activation(gate) * up

    @property
    def linears(self) -> list[Linear]:
        return [self.gate_up, self.down]

    @property
    def nbytes(self) -> int:
        return self.gate_up.nbytes + self.down.nbytes
