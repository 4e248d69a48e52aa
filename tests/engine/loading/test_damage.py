"""Damaged model files: whatever a bit says, it ends in an error of the engine's own, in one line."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.config import ModelConfig
from engine.errors import EngineError, ModelFileError
from engine.loading import load_model
from engine.loading.gguf import GgufFile, read_weights
from engine.loading.gguf_text import read_gguf_text
from engine.model import Model

gguf = pytest.importorskip("gguf")

SHAPES = {
    "token_embd.weight": (20, 32), "output_norm.weight": (32,), "blk.0.attn_q.weight": (32, 32),
    "blk.0.attn_k.weight": (16, 32), "blk.0.attn_v.weight": (16, 32), "blk.0.attn_output.weight": (32, 32),
    "blk.0.ffn_gate.weight": (48, 32), "blk.0.ffn_up.weight": (48, 32), "blk.0.ffn_down.weight": (32, 48),
    "blk.0.attn_norm.weight": (32,), "blk.0.ffn_norm.weight": (32,),
}  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A small model in a GGUF, with a tokenizer of twenty letters."""
    path = tmp_path_factory.mktemp("gguf") / "whole.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    for add, value in (
        (writer.add_context_length, 64), (writer.add_embedding_length, 32), (writer.add_block_count, 1),
        (writer.add_feed_forward_length, 48), (writer.add_head_count, 4), (writer.add_head_count_kv, 2),
        (writer.add_layer_norm_rms_eps, 1e-5), (writer.add_vocab_size, 20), (writer.add_tokenizer_model, "gpt2"),
        (writer.add_tokenizer_pre, "smollm"), (writer.add_token_list, list("abcdefghijklmnopqrst")),
        (writer.add_token_types, [1] * 19 + [3]), (writer.add_eos_token_id, 19), (writer.add_bos_token_id, 19),
    ):  # fmt: skip
        add(value)
    generator = np.random.default_rng(1)
    for name, shape in SHAPES.items():
        writer.add_tensor(name, generator.normal(size=shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


def _load(path: Path) -> None:
    file = GgufFile(path)
    config = ModelConfig.from_gguf(file.metadata, file.tensors)
    weights = read_weights(file, config, torch.device("cpu"), torch.float32)
    text = read_gguf_text(file.metadata)
    Model(config, weights, text).forward(torch.tensor([[1, 2]]))
    text.encode("abc")


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_a_gguf_with_wrong_bytes_in_its_header_loads_or_is_refused(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "damaged.gguf"
    header = whole.index(b"blk.0.ffn_norm.weight") + 40
    chance = random.Random(5)
    refused = 0
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(chance.choice((1, 1, 2, 4))):
            data[chance.randrange(header)] = chance.choice((0, 1, 2, 7, 128, 255, chance.randrange(256)))
        if chance.random() < 0.2:
            del data[chance.randrange(len(data)) :]
        path.write_bytes(data)
        try:
            _load(path)
        except EngineError as error:
            assert "\n" not in str(error)
            refused += 1
    assert refused > 200


def test_the_whole_file_loads(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "whole.gguf"
    path.write_bytes(whole)
    _load(path)


def test_a_tensor_of_another_shape_is_named_with_the_one_it_should_have(
    tmp_path: Path, write_checkpoint: Callable[..., Any]
) -> None:
    write_checkpoint(tmp_path, "LlamaConfig", {})
    tensors = load_file(tmp_path / "model.safetensors")
    name = "model.layers.1.mlp.up_proj.weight"
    tensors[name] = tensors[name][:-1].contiguous()
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(ModelFileError, match=rf"tensor {name} has the shape \[79, 48\], but .* asks for \[80, 48\]"):
        load_model(tmp_path, dtype="float32")
