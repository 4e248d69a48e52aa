"""What a GGUF's metadata says of a model, and what its tensors are called there (ggml's docs/gguf.md; the conversion rules
of llama.cpp's convert_hf_to_gguf.py and src/llama-model.cpp)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from engine.config import ModelConfig, RopeConfig, first_id, gguf_end_tokens, rope_kind
from engine.errors import ModelFileError, UnknownArchitecture

Metadata = Mapping[str, Any]

_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
_GEMMA_NAMES = {
    **_NAMES,
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def read_gguf(metadata: Metadata, tensors: Collection[str]) -> ModelConfig:
    """The configuration of a GGUF; see `ModelConfig.from_gguf`."""
    name = str(metadata.get("general.architecture", "(none)"))
    if name not in _READERS:
        raise UnknownArchitecture(
            f"unknown architecture {name!r} in the GGUF: this engine runs {', '.join(_READERS)} from a GGUF, and more from "
            "safetensors"
        )
    if f"{name}.expert_count" in metadata:
        raise UnknownArchitecture(f"a mixture of experts ({name}): only dense models are computed")
    fields = _Fields(name, metadata)
    common = _common(fields, frozenset(tensors))
    return ModelConfig(**{**common, **_READERS[name](fields, common)})


def gguf_tensor_name(name: str, architecture: str = "llama") -> str:
    """`model.layers.3.self_attn.q_proj.weight` → `blk.3.attn_q.weight`."""
    whole = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
    }
    if name in whole:
        return whole[name]
    _, _, layer, rest = name.split(".", 3)
    part, kind = rest.rsplit(".", 1)
    names = _GEMMA_NAMES if architecture.startswith("gemma") else _NAMES
    if part not in names:
        raise UnknownArchitecture(f"no GGUF name for tensor {name!r}")
    return f"blk.{layer}.{names[part]}.{kind}"


class _Fields:
    """The metadata under one architecture's name."""

    def __init__(self, architecture: str, metadata: Metadata) -> None:
        self.architecture, self.metadata = architecture, metadata

    def __call__(self, name: str, default: Any = None) -> Any:
        value = self.metadata.get(f"{self.architecture}.{name}", default)
        if value is None:
            raise ModelFileError(
                f"the GGUF has no {self.architecture}.{name}: it is not a whole {self.architecture} model"
            )
        return value


def _common(field: _Fields, tensors: frozenset[str]) -> dict[str, Any]:
    metadata = field.metadata
    hidden, query_heads = int(field("embedding_length")), int(field("attention.head_count"))
    head_dim = int(field("attention.key_length", hidden // query_heads))
    context = int(field("context_length"))
    window, layers = int(field("attention.sliding_window", 0)), int(field("block_count"))
    return {
        "architecture": field.architecture,
        "vocab_size": int(field("vocab_size", len(metadata.get("tokenizer.ggml.tokens", ())) or None)),
        "hidden_size": hidden,
        "layers": layers,
        "query_heads": query_heads,
        "kv_heads": int(field("attention.head_count_kv", query_heads)),
        "head_dim": head_dim,
        "intermediate_size": int(field("feed_forward_length")),
        "context_length": context,
        "windows": (window,) * layers if window else (),
        "norm_eps": float(field("attention.layer_norm_rms_epsilon")),
        "rope": _rope(field, context, "rope_freqs.weight" in tensors),
        "tied_embeddings": "output.weight" not in tensors,
        "qkv_bias": "blk.0.attn_q.bias" in tensors,
        "output_bias": "blk.0.attn_output.bias" in tensors,
        "mlp_bias": "blk.0.ffn_gate.bias" in tensors,
        "qk_norm": "blk.0.attn_q_norm.weight" in tensors,
        "bos_token_id": first_id(metadata.get("tokenizer.ggml.bos_token_id")),
        "pad_token_id": first_id(metadata.get("tokenizer.ggml.padding_token_id")),
        "eos_token_ids": gguf_end_tokens(metadata),
    }


def _rope(field: _Fields, context: int, has_factors: bool) -> RopeConfig:
    """RoPE of a GGUF.  Llama 3's scaling is stored as a tensor of divisors, one per frequency, not as parameters."""
    theta = float(field("rope.freq_base", 10_000.0))
    kind = field("rope.scaling.type", "none")
    if has_factors:
        return RopeConfig(theta, "llama3", original_context=context)
    if kind == "none":
        return RopeConfig(theta, original_context=context)
    return RopeConfig(
        theta,
        rope_kind(kind),
        factor=float(field("rope.scaling.factor", 1.0)),
        original_context=int(field("rope.scaling.original_context_length", context)),
    )


Changes = dict[str, Any]


def _plain(field: _Fields, common: Changes) -> Changes:
    if int(field("rope.dimension_count", common["head_dim"])) != common["head_dim"]:
        raise UnknownArchitecture("RoPE over a part of each head: only whole heads are rotated")
    return {}


def _phi3(field: _Fields, common: Changes) -> Changes:
    """Long contexts have two sets of divisors as tensors: for the original context, and for one past it."""
    changes: Changes = {"rotary_dim": int(field("rope.dimension_count", common["head_dim"]))}
    context = common["context_length"]
    original = int(field("rope.scaling.original_context_length", context))
    if original < context:
        attention = float(field("rope.scaling.attn_factor", 0.0))
        changes["context_length"] = original
        changes["rope"] = RopeConfig(
            common["rope"].theta, "longrope", factor=context / original, original_context=original,
            attention_factor=attention or None, longest=context,
        )  # fmt: skip
    return changes


def _gemma2(field: _Fields, common: Changes) -> Changes:
    return {
        **_gemma(field, common, pattern=2, scaled_by_width=46),
        "attention_softcap": float(field("attn_logit_softcapping", 50.0)),
        "logit_softcap": float(field("final_logit_softcapping", 30.0)),
    }


def _gemma3(field: _Fields, common: Changes) -> Changes:
    """Only the layers that see everything have the stretched RoPE."""
    context = common["context_length"]
    theta = float(field("rope.freq_base", 1_000_000.0))
    return {
        **_gemma(field, common, pattern=6, scaled_by_width=62),
        "architecture": "gemma3_text",
        "rope": RopeConfig(theta, common["rope"].kind, common["rope"].factor, common["rope"].original_context),
        "local_rope": RopeConfig(float(field("rope.freq_base_swa", 10_000.0)), original_context=context),
        "logit_softcap": float(field("final_logit_softcapping", 0.0)),
    }


def _gemma(field: _Fields, common: Changes, pattern: int, scaled_by_width: int) -> Changes:
    """`scaled_by_width`: layers of the one size whose scores are divided by the root of the width of a head's share of the
    hidden states, instead of that of its keys."""
    _plain(field, common)
    layers, hidden = common["layers"], common["hidden_size"]
    window = int(field("attention.sliding_window"))
    divisor = hidden // common["query_heads"] if layers == scaled_by_width else common["head_dim"]
    return {
        "windows": tuple(window if (layer + 1) % pattern else 0 for layer in range(layers)),
        "activation": "gelu_tanh",
        "attention_scale": float(divisor) ** -0.5,
        "embedding_scale": float(hidden) ** 0.5,
        "post_norms": True,
    }


_READERS: dict[str, Callable[[_Fields, Changes], Changes]] = {
    "llama": _plain,
    "mistral": _plain,
    "qwen2": _plain,
    "qwen3": _plain,
    "phi3": _phi3,
    "gemma2": _gemma2,
    "gemma3": _gemma3,
}
