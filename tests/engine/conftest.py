from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.config import ModelConfig
from engine.errors import FetchError
from engine.loading import fetch_default_model, load_model
from engine.loading.fuse import fuse_weights
from engine.model import Model

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


TINY: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


@pytest.fixture(scope="session")
def write_checkpoint() -> Callable[..., Any]:
    """`write(folder, kind, changes, **options)` saves and returns a tiny random model."""
    transformers = pytest.importorskip("transformers")

    def write(folder: Path, kind: str, changes: dict[str, Any], **options: Any) -> Any:
        config = getattr(transformers, kind)(**{**TINY, "tie_word_embeddings": False, **changes})
        with torch.random.fork_rng(), torch.no_grad():
            torch.manual_seed(len(kind) + 31 * len(str(changes)))
            model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
            for name, parameter in model.named_parameters():
                # Biases start at 0 and norms at 1, which would hide one that was forgotten.
                parameter.copy_(torch.randn_like(parameter) * (0.5 if parameter.dim() == 1 else 0.2))
                if "norm" in name:
                    parameter.add_(1.0)
        model.save_pretrained(folder, **options)
        return model

    return write


@pytest.fixture(scope="session")
def default_gguf() -> Path:
    try:
        return fetch_default_model()
    except FetchError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def default_model(default_gguf: Path) -> Model:
    return load_model(default_gguf, device="cpu", dtype="float32")


@pytest.fixture(scope="session")
def published(default_gguf: Path) -> Any:
    """The default model as Transformers reads and runs it, in float32."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    return transformers.AutoModelForCausalLM.from_pretrained(
        default_gguf.parent, gguf_file=default_gguf.name, dtype=torch.float32
    ).eval()


@pytest.fixture(scope="session")
def published_tokenizer(default_gguf: Path) -> Any:
    transformers = pytest.importorskip("transformers")
    return transformers.AutoTokenizer.from_pretrained(default_gguf.parent, gguf_file=default_gguf.name)


@pytest.fixture(scope="session")
def random_model() -> Model:
    """A tiny model with random weights, made without any file."""
    config = ModelConfig.from_huggingface({"model_type": "llama", **TINY, "tie_word_embeddings": True})
    generator = torch.Generator().manual_seed(7)
    weights = fuse_weights(config, lambda name: torch.randn(_tiny_shape(name), generator=generator) * 0.2)
    return Model(config, weights)


def _tiny_shape(name: str) -> tuple[int, ...]:
    hidden, inner, head = TINY["hidden_size"], TINY["intermediate_size"], 8
    part = name.split(".")[-2]
    rows = {
        "embed_tokens": TINY["vocab_size"],
        "q_proj": 6 * head,
        "k_proj": 2 * head,
        "v_proj": 2 * head,
        "o_proj": hidden,
        "gate_proj": inner,
        "up_proj": inner,
        "down_proj": hidden,
    }
    if part not in rows:
        return (hidden,)
    return (rows[part], inner if part == "down_proj" else hidden)
