"""Random models of a few layers, of shapes that packed kernels take."""

from __future__ import annotations

from functools import cache
from typing import Any

from engine.config import ModelConfig
from engine.loading.random_weights import random_model
from engine.model import Model

SHAPE: dict[str, Any] = {
    "model_type": "llama", "vocab_size": 112, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3,
    "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5, "tie_word_embeddings": True, "eos_token_id": 2,
}  # fmt: skip
KINDS: dict[str, dict[str, Any]] = {
    "llama": {},
    "a window": {"model_type": "mistral", "sliding_window": 20},
    "norms of queries and keys": {"model_type": "qwen3"},
    "soft caps": {
        "model_type": "gemma2", "sliding_window": 20, "query_pre_attn_scalar": 16, "attn_logit_softcapping": 3.0,
        "final_logit_softcapping": 5.0, "hidden_activation": "gelu_pytorch_tanh",
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    },
}  # fmt: skip


@cache
def small_model(kind: str = "llama", dtype: str = "int4") -> Model:
    return random_model(ModelConfig.from_huggingface({**SHAPE, **KINDS[kind]}), device="cpu", dtype=dtype, seed=3)
