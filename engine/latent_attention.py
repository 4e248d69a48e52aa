"""Multi-head latent attention (DeepSeek-V2, section 2.1) over the compressed keys and values themselves.

A cache holds one vector of `rank + rotated` numbers per token.  Instead of expanding it to every head's key and value, the
expansion is taken to the other side (section 2.1.2): queries are multiplied by the key half of it before the scores, and
what they mix by the value half after.  Then all query heads share one key, of which a part is the value.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from engine.attention import attend
from engine.config import LatentConfig, ModelConfig
from engine.fixed_step import FixedStep
from engine.layers import Linear, RMSNorm
from engine.packed import make_linear
from engine.paged_step import PagedStep
from engine.rope import RotaryEmbedding, rotate
from engine.step import Step

QUERY_NORM_EPS = 1e-6
"""Of the norms of the latents, whatever the model's own."""


class LatentAttention:
    """Attention whose cache holds latents."""

    def __init__(
        self,
        config: ModelConfig,
        latent: LatentConfig,
        layer: int,
        weights: Mapping[str, Tensor],
        rotary: RotaryEmbedding,
    ) -> None:
        name = f"layers.{layer}."
        self.layer, self.heads, self.latent, self.rotary = layer, config.query_heads, latent, rotary
        self.scale = config.attention_scale
        self.query, self.compress = make_linear(weights, name + "query"), make_linear(weights, name + "latent")
        self.output = make_linear(weights, name + "output")
        self.latent_norm = RMSNorm(weights[name + "latent_norm.weight"], QUERY_NORM_EPS)
        self.query_latent: Linear | None = None
        if latent.query_rank:
            self.query_latent = make_linear(weights, name + "query_latent")
            self.query_latent_norm = RMSNorm(weights[name + "query_latent_norm.weight"], QUERY_NORM_EPS)
        expansion = weights[name + "expansion.weight"].view(self.heads, -1, latent.rank)
        # [heads, unrotated, rank] and [heads, rank, value_dim]
        self._to_keys = expansion[:, : latent.unrotated].contiguous()
        self._to_values = expansion[:, latent.unrotated :].transpose(1, 2).contiguous()

    def __call__(self, x: Tensor, step: Step | FixedStep | PagedStep) -> Tensor:
        batch, new, _ = x.shape
        latent, rotation = self.latent, step.rotation(self.rotary)
        unpacked = step.unpacked
        source = x if self.query_latent is None else self.query_latent_norm(self.query_latent(x, unpacked))
        queries = self.query(source, unpacked).view(batch, new, self.heads, latent.unrotated + latent.rotated)
        plain, turning = torch.split_with_sizes(queries, [latent.unrotated, latent.rotated], -1)
        absorbed = torch.einsum("bnhd,hdr->bnhr", plain, self._to_keys)
        queries = torch.cat((absorbed, rotate(turning, *rotation)), dim=-1).transpose(1, 2)
        compressed, shared = torch.split_with_sizes(self.compress(x, unpacked), [latent.rank, latent.rotated], -1)
        turned = rotate(shared.unsqueeze(2), *rotation)
        keys = torch.cat((self.latent_norm(compressed).unsqueeze(2), turned), dim=-1).transpose(1, 2)
        mask, causal = step.mask(0, self.layer)
        if step.cache is not None:
            keys, _ = step.cache.update(self.layer, keys, keys.narrow(-1, 0, 0))
        mixed = attend(queries, keys, keys.narrow(-1, 0, latent.rank), mask, causal, step.backend, scale=self.scale)
        values = torch.einsum("bhnr,hrv->bnhv", mixed, self._to_values)
        return values.reshape(batch, new, self.heads * latent.value_dim)

    @property
    def linears(self) -> list[Linear]:
        """Products by weights, but for the expansion, which is on both sides of the attention."""
        return [self.query, self.compress, self.output, *([self.query_latent] if self.query_latent else [])]
