"""The pieces of a transformer block that know nothing of sequences: matrix products, norms, the gated MLP."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.config import Activation
from engine.devices import cpu_multiplies_bfloat16

FEW = 16
"""New tokens of a row up to which they are taken for generated ones and drafts, where nobody says whether they are of a
prompt; more are."""

_TRIED = (2, 3, 4, 5, 8, 16, 17, 64, 256)
"""Numbers of rows of which it is tried whether a product gives each the same bits.  One row, a product with a vector, is
known to go another way than several."""

_MOST_TRIED = 1 << 29
"""Multiplications of one trial with more than 32 rows: some milliseconds."""

_COMPARED = 1 << 15
"""Numbers that a trial compares: sums in another order seldom differ once they are rounded."""


class Linear:
    """y = x·Wᵀ + b, with W [out, in] and x [..., in].

    On a CPU that multiplies bfloat16 in hardware, bfloat16 weights are kept only in oneDNN's blocked layout, in which
    one row of x costs what reading W once costs; the plain layout takes up to three times as long for wide W.
    There a row of x gets the same bits whatever rows come with it (`rows_agree`): oneDNN has other kernels for one row than
    for several, and on some processors for few rows than for many, so few are filled up to as many as it takes.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.out_features, self.in_features = weight.shape
        self.bias = bias
        self.packed = can_pack(weight)
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight, None) if self.packed else weight

    def __call__(self, x: Tensor, unpacked: bool = False) -> Tensor:
        """`unpacked` says something to a `PackedLinear` alone."""
        if not self.packed:
            return F.linear(x, self._weight, self.bias)
        rows = x.numel() // self.in_features
        if rows < self._fewest:
            return self._product(_filled(x, self._fewest))[:rows].view(*x.shape[:-1], self.out_features)
        return self._product(x)

    def add_to(self, residual: Tensor, x: Tensor, unpacked: bool = False) -> Tensor:
        """residual + x·Wᵀ + b, the sum taken inside the product where the backend can."""
        if not self.packed:
            return residual + F.linear(x, self._weight, self.bias)
        rows = x.numel() // self.in_features
        if rows < self._fewest:
            filled = _filled(x, self._fewest), _filled(residual, self._fewest)
            return self._total(*filled)[:rows].view(residual.shape)
        return self._total(x, residual)

    def _product(self, x: Tensor) -> Tensor:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, self.bias, "none", [], "")
        return product

    def _total(self, x: Tensor, residual: Tensor) -> Tensor:
        total: Tensor = torch.ops.mkldnn._linear_pointwise.binary(x, residual, self._weight, self.bias, "add")
        return total

    @property
    def fewest_rows(self) -> int:
        """Rows below which a product is filled up to so many."""
        return self._fewest

    @property
    def rows_agree(self) -> bool:
        """Whether a row of a product has the same bits whatever rows come with it, as far as trials tell."""
        return self.packed and self._agreeing > 0

    @cached_property
    def _fewest(self) -> int:
        return self._agreeing or 1

    @cached_property
    def _agreeing(self) -> int:
        """Fewest rows, 2 or more, from which on a row's bits are the same with any number of others; 0: there is no such
        number up to 16."""
        key = (self.out_features, self.in_features, self.bias is not None, torch.get_num_threads())
        if key not in _agreeing:
            _agreeing[key] = self._try_rows()
        return _agreeing[key]

    @torch.inference_mode()
    def _try_rows(self) -> int:
        size = self.out_features * self.in_features
        tried = [rows for rows in _TRIED if rows <= 32 or rows * size <= _MOST_TRIED]
        most = tried[-1]
        wanted = -(-max(most, min(_COMPARED // self.out_features, _TRIED[-1])) // most) * most
        noise = torch.Generator().manual_seed(0)
        x = torch.randn((wanted, self.in_features), generator=noise).bfloat16()

        def agrees(rows: int, compute: Callable[[slice], Tensor], whole: Tensor) -> bool:
            parts = [slice(at, at + rows) for at in range(0, wanted - rows + 1, rows)]
            enough = max(1, _COMPARED // (rows * self.out_features))
            return all(torch.equal(compute(part), whole[part]) for part in parts[:enough])

        kinds: list[Callable[[slice], Tensor]] = [lambda part: self._product(x[part])]
        if self.out_features <= 2 * self.in_features:  # what is added to the stream is not wide
            residual = torch.randn((wanted, self.out_features), generator=noise).bfloat16()
            kinds.append(lambda part: self._total(x[part], residual[part]))
        for compute in kinds:
            whole = torch.cat([compute(slice(at, at + most)) for at in range(0, wanted, most)])
            differing = [at for at, rows in enumerate(tried) if not agrees(rows, compute, whole)]
            tried = tried[differing[-1] + 1 :] if differing else tried
        return tried[0] if tried and tried[0] <= FEW else 0

    def read_bytes(self, unpacked: bool = False) -> int:
        """Bytes that a product reads."""
        return self.out_features * self.in_features * self._weight.element_size()

    @property
    def nbytes(self) -> int:
        return self.out_features * self.in_features * self._weight.element_size()


_agreeing: dict[tuple[int, int, bool, int], int] = {}


def _filled(x: Tensor, rows: int) -> Tensor:
    """`x` [..., width] as so many rows, its own the first."""
    flat = x.reshape(-1, x.shape[-1])
    return flat.expand(rows, -1) if flat.shape[0] == 1 else F.pad(flat, (0, 0, 0, rows - flat.shape[0]))


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
        if self._mirrors:
            # [x, -x] has mean 0 and variance mean(x²), so its LayerNorm is the RMSNorm of x: one fused kernel on the
            # CPU, row by row, where rms_norm is a chain of seven that costs twice as much for one row.
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

    def __call__(self, x: Tensor, unpacked: bool = False) -> Tensor:
        return self.down(self._inner(x, unpacked), unpacked)

    def add_to(self, residual: Tensor, x: Tensor, unpacked: bool = False) -> Tensor:
        return self.down.add_to(residual, self._inner(x, unpacked), unpacked)

    def _inner(self, x: Tensor, unpacked: bool) -> Tensor:
        gate, up = self.gate_up(x, unpacked).chunk(2, dim=-1)
        return self._activation(gate) * up

    @property
    def linears(self) -> list[Linear]:
        return [self.gate_up, self.down]

    @property
    def nbytes(self) -> int:
        return self.gate_up.nbytes + self.down.nbytes
