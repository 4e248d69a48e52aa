"""What the `config.json` of every decoder has in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.config import ModelConfig, RopeConfig, first_id, rope_kind, token_ids
from engine.errors import ModelFileError, UnknownArchitecture

Fields = Mapping[str, Any]

_ACTIVATIONS = {"silu": "silu", "swish": "silu", "gelu_pytorch_tanh": "gelu_tanh"}


def read_common(config: Fields, generation: Fields, **changes: Any) -> ModelConfig:
    """A plain decoder's configuration, with `changes` to its fields.

    The end tokens come from `generation_config.json` where that names any.

    Raises:
        UnknownArchitecture: activation or RoPE kind that the engine does not compute.
        ModelFileError: a key that every configuration has is missing.
    """
    hidden, query_heads = integer(config, "hidden_size"), integer(config, "num_attention_heads")
    head_dim = int(config.get("head_dim") or hidden // query_heads)
    context = integer(config, "max_position_embeddings")
    rope = rope_parameters(config)
    if "rotary_dim" not in changes and rotated_share(config) != 1.0:
        raise UnknownArchitecture("RoPE over a part of each head: only whole heads are rotated")
    bias = bool(config.get("attention_bias", False))
    ends = generation.get("eos_token_id", config.get("eos_token_id"))
    common: dict[str, Any] = {
        "architecture": str(config["model_type"]),
        "vocab_size": integer(config, "vocab_size"),
        "hidden_size": hidden,
        "layers": integer(config, "num_hidden_layers"),
        "query_heads": query_heads,
        "kv_heads": int(config.get("num_key_value_heads") or query_heads),
        "head_dim": head_dim,
        "intermediate_size": integer(config, "intermediate_size"),
        "context_length": usable_context(config, rope, context),
        "norm_eps": float(config.get("rms_norm_eps", 1e-6)),
        "rope": read_rope(config, rope, context),
        "tied_embeddings": bool(config.get("tie_word_embeddings", False)),
        "qkv_bias": bias,
        "output_bias": bias,
        "mlp_bias": bool(config.get("mlp_bias", False)),
        "activation": _activation(config),
        "windows": layer_windows(config, bool(config.get("use_sliding_window", False))),
        "bos_token_id": first_id(config.get("bos_token_id")),
        "pad_token_id": first_id(config.get("pad_token_id")),
        "eos_token_ids": token_ids(ends),
    }
    return ModelConfig(**{**common, **changes})


def integer(config: Fields, name: str) -> int:
    """A whole number that the configuration must have."""
    if config.get(name) is None:
        raise ModelFileError(f"config.json has no {name!r}: take a whole {config['model_type']} model")
    return int(config[name])


def layer_windows(config: Fields, slides: bool) -> tuple[int, ...]:
    """The window of each layer: from `layer_types` where there are any, else of all layers alike; empty: none."""
    window, layers = config.get("sliding_window"), integer(config, "num_hidden_layers")
    if window is None or not slides:
        return ()
    kinds = config.get("layer_types")
    if kinds is None:
        first = int(config.get("max_window_layers") or 0)
        return tuple(int(window) if layer >= first else 0 for layer in range(layers))
    windows = {"sliding_attention": int(window), "full_attention": 0}
    unknown = sorted(set(kinds) - set(windows))
    if unknown:
        raise UnknownArchitecture(f"layers of type {unknown[0]!r} in config.json: computed are {', '.join(windows)}")
    return tuple(windows[kind] for kind in kinds)


def rope_parameters(config: Fields) -> Fields:
    """RoPE's settings in either spelling: `rope_parameters`, or `rope_scaling` beside `rope_theta`."""
    return config.get("rope_parameters") or config.get("rope_scaling") or {}


def read_rope(config: Fields, given: Fields, context: int, theta: float | None = None) -> RopeConfig:
    """RoPE by its settings `given`; `context` is the model's, `theta` the base where the settings name none."""
    base = float(given.get("rope_theta") or config.get("rope_theta") or theta or 10_000.0)
    kind = given.get("rope_type") or given.get("type") or "default"
    kind = "longrope" if kind == "su" else kind
    original = context if kind == "dynamic" else _original(config, given, context)
    factor = given.get("factor")
    if factor is None:
        factor = context / original if kind in ("yarn", "longrope") else 1.0
    names = {
        "low_frequency_factor": "low_freq_factor",
        "high_frequency_factor": "high_freq_factor",
        **{
            name: name
            for name in ("beta_fast", "beta_slow", "attention_factor", "mscale", "mscale_all_dim", "truncate")
        },
    }
    optional = {ours: given[theirs] for ours, theirs in names.items() if given.get(theirs) is not None}
    if kind == "longrope":
        for name in ("short_factor", "long_factor"):
            if name not in given:
                raise ModelFileError(f"config.json has RoPE scaling 'longrope' but no {name!r}: take a whole model")
            optional[f"{name}s"] = tuple(float(factor) for factor in given[name])
        optional["longest"] = context
    if kind == "dynamic":
        optional["longest"] = int(context * max(1.0, float(factor)))
    return RopeConfig(base, rope_kind(kind), float(factor), original, **optional)


def usable_context(config: Fields, given: Fields, context: int) -> int:
    """The context without `ModelConfig.for_context`: that of the pretraining where RoPE has other frequencies past it."""
    kind = given.get("rope_type") or given.get("type") or "default"
    return min(context, _original(config, given, context)) if kind in ("longrope", "su") else context


def _original(config: Fields, given: Fields, context: int) -> int:
    name = "original_max_position_embeddings"
    return int(given.get(name) or config.get(name) or context)


def _activation(config: Fields) -> str:
    name = config.get("hidden_activation") or config.get("hidden_act") or "silu"
    if name not in _ACTIVATIONS:
        raise UnknownArchitecture(f"activation {name!r} in config.json: computed are {', '.join(_ACTIVATIONS)}")
    return _ACTIVATIONS[name]


def rotated_share(config: Fields) -> float:
    """The share of each head that RoPE turns."""
    name = "partial_rotary_factor"
    return float(rope_parameters(config).get(name) or config.get(name) or 1.0)
