from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine import architectures
from engine.architectures import Architecture
from engine.architectures.fields import read_common
from engine.architectures.tensors import plain_layer
from engine.config import ModelConfig
from engine.errors import ModelFileError, UnknownArchitecture
from engine.loading import load_model

NAMED = ("llama", "mistral", "qwen2", "qwen3", "smollm3", "phi3", "gemma2", "gemma3_text", "deepseek_v2")
SMALL = {
    "vocab_size": 97,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
}


def test_every_family_is_known_by_the_name_of_its_files() -> None:
    assert set(NAMED) <= set(architectures.names())
    with pytest.raises(UnknownArchitecture, match="unknown architecture 'rwkv': this engine runs llama, mistral"):
        architectures.find("rwkv")


def test_another_decoder_is_a_reader_and_a_list_of_tensors(tmp_path: Path, write_checkpoint: Any) -> None:
    published = write_checkpoint(tmp_path, "LlamaConfig", {})
    config = json.loads((tmp_path / "config.json").read_text()) | {"model_type": "alpaca"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnknownArchitecture, match="'alpaca'"):
        load_model(tmp_path, device="cpu")
    architectures.register(Architecture("alpaca", lambda config, more: read_common(config, more), plain_layer))
    try:
        ids = torch.arange(2, 30).unsqueeze(0)
        with torch.no_grad():
            expected = published(ids).logits[:, -1]
        found = load_model(tmp_path, device="cpu", dtype="float32").forward(ids)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    finally:
        architectures.registry._known.pop("alpaca")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model_type": "gemma3_text", "use_bidirectional_attention": True}, "only causal attention"),
        (
            {"model_type": "deepseek_v2", "topk_method": "noaux_tc", "n_routed_experts": 8},
            "experts chosen by 'noaux_tc'",
        ),
        ({"model_type": "deepseek_v2", "norm_topk_prob": True, "n_routed_experts": 8}, "norm_topk_prob"),
    ],
)
def test_what_a_family_has_and_the_engine_does_not_is_refused(changes: dict[str, Any], said: str) -> None:
    latent = {"kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8}
    with pytest.raises(UnknownArchitecture, match=said):
        ModelConfig.from_huggingface(SMALL | latent | changes)


def test_older_spellings_of_gemma_3_and_smollm_3_mean_what_the_newer_say() -> None:
    old = SMALL | {"model_type": "gemma3_text", "sliding_window": 8, "sliding_window_pattern": 2, "head_dim": 8}
    old |= {"rope_theta": 5e5, "rope_local_base_freq": 2e4, "rope_scaling": {"rope_type": "linear", "factor": 8.0}}
    config = ModelConfig.from_huggingface(old)
    assert config.windows == (8, 0, 8, 0)
    assert (config.rope.theta, config.rope.kind, config.rope.factor) == (5e5, "linear", 8.0)
    assert config.local_rope is not None and (config.local_rope.theta, config.local_rope.kind) == (2e4, "default")
    assert ModelConfig.from_huggingface(SMALL | {"model_type": "smollm3"}).unrotated_layers == (3,)
    listed = SMALL | {"model_type": "smollm3", "no_rope_layers": [0, 1, 1, 0]}
    assert ModelConfig.from_huggingface(listed).unrotated_layers == (0, 3)


def test_a_missing_expert_is_named(tmp_path: Path, write_checkpoint: Any) -> None:
    latent = {"num_key_value_heads": 6, "kv_lora_rank": 8, "q_lora_rank": None, "qk_nope_head_dim": 8}
    latent |= {"qk_rope_head_dim": 4, "v_head_dim": 8, "n_routed_experts": 4, "num_experts_per_tok": 2}
    write_checkpoint(tmp_path, "DeepseekV2Config", latent | {"moe_intermediate_size": 16, "n_shared_experts": 1})
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    del tensors["model.layers.1.mlp.experts.2.up_proj.weight"]
    save_file(tensors, file, {"format": "pt"})
    with pytest.raises(ModelFileError, match=r"no tensor 'model\.layers\.1\.mlp\.experts\.2\.up_proj\.weight'"):
        load_model(tmp_path, device="cpu", dtype="float32")


def test_a_latent_cache_keeps_one_vector_a_token() -> None:
    latent = {"kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8}
    config = ModelConfig.from_huggingface(SMALL | {"model_type": "deepseek_v2"} | latent)
    assert config.kv_values_per_token == 4 * (16 + 4)
    plain = ModelConfig.from_huggingface(SMALL | {"model_type": "llama"})
    assert plain.kv_values_per_token == 4 * 2 * 2 * 8
