"""A whole language model, tiny and random, whose tokens are the bytes: the front door runs on it at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from constrained.llm import LLM
from engine.config import ModelConfig
from engine.detokenizer import byte_alphabet
from engine.loading.fuse import fuse_weights
from engine.model import Model
from engine.text import Text

TEMPLATE = (
    "{% for message in messages %}<{{ message['role'] }}>{{ message['content'] }}</>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
END = 256
HIDDEN, INNER, HEADS, KV_HEADS, HEAD = 32, 48, 4, 2, 8


def byte_text(chat: bool = True) -> Text:
    """A tokenizer with one token for each byte, and `<end>`."""
    alphabet = {character: byte for character, byte in byte_alphabet().items()}
    tokenizer = Tokenizer(models.BPE(vocab=alphabet, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<end>", special=True)])
    return Text(tokenizer, [END], {"default": TEMPLATE} if chat else {}, {"eos_token": "<end>"})


SETTINGS = {
    "model_type": "llama", "vocab_size": 264, "hidden_size": HIDDEN, "intermediate_size": INNER, "num_hidden_layers": 2,
    "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5, "eos_token_id": END, "tie_word_embeddings": True,
}  # fmt: skip
"""A `config.json`; the logits are longer than the tokenizer, as with padded vocabularies."""


def random_weights(seed: int = 5) -> Callable[[str], torch.Tensor]:
    """Weights by their names in a checkpoint, made when they are asked for."""
    rows = {
        "embed_tokens": 264, "q_proj": HEADS * HEAD, "k_proj": KV_HEADS * HEAD, "v_proj": KV_HEADS * HEAD,
        "o_proj": HIDDEN, "gate_proj": INNER, "up_proj": INNER, "down_proj": HIDDEN,
    }  # fmt: skip
    generator = torch.Generator().manual_seed(seed)

    def weight(name: str) -> torch.Tensor:
        part = name.split(".")[-2]
        shape = (rows[part], INNER if part == "down_proj" else HIDDEN) if part in rows else (HIDDEN,)
        return torch.randn(shape, generator=generator) * 0.3

    return weight


def random_model(text: Text | None) -> Model:
    config = ModelConfig.from_huggingface(SETTINGS)
    return Model(config, fuse_weights(config, random_weights()), text)


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model as files."""
    folder = tmp_path_factory.mktemp("model")
    weights: dict[str, torch.Tensor] = {}
    make = random_weights()
    fuse_weights(ModelConfig.from_huggingface(SETTINGS), lambda name: weights.setdefault(name, make(name)))
    save_file(weights, folder / "model.safetensors")
    byte_text().tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps(SETTINGS))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE, "eos_token": "<end>"}))
    return folder


@pytest.fixture(scope="session")
def random_llm() -> LLM:
    return LLM(random_model(byte_text()))


@pytest.fixture(scope="session")
def untemplated_llm() -> LLM:
    """A base model: no chat template."""
    return LLM(random_model(byte_text(chat=False)))


@pytest.fixture(scope="session")
def wordless_llm() -> LLM:
    """A model that came without a tokenizer."""
    return LLM(random_model(None))
