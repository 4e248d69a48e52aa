"""One layer of a decoder: norm, attention, norm, MLP, each added to the stream."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Protocol

import torch
from torch import Tensor

from engine.attention import attend
from engine.config import ModelConfig
from engine.experts import Experts
from engine.fixed_step import FixedStep
from engine.latent_attention import LatentAttention
from engine.layers import GatedMLP, Linear, RMSNorm
from engine.packed import make_linear
from engine.paged_step import PagedStep
from engine.rope import RotaryEmbedding, rotate
from engine.step import Step


class Attention(Protocol):
    """Mixes tokens; `layer` is its place in the cache, `output` the product that ends it."""

    layer: int
    output: Linear

    def __call__(self, x: Tensor, step: Step | FixedStep | PagedStep) -> Tensor:
        """[batch, new, hidden], normalised → [batch, new, output's inputs]."""

    @property
    def linears(self) -> list[Linear]: ...


class SelfAttention:
    """Attention of grouped query heads, with keys and values as they are in the cache."""

    def __init__(
        self, config: ModelConfig, layer: int, weights: Mapping[str, Tensor], rotary: RotaryEmbedding | None
    ) -> None:
        """`rotary` is `None` in a layer without RoPE."""
        name = f"layers.{layer}."
        self.layer, self.rotary = layer, rotary
        self.query_heads, self.kv_heads, self.head_dim = config.query_heads, config.kv_heads, config.head_dim
        self.window = config.window(layer)
        self.scale, self.softcap = config.attention_scale, config.attention_softcap
        self.qkv, self.output = make_linear(weights, name + "qkv"), make_linear(weights, name + "output")
        self.query_norm = self.key_norm = None
        if config.qk_norm:
            self.query_norm = RMSNorm(weights[name + "query_norm.weight"], config.norm_eps)
            self.key_norm = RMSNorm(weights[name + "key_norm.weight"], config.norm_eps)

    def __call__(self, x: Tensor, step: Step | FixedStep | PagedStep) -> Tensor:
        filled = step if isinstance(step, Step) and step.missing else None
        product = self.qkv(x, step.unpacked)
        if filled is not None:
            product = filled.real(product)
        batch, new, _ = product.shape
        turned_heads = self.query_heads + self.kv_heads
        heads = product.view(batch, new, turned_heads + self.kv_heads, self.head_dim)
        turned = heads.narrow(2, 0, turned_heads)
        if self.query_norm is not None and self.key_norm is not None:
            queries = turned.narrow(2, 0, self.query_heads)
            keys = turned.narrow(2, self.query_heads, self.kv_heads)
            turned = torch.cat((self.query_norm(queries), self.key_norm(keys)), dim=2)
        if self.rotary is not None:
            turned = rotate(turned, *step.rotation(self.rotary))
        turned = turned.transpose(1, 2)
        queries = turned.narrow(1, 0, self.query_heads)
        keys = turned.narrow(1, self.query_heads, self.kv_heads)
        values = heads.narrow(2, turned_heads, self.kv_heads).transpose(1, 2)
        mixed = None
        if step.cache is not None:
            mixed = step.cache.attend(
                self.layer, queries, keys, values, step.backend,
                window=self.window, scale=self.scale, softcap=self.softcap,
            )  # fmt: skip
        if mixed is None and isinstance(step, Step) and step.alike:
            mixed = step.attend_alike(
                self.layer, queries, keys, values, window=self.window, scale=self.scale, softcap=self.softcap
            )
        elif mixed is None:
            mask, causal = step.mask(self.window, self.layer)
            if step.cache is not None:
                keys, values = step.cache.update(self.layer, keys, values)
            mixed = attend(queries, keys, values, mask, causal, step.backend, scale=self.scale, softcap=self.softcap)
        mixed = mixed.transpose(1, 2).reshape(batch, new, self.query_heads * self.head_dim)
        return mixed if filled is None else filled.fill(mixed)

    @property
    def linears(self) -> list[Linear]:
        return [self.qkv, self.output]


class Block:
    """x + attention(norm(x)), then x + mlp(norm(x)); with `post_norms` what is added is normalised once more."""

    def __init__(
        self, config: ModelConfig, layer: int, weights: Mapping[str, Tensor], rotary: RotaryEmbedding | None
    ) -> None:
        name = f"layers.{layer}."

        def norm(which: str) -> RMSNorm:
            return RMSNorm(weights[f"{name}{which}.weight"], config.norm_eps)

        self.attention: Attention
        if config.latent is not None and rotary is not None:
            self.attention = LatentAttention(config, config.latent, layer, weights, rotary)
        else:
            self.attention = SelfAttention(config, layer, weights, rotary)
        self.attention_norm, self.mlp_norm = norm("attention_norm"), norm("mlp_norm")
        self.attention_post_norm = norm("attention_post_norm") if config.post_norms else None
        self.mlp_post_norm = norm("mlp_post_norm") if config.post_norms else None
        experts = config.experts
        self.mlp: GatedMLP | Experts
        if experts is not None and layer >= experts.first_layer:
            self.mlp = Experts(experts, config.activation, name, weights)
        else:
            gate_up, down = make_linear(weights, name + "gate_up"), make_linear(weights, name + "down")
            self.mlp = GatedMLP(gate_up, down, config.activation)

    def __call__(self, x: Tensor, step: Step | FixedStep | PagedStep) -> Tensor:
        """`x` [batch, new, hidden] → the same shape."""
        mixed = self.attention(self.attention_norm(x), step)
        if self.attention_post_norm is None:
            x = self.attention.output.add_to(x, mixed, step.unpacked)
        else:
            x = x + self.attention_post_norm(self.attention.output(mixed, step.unpacked))
        if self.mlp_post_norm is None:
            return self.mlp.add_to(x, self.mlp_norm(x), step.unpacked)
        return x + self.mlp_post_norm(self.mlp(self.mlp_norm(x), step.unpacked))

    @property
    def linears(self) -> list[Linear]:
        """The products of the attention, and of the MLP where it is one."""
        return [*self.attention.linears, *(self.mlp.linears if isinstance(self.mlp, GatedMLP) else ())]

    def at(self, layer: int) -> Block:
        """The same block, weights and all, with another layer's place in the cache."""
        block = copy(self)
        block.attention = copy(self.attention)
        block.attention.layer = layer
        return block

    def read_bytes(self, unpacked: bool) -> int:
        """Bytes of the layer's matrices that a step reads, packed ones as they are or `unpacked`; all experts count."""
        mlp = self.mlp
        inner = sum(each.read_bytes(unpacked) for each in mlp.linears) if isinstance(mlp, GatedMLP) else mlp.nbytes
        return sum(linear.read_bytes(unpacked) for linear in self.attention.linears) + inner

    @property
    def nbytes(self) -> int:
        """Bytes of the layer's matrices."""
        return sum(linear.nbytes for linear in self.attention.linears) + self.mlp.nbytes
