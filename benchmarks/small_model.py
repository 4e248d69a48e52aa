"""A model of two layers with random weights and the default model's tokenizer: what is measured is all but the model."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from engine import load_model

HIDDEN, INNER, HEADS, KV_HEADS, HEAD, LAYERS = 64, 128, 4, 2, 16, 2


def write_small_model(folder: Path) -> Path:
    """Writes the model as files; the folder."""
    source = load_model(None, "cpu", "bfloat16")
    text, config = source.text, source.config
    assert text is not None
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> Tensor:
        return (torch.randn(shape, generator=generator) * shape[-1] ** -0.5).to(torch.bfloat16)

    ones = torch.ones(HIDDEN, dtype=torch.bfloat16)
    weights = {"model.embed_tokens.weight": drawn(config.vocab_size, HIDDEN), "model.norm.weight": ones.clone()}
    shapes = {
        "self_attn.q_proj": (HEADS * HEAD, HIDDEN), "self_attn.k_proj": (KV_HEADS * HEAD, HIDDEN),
        "self_attn.v_proj": (KV_HEADS * HEAD, HIDDEN), "self_attn.o_proj": (HIDDEN, HEADS * HEAD),
        "mlp.gate_proj": (INNER, HIDDEN), "mlp.up_proj": (INNER, HIDDEN), "mlp.down_proj": (HIDDEN, INNER),
    }  # fmt: skip
    for layer in range(LAYERS):
        name = f"model.layers.{layer}."
        weights |= {f"{name}{part}.weight": drawn(*shape) for part, shape in shapes.items()}
        weights |= {f"{name}{norm}_layernorm.weight": ones.clone() for norm in ("input", "post_attention")}
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "model.safetensors")
    text.tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "model_type": "llama", "vocab_size": config.vocab_size, "hidden_size": HIDDEN, "intermediate_size": INNER,
        "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS,
        "max_position_embeddings": config.context_length, "rms_norm_eps": 1e-5, "tie_word_embeddings": True,
        "eos_token_id": list(text.eos_token_ids),
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(settings))
    template = {"chat_template": text.chat_templates["default"].source, **text.special_tokens}
    (folder / "tokenizer_config.json").write_text(json.dumps(template))
    return folder
