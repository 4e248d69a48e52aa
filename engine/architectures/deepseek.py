"""DeepSeek-V2 and V2-Lite: latent attention, and a mixture of experts behind the first layers."""

from __future__ import annotations

import math

from engine.architectures.fields import Fields, integer, read_common, rope_parameters
from engine.architectures.registry import Architecture
from engine.architectures.tensors import Part, mlp_parts, norm_parts, vector
from engine.config import ExpertsConfig, LatentConfig, ModelConfig
from engine.errors import UnknownArchitecture


def read_deepseek_v2(config: Fields, generation: Fields) -> ModelConfig:
    latent = LatentConfig(
        rank=integer(config, "kv_lora_rank"),
        query_rank=int(config.get("q_lora_rank") or 0),
        unrotated=integer(config, "qk_nope_head_dim"),
        rotated=integer(config, "qk_rope_head_dim"),
        value_dim=integer(config, "v_head_dim"),
    )
    return read_common(
        config,
        generation,
        kv_heads=1,
        head_dim=latent.rank + latent.rotated,
        latent=latent,
        experts=_experts(config),
        attention_scale=_scale(rope_parameters(config), latent.unrotated + latent.rotated),
    )


def _scale(rope: Fields, width: int) -> float:
    """1 / sqrt(width), with YaRN's temperature where the scaling asks for it on all dimensions."""
    scale, weight = 1.0 / math.sqrt(width), float(rope.get("mscale_all_dim") or 0.0)
    factor = float(rope.get("factor") or 1.0)
    if (rope.get("rope_type") or rope.get("type") or "default") == "default" or not weight or factor <= 1.0:
        return scale
    return scale * (0.1 * weight * math.log(factor) + 1.0) ** 2


def _experts(config: Fields) -> ExpertsConfig | None:
    count = config.get("n_routed_experts")
    first = int(config.get("first_k_dense_replace") or 0)
    if count is None or first >= integer(config, "num_hidden_layers"):
        return None
    method = config.get("topk_method", "greedy")
    if method not in ("greedy", "group_limited_greedy") or int(config.get("moe_layer_freq") or 1) != 1:
        raise UnknownArchitecture(
            f"experts chosen by {method!r}, every {config.get('moe_layer_freq', 1)} layers: computed are 'greedy' and "
            "'group_limited_greedy' in every layer"
        )
    if config.get("norm_topk_prob") or config.get("scoring_func", "softmax") != "softmax":
        raise UnknownArchitecture("experts with norm_topk_prob, or not scored by softmax: not computed")
    grouped = method == "group_limited_greedy"
    return ExpertsConfig(
        count=int(count),
        chosen=integer(config, "num_experts_per_tok"),
        inner=integer(config, "moe_intermediate_size"),
        shared=int(config.get("n_shared_experts") or 0),
        first_layer=first,
        groups=integer(config, "n_group") if grouped else 1,
        chosen_groups=integer(config, "topk_group") if grouped else 1,
        scale=float(config.get("routed_scaling_factor", 1.0)),
    )


def deepseek_layer(config: ModelConfig, layer: int) -> list[Part]:
    latent = config.latent
    assert latent is not None
    hidden, heads, attention = config.hidden_size, config.query_heads, "self_attn."
    bias = config.qkv_bias
    head = latent.unrotated + latent.rotated
    query_rows = [row for at in range(heads) for row in _halves(at * head, latent.unrotated, latent.rotated)]
    query = ("q_b_proj", latent.query_rank) if latent.query_rank else ("q_proj", hidden)
    parts = [
        Part("query", ((attention + query[0], heads * head),), query[1], order=tuple(query_rows)),
        Part(
            "latent",
            ((attention + "kv_a_proj_with_mqa", latent.rank + latent.rotated),),
            hidden,
            bias,
            order=tuple(_halves(0, latent.rank, latent.rotated)),
        ),
        vector("latent_norm", attention + "kv_a_layernorm", latent.rank),
        Part("expansion", ((attention + "kv_b_proj", heads * (latent.unrotated + latent.value_dim)),), latent.rank),
        Part("output", ((attention + "o_proj", hidden),), heads * latent.value_dim, config.output_bias),
        *norm_parts(config),
    ]
    if latent.query_rank:
        parts.append(Part("query_latent", ((attention + "q_a_proj", latent.query_rank),), hidden, bias))
        parts.append(vector("query_latent_norm", attention + "q_a_layernorm", latent.query_rank))
    experts = config.experts
    if experts is None or layer < experts.first_layer:
        return parts + mlp_parts(config)
    inner, each = experts.inner, "mlp.experts.{expert}."
    parts += [
        Part("router", (("mlp.gate", experts.count),), hidden),
        Part(
            "experts.gate_up",
            ((each + "gate_proj", inner), (each + "up_proj", inner)),
            hidden,
            experts=experts.count,
        ),
        Part("experts.down", ((each + "down_proj", hidden),), inner, experts=experts.count),
    ]
    if experts.shared:
        inner, each = experts.shared * experts.inner, "mlp.shared_experts."
        parts += [
            Part("gate_up", ((each + "gate_proj", inner), (each + "up_proj", inner)), hidden, config.mlp_bias),
            Part("down", ((each + "down_proj", hidden),), inner, config.mlp_bias),
        ]
    return parts


def _halves(start: int, plain: int, rotated: int) -> list[int]:
    """Rows of one head: those without RoPE, then the even and then the odd ones of the rotated.

    The checkpoint rotates neighbours (2i, 2i + 1), this engine rows i and i + d/2; scores are the same in either order.
    """
    turned = start + plain
    return [*range(start, turned), *range(turned, turned + rotated, 2), *range(turned + 1, turned + rotated, 2)]


ARCHITECTURES = (Architecture("deepseek_v2", read_deepseek_v2, deepseek_layer),)
