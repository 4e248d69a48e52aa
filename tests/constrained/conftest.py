"""A whole language model, tiny and random, whose tokens are the bytes: the front door runs on it at once."""

from __future__ import annotations

import pytest
import torch
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


def random_model(text: Text | None, seed: int = 5) -> Model:
    """Random weights; the logits are longer than the tokenizer, as with padded vocabularies."""
    config = ModelConfig.from_huggingface({
        "model_type": "llama", "vocab_size": 264, "hidden_size": HIDDEN, "intermediate_size": INNER,
        "num_hidden_layers": 2, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS,
        "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "eos_token_id": END, "tie_word_embeddings": True,
    })  # fmt: skip
    rows = {
        "embed_tokens": config.vocab_size, "q_proj": HEADS * HEAD, "k_proj": KV_HEADS * HEAD, "v_proj": KV_HEADS * HEAD,
        "o_proj": HIDDEN, "gate_proj": INNER, "up_proj": INNER, "down_proj": HIDDEN,
    }  # fmt: skip
    generator = torch.Generator().manual_seed(seed)

    def weight(name: str) -> torch.Tensor:
        part = name.split(".")[-2]
        shape = (rows[part], INNER if part == "down_proj" else HIDDEN) if part in rows else (HIDDEN,)
        return torch.randn(shape, generator=generator) * 0.3

    return Model(config, fuse_weights(config, weight), text)


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
