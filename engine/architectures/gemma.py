"""Gemma 2 and 3: norms around attention and MLP, alternating windows, scaled embeddings; soft caps in 2, QK norms and a
RoPE of its own for the windowed layers in 3 (Gemma 2 report, section 2; Gemma 3 report, section 2)."""

from __future__ import annotations

from typing import Any

from engine.architectures.fields import Fields, integer, layer_windows, read_common, read_rope
from engine.architectures.registry import Architecture
from engine.architectures.tensors import Part, attention_parts, mlp_parts, vector
from engine.config import ModelConfig
from engine.errors import UnknownArchitecture


def read_gemma2(config: Fields, generation: Fields) -> ModelConfig:
    return read_common(config, generation, windows=_windows(config, 2), **_shared(config))


def read_gemma3(config: Fields, generation: Fields) -> ModelConfig:
    given = config.get("rope_parameters") or {}
    whole = given.get("full_attention") or config.get("rope_scaling") or {}
    local = given.get("sliding_attention") or {"rope_theta": config.get("rope_local_base_freq", 10_000.0)}
    context = integer(config, "max_position_embeddings")
    pattern = int(config.get("sliding_window_pattern") or config.get("_sliding_window_pattern") or 6)
    return read_common(
        {**config, "rope_parameters": whole},
        generation,
        windows=_windows(config, pattern),
        rope=read_rope(config, whole, context, theta=1_000_000.0),
        local_rope=read_rope({}, local, context),
        qk_norm=True,
        **_shared(config),
    )


def _windows(config: Fields, pattern: int) -> tuple[int, ...]:
    """Every `pattern`-th layer sees everything, where the configuration does not list the layers' types."""
    if config.get("layer_types") is None:
        kinds = [
            "sliding_attention" if (layer + 1) % pattern else "full_attention"
            for layer in range(integer(config, "num_hidden_layers"))
        ]
        config = {**config, "layer_types": kinds}
    return layer_windows(config, True)


def _shared(config: Fields) -> dict[str, Any]:
    if config.get("use_bidirectional_attention"):
        raise UnknownArchitecture("use_bidirectional_attention in config.json: only causal attention is computed")
    return {
        "tied_embeddings": bool(config.get("tie_word_embeddings", True)),
        "attention_scale": float(config.get("query_pre_attn_scalar", 256)) ** -0.5,
        "attention_softcap": float(config.get("attn_logit_softcapping") or 0.0),
        "logit_softcap": float(config.get("final_logit_softcapping") or 0.0),
        "embedding_scale": float(integer(config, "hidden_size")) ** 0.5,
        "post_norms": True,
    }


def gemma_layer(config: ModelConfig, layer: int) -> list[Part]:
    hidden = config.hidden_size
    return [
        *attention_parts(config),
        *mlp_parts(config),
        vector("attention_norm", "input_layernorm", hidden),
        vector("attention_post_norm", "post_attention_layernorm", hidden),
        vector("mlp_norm", "pre_feedforward_layernorm", hidden),
        vector("mlp_post_norm", "post_feedforward_layernorm", hidden),
    ]


ARCHITECTURES = (
    Architecture("gemma2", read_gemma2, gemma_layer, norms_from_one=True),
    Architecture("gemma3_text", read_gemma3, gemma_layer, norms_from_one=True),
)
