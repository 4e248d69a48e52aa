"""A mixture of experts in place of the MLP (DeepSeek-V2, section 2.2): each token goes through the few that it scores best,
and through the shared ones."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.config import Activation, ExpertsConfig
from engine.layers import ACTIVATIONS, GatedMLP
from engine.packed import make_linear


class Experts:
    """Σ weight · expert(x) over the chosen experts, + shared(x)."""

    def __init__(self, config: ExpertsConfig, activation: Activation, name: str, weights: Mapping[str, Tensor]) -> None:
        self.config, self._activation = config, ACTIVATIONS[activation]
        self._router = weights[name + "router.weight"].float()
        self._gate_up = weights[name + "experts.gate_up.weight"]
        self._down = weights[name + "experts.down.weight"]
        self.shared: GatedMLP | None = None
        if config.shared:
            gate_up, down = make_linear(weights, name + "gate_up"), make_linear(weights, name + "down")
            self.shared = GatedMLP(gate_up, down, activation)

    def __call__(self, x: Tensor, unpacked: bool = False) -> Tensor:
        tokens = x.reshape(-1, x.shape[-1])
        chosen, shares = self.choose(tokens)
        total = torch.zeros_like(tokens)
        for expert in torch.unique(chosen).tolist():
            rows, places = (chosen == expert).nonzero(as_tuple=True)
            gate, up = F.linear(tokens[rows], self._gate_up[expert]).chunk(2, dim=-1)
            product = F.linear(self._activation(gate) * up, self._down[expert])
            total.index_add_(0, rows, (product * shares[rows, places].unsqueeze(-1)).to(total.dtype))
        mixed = total.view(x.shape)
        return mixed if self.shared is None else mixed + self.shared(x, unpacked)

    def add_to(self, residual: Tensor, x: Tensor, unpacked: bool = False) -> Tensor:
        return residual + self(x, unpacked)

    def choose(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Experts int64 [tokens, chosen] and their weights float32, of `tokens` [tokens, hidden]."""
        config = self.config
        scores = F.linear(tokens.float(), self._router).softmax(dim=-1)
        candidates = scores
        if config.chosen_groups < config.groups:
            grouped = scores.view(len(tokens), config.groups, -1)
            best = grouped.amax(dim=-1).topk(config.chosen_groups, dim=-1).indices
            open_groups = torch.zeros(grouped.shape[:2], dtype=torch.bool, device=tokens.device).scatter_(1, best, True)
            candidates = grouped.masked_fill(~open_groups.unsqueeze(-1), 0.0).view(scores.shape)
        shares, chosen = candidates.topk(config.chosen, dim=-1)
        return chosen, shares * config.scale

    @property
    def nbytes(self) -> int:
        own = self._router.nbytes + self._gate_up.nbytes + self._down.nbytes
        return own + (0 if self.shared is None else self.shared.nbytes)
