from __future__ import annotations

import pytest
import torch

from engine.config import ModelConfig
from engine.errors import ModelError
from engine.loading.random_weights import SHAPES, random_model

TINY = {
    "vocab_size": 64, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
}  # fmt: skip
KINDS = {
    "llama": {},
    "qwen2": {},
    "qwen3": {"head_dim": 16},
    "gemma2": {"head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 8},
    "deepseek_v2": {
        "num_key_value_heads": 4, "kv_lora_rank": 16, "q_lora_rank": None, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,
        "v_head_dim": 8, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
        "n_shared_experts": 1, "first_k_dense_replace": 1, "topk_method": "greedy", "routed_scaling_factor": 1.0,
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_any_architecture_has_random_weights(kind: str) -> None:
    config = ModelConfig.from_huggingface({"model_type": kind, **TINY, **KINDS[kind]})
    model = random_model(config, device="cpu", dtype="float32", seed=3)
    logits = model.forward(torch.tensor([[1, 2, 3, 4]]))
    assert logits.shape == (1, 64) and logits.isfinite().all() and logits.std() > 0.05
    again = random_model(config, device="cpu", dtype="float32", seed=3)
    assert torch.equal(again.forward(torch.tensor([[1, 2, 3, 4]])), logits)


def test_packed_ones_read_fewer_bytes_for_few_rows() -> None:
    config = ModelConfig.from_huggingface({"model_type": "llama", **TINY})
    plain, packed = (random_model(config, device="cpu", dtype=dtype) for dtype in ("bfloat16", "int4"))
    assert packed.packing == "int4"
    assert packed.read_bytes(1) < plain.read_bytes(1) * 0.6
    assert packed.read_bytes(64) == packed.read_bytes(1) and plain.read_bytes(64) == plain.read_bytes(1)
    packed.keeps_packed = False
    assert packed.read_bytes(64) == plain.read_bytes(64)
    matrices = 64 * 64 + 2 * (64 * 128 + 64 * 64 + 64 * 192 + 96 * 64)  # head; QKV, output, gate and up, down
    assert plain.read_bytes(1) == 2 * matrices


def test_an_unknown_shape_is_refused() -> None:
    with pytest.raises(ModelError, match="no shape 'gpt-17': choose smollm2-135m"):
        random_model("gpt-17")
    for name, shape in SHAPES.items():
        assert ModelConfig.from_huggingface(shape).architecture in ("llama", "qwen3"), name
