"""Every supported architecture computes what Transformers computes, cached or not, alone or in a padded batch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.loading import load_model
from engine.model import Model

LATENT: dict[str, Any] = {
    "num_key_value_heads": 6,
    "kv_lora_rank": 16,
    "q_lora_rank": None,
    "qk_nope_head_dim": 10,
    "qk_rope_head_dim": 8,
    "v_head_dim": 12,
    "n_routed_experts": 8,
    "n_shared_experts": 2,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 24,
    "first_k_dense_replace": 0,
}

EXACT = ["dynamic", "static", "paged", "sliding", "offloaded"]

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", {}),
    "llama with every bias": ("LlamaConfig", {"attention_bias": True, "mlp_bias": True}),
    "llama with tied embeddings": ("LlamaConfig", {"tie_word_embeddings": True}),
    "llama with one key head": ("LlamaConfig", {"num_key_value_heads": 1}),
    "llama with a key head for each query head": ("LlamaConfig", {"num_key_value_heads": 6}),
    "llama with a wide head": ("LlamaConfig", {"head_dim": 16}),
    "llama with llama3 rope": (
        "LlamaConfig",
        {
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 10000.0,
                "factor": 4.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            }
        },
    ),
    "llama with linear rope": (
        "LlamaConfig",
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.5}},
    ),
    "llama with dynamic rope": (
        "LlamaConfig",
        {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}},
    ),
    "llama with yarn": (
        "LlamaConfig",
        {
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 10000.0,
                "factor": 4.0,
                "original_max_position_embeddings": 64,
            }
        },
    ),
    "mistral": ("MistralConfig", {"sliding_window": None}),
    "mistral inside its window": ("MistralConfig", {"sliding_window": 200}),
    "mistral past its window": ("MistralConfig", {"sliding_window": 12}),
    "qwen2": ("Qwen2Config", {}),
    "qwen2 with windows in its last layers": (
        "Qwen2Config",
        {"use_sliding_window": True, "sliding_window": 10, "max_window_layers": 1},
    ),
    "qwen3": ("Qwen3Config", {"head_dim": 16}),
    "smollm3": ("SmolLM3Config", {"no_rope_layer_interval": 2}),
    "phi3": ("Phi3Config", {}),
    "phi3 with a window": ("Phi3Config", {"sliding_window": 12}),
    "phi3 rotating a part of each head": (
        "Phi3Config",
        {
            "head_dim": 16,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.75},
        },
    ),
    "phi3 with longrope": (
        "Phi3Config",
        {
            "max_position_embeddings": 512,
            "original_max_position_embeddings": 256,
            "rope_parameters": {
                "rope_type": "longrope",
                "rope_theta": 10000.0,
                "short_factor": [1.0, 1.5, 2.0, 3.0],
                "long_factor": [2.0, 3.0, 4.0, 6.0],
                "original_max_position_embeddings": 256,
            },
        },
    ),
    "gemma2": ("Gemma2Config", {"head_dim": 16, "sliding_window": 12, "query_pre_attn_scalar": 24}),
    "gemma3": (
        "Gemma3TextConfig",
        {"head_dim": 16, "sliding_window": 12, "query_pre_attn_scalar": 24, "sliding_window_pattern": 2},
    ),
    "deepseek with dense layers": ("DeepseekV2Config", {**LATENT, "first_k_dense_replace": 3}),
    "deepseek with experts": ("DeepseekV2Config", {**LATENT, "first_k_dense_replace": 1}),
    "deepseek with compressed queries and grouped experts": (
        "DeepseekV2Config",
        {
            **LATENT,
            "q_lora_rank": 20,
            "topk_method": "group_limited_greedy",
            "n_group": 4,
            "topk_group": 2,
            "routed_scaling_factor": 2.5,
        },
    ),
    "deepseek with yarn": (
        "DeepseekV2Config",
        {
            **LATENT,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 10000.0,
                "factor": 4.0,
                "original_max_position_embeddings": 64,
                "mscale": 0.7,
                "mscale_all_dim": 0.7,
            },
        },
    ),
}


@pytest.fixture(scope="module", params=sorted(VARIANTS))
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, write_checkpoint: Callable[..., Any]
) -> tuple[Any, Model]:
    folder = tmp_path_factory.mktemp("checkpoint")
    published = write_checkpoint(folder, *VARIANTS[request.param])
    published.set_attn_implementation("eager")  # the others leave out Gemma 2's soft cap
    return published, load_model(folder, device="cpu", dtype="float32")


def _random_ids(batch: int, length: int) -> torch.Tensor:
    return torch.randint(0, 97, (batch, length), generator=torch.Generator().manual_seed(batch * 1000 + length))


def test_logits_equal_those_of_transformers(pair: tuple[Any, Model]) -> None:
    published, model = pair
    ids = _random_ids(2, 150)
    with torch.no_grad():
        expected = published(ids).logits
    torch.testing.assert_close(model.forward(ids, logits="all"), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(model.forward(ids), expected[:, -1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("cache_name", EXACT)
def test_cached_logits_equal_uncached_ones_at_every_step(pair: tuple[Any, Model], cache_name: str) -> None:
    _, model = pair
    ids = _random_ids(2, 40)
    whole = model.forward(ids, logits="all")
    cache = model.new_cache(cache_name, batch=2, capacity=64)
    at = 0
    for step in (9, 1, 1, 7, 1, 1, 1, 12, 1, 6):
        part = model.forward(ids[:, at : at + step], cache, logits="all")
        torch.testing.assert_close(part, whole[:, at : at + step], rtol=1e-4, atol=1e-4)
        at += step
        assert cache.lengths == (at, at)
    assert at == 40


@pytest.mark.parametrize("cache_name", EXACT)
@pytest.mark.parametrize("padding", ["left", "right"])
def test_a_padded_batch_equals_each_row_alone(pair: tuple[Any, Model], cache_name: str, padding: Any) -> None:
    _, model = pair
    lengths = [5, 13, 1, 9]
    rows = [_random_ids(1, length + 6)[0] for length in lengths]
    alone = [model.forward(row.unsqueeze(0), logits="all")[0] for row in rows]
    width = max(lengths)
    prompt = torch.full((4, width), 96)
    for at, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        place = slice(width - length, width) if padding == "left" else slice(0, length)
        prompt[at, place] = row[:length]
    cache = model.new_cache(cache_name, batch=4, capacity=32)
    everything = model.forward(prompt, logits="all", lengths=lengths, padding=padding)
    last = model.forward(prompt, cache, lengths=lengths, padding=padding)
    assert cache.lengths == tuple(lengths)
    for at, length in enumerate(lengths):
        place = slice(width - length, width) if padding == "left" else slice(0, length)
        torch.testing.assert_close(everything[at, place], alone[at][:length], rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(last[at], alone[at][length - 1], rtol=1e-4, atol=1e-4)
    for step in range(3):
        new = torch.stack([row[length + step] for row, length in zip(rows, lengths, strict=True)])
        logits = model.forward(new.unsqueeze(1), cache)
        expected = torch.stack([whole[length + step] for whole, length in zip(alone, lengths, strict=True)])
        torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)
    ragged = torch.stack([row[length + 3 : length + 6] for row, length in zip(rows, lengths, strict=True)])
    logits = model.forward(ragged, cache, lengths=[3, 1, 0, 2], logits="all")
    assert cache.lengths == (11, 17, 4, 14)
    for at, count in enumerate([3, 1, 0, 2]):
        start = lengths[at] + 3
        torch.testing.assert_close(logits[at, :count], alone[at][start : start + count], rtol=1e-4, atol=1e-4)


def test_the_math_backend_agrees_with_the_fused_one(pair: tuple[Any, Model]) -> None:
    _, model = pair
    ids = _random_ids(2, 20)
    fused = model.forward(ids, logits="all")
    model.backend = "math"
    try:
        torch.testing.assert_close(model.forward(ids, logits="all"), fused, rtol=1e-4, atol=1e-4)
    finally:
        model.backend = "sdpa"


def test_bfloat16_stays_close_to_float32(pair: tuple[Any, Model], tmp_path: Path) -> None:
    published, model = pair
    published.save_pretrained(tmp_path)
    rounded = load_model(tmp_path, device="cpu", dtype="bfloat16")
    ids = _random_ids(1, 30)
    cache = rounded.new_cache()
    exact = model.forward(ids, logits="all")[0].softmax(-1)
    stepped = torch.cat([rounded.forward(ids[:, at : at + 1], cache) for at in range(30)]).softmax(-1)
    whole = rounded.forward(ids, logits="all")[0].softmax(-1)
    if model.config.experts is not None:
        pytest.skip("rounding may choose another expert, and then much is different")
    assert (exact - whole).abs().sum(-1).mean() < 0.2
    assert (exact - stepped).abs().sum(-1).mean() < 0.2


def test_a_sharded_checkpoint_equals_a_single_file(tmp_path: Path, write_checkpoint: Callable[..., Any]) -> None:
    write_checkpoint(tmp_path / "one", *VARIANTS["qwen3"])
    write_checkpoint(tmp_path / "many", *VARIANTS["qwen3"], max_shard_size="50KB")
    assert len(list((tmp_path / "many").glob("*.safetensors"))) > 1
    ids = _random_ids(1, 12)
    one, many = (load_model(tmp_path / name, dtype="float32", device="cpu") for name in ("one", "many"))
    torch.testing.assert_close(one.forward(ids), many.forward(ids), rtol=1e-5, atol=1e-5)  # sums depend on alignment
