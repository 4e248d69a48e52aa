from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engine.architectures.gguf import gguf_tensor_name
from engine.errors import ModelFileError, UnknownArchitecture
from engine.loading import load_model
from engine.loading.gguf import BLOCKS, GgufFile, dequantize, pair_halves
from engine.loading.safetensors import read_config

gguf = pytest.importorskip("gguf")


def _write(path: Path, tensors: dict[str, np.ndarray[Any, Any]], architecture: str = "llama", **metadata: Any) -> Path:
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in metadata.items():
        if isinstance(value, str):
            writer.add_string(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
        elif isinstance(value, list):
            writer.add_array(key, value)
        else:
            writer.add_uint32(key, value)
    for name, tensor in tensors.items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _interleave_halves(rows: torch.Tensor, heads: int) -> torch.Tensor:
    """The order of query and key rows that conversion to GGUF makes: row i, row i + d/2, row i + 1, …"""
    half = rows.shape[0] // heads // 2
    order = [head * 2 * half + part * half + at for head in range(heads) for at in range(half) for part in range(2)]
    return rows[order]


LONG = {
    "max_position_embeddings": 512,
    "original_max_position_embeddings": 256,
    "rope_parameters": {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "short_factor": [1.0, 1.5, 2.0, 3.0],
        "long_factor": [2.0, 3.0, 4.0, 6.0],
        "original_max_position_embeddings": 256,
    },
}
WRITTEN: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "llama": ("LlamaConfig", {}, {}),
    "qwen2": ("Qwen2Config", {}, {}),
    "qwen3": ("Qwen3Config", {"head_dim": 16}, {}),
    "phi3": ("Phi3Config", {"sliding_window": 12}, {"attention.sliding_window": 12}),
    "phi3 rotating a part of each head": (
        "Phi3Config",
        {
            "head_dim": 16,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.75},
        },
        {"rope.dimension_count": 12},
    ),
    "phi3 with longrope": (
        "Phi3Config",
        LONG,
        {"context_length": 512, "rope.scaling.original_context_length": 256, "rope.dimension_count": 8},
    ),
    "gemma2": (
        "Gemma2Config",
        {"head_dim": 16, "sliding_window": 12, "query_pre_attn_scalar": 16, "tie_word_embeddings": True},
        {"attention.sliding_window": 12, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0},
    ),
    "gemma3": (
        "Gemma3TextConfig",
        {
            "head_dim": 16, "sliding_window": 12, "query_pre_attn_scalar": 16, "num_hidden_layers": 7,
            "tie_word_embeddings": True, "sliding_window_pattern": 6,
        },
        {"attention.sliding_window": 12, "rope.freq_base": 1_000_000.0},
    ),
}  # fmt: skip
"""Name of the Transformers configuration, its changes, and what a GGUF says of them."""

VOCABULARY: dict[str, Any] = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": ["ab", *(chr(34 + index) for index in range(93)), "<s>", "</s>", "<pad>"],
    "tokenizer.ggml.merges": ["a b"],
    "tokenizer.ggml.eos_token_id": 95,
    "tokenizer.ggml.eot_token_id": 94,
}


@pytest.mark.parametrize("variant", WRITTEN)
def test_a_model_written_as_gguf_computes_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_checkpoint: Callable[..., Any], variant: str
) -> None:
    monkeypatch.setenv("CONSTRAINED_CACHE", str(tmp_path / "cache"))
    kind, changes, said = WRITTEN[variant]
    architecture = variant.split()[0]
    published = write_checkpoint(tmp_path / "folder", kind, changes)
    published.set_attn_implementation("eager")  # the others leave out Gemma 2's soft cap
    config = read_config(tmp_path / "folder")
    tensors = {}
    for name, tensor in published.state_dict().items():
        if config.tied_embeddings and name == "lm_head.weight":
            continue
        if kind == "LlamaConfig" and ".q_proj." in name:
            tensor = _interleave_halves(tensor, config.query_heads)
        if kind == "LlamaConfig" and ".k_proj." in name:
            tensor = _interleave_halves(tensor, config.kv_heads)
        if architecture.startswith("gemma") and name.endswith("norm.weight"):
            tensor = tensor + 1.0  # as the conversion does
        tensors[gguf_tensor_name(name, architecture)] = tensor.numpy()
    if "longrope" in variant:
        for which in ("short", "long"):
            factors = LONG["rope_parameters"][f"{which}_factor"]  # type: ignore[index]
            tensors[f"rope_factors_{which}.weight"] = np.array(factors, np.float32)
    shape = {
        "vocab_size": config.vocab_size,
        "embedding_length": config.hidden_size,
        "block_count": config.layers,
        "feed_forward_length": config.intermediate_size,
        "context_length": config.context_length,
        "attention.head_count": config.query_heads,
        "attention.head_count_kv": config.kv_heads,
        "attention.key_length": config.head_dim,
        "attention.layer_norm_rms_epsilon": config.norm_eps,
        "rope.freq_base": config.rope.theta,
        **said,
    }
    path = _write(
        tmp_path / "tiny.gguf",
        tensors,
        architecture,
        **{f"{architecture}.{key}": value for key, value in shape.items()},
        **VOCABULARY,
    )
    ids = torch.arange(80).view(2, 40)
    with torch.no_grad():
        expected = published(ids).logits
    for _ in range(2):  # the second time from the prepared copy
        model = load_model(path, device="cpu", dtype="float32")
        torch.testing.assert_close(model.forward(ids, logits="all"), expected, rtol=1e-4, atol=1e-4)
        assert model.config.context_length == 256
        assert model.config.eos_token_ids == (95, 94)
        assert model.text is not None and model.text.encode("ab") == [0]
    if "longrope" in variant:
        ids = torch.arange(600).view(2, 300) % 97
        with torch.no_grad():
            expected = published(ids, use_cache=False).logits
        model = load_model(path, device="cpu", dtype="float32", context_length=300)
        torch.testing.assert_close(model.forward(ids, logits="all"), expected, rtol=1e-4, atol=1e-4)


def test_pairing_halves_undoes_the_conversion() -> None:
    rows = torch.arange(24.0).view(24, 1).expand(24, 3)
    for heads in (1, 2, 3):
        assert torch.equal(pair_halves(_interleave_halves(rows, heads), heads), rows)


def _one_value(block: bytes, kind: str, at: int) -> float:
    """Value `at` of one block, by the layouts of ggml-quants.c, a value at a time."""

    def half(place: int) -> float:
        (value,) = struct.unpack_from("<e", block, place)
        return float(value)

    def signed(place: int) -> int:
        return block[place] - 256 * (block[place] >> 7)

    def bits(start: int) -> int:
        return int.from_bytes(block[start : start + 4], "little") >> at & 1

    def nibble(start: int) -> int:
        byte = block[start + at % 16]
        return byte >> 4 if at >= 16 else byte & 15

    def packed_scale(start: int, group: int) -> tuple[int, int]:
        scales = block[start : start + 12]
        if group < 4:
            return scales[group] & 63, scales[group + 4] & 63
        return (
            (scales[group + 4] & 15) | (scales[group - 4] >> 6) << 4,
            (scales[group + 4] >> 4) | (scales[group] >> 6) << 4,
        )

    if kind == "Q4_0":
        return half(0) * (nibble(2) - 8)
    if kind == "Q4_1":
        return half(0) * nibble(4) + half(2)
    if kind == "Q5_0":
        high = bits(2)
        return half(0) * ((nibble(6) | high << 4) - 16)
    if kind == "Q5_1":
        high = bits(4)
        return half(0) * (nibble(8) | high << 4) + half(2)
    if kind == "Q8_0":
        return half(0) * signed(2 + at)
    group, within = divmod(at, 32)
    if kind in ("Q4_K", "Q5_K"):
        scale, least = packed_scale(4, group)
        low_bits = 16 if kind == "Q4_K" else 48
        byte = block[low_bits + 32 * (group // 2) + within]
        value = byte >> 4 if group % 2 else byte & 15
        if kind == "Q5_K":
            value |= (block[16 + within] >> group & 1) << 4
        return half(0) * scale * value - half(2) * least
    assert kind == "Q6_K"
    side, place = divmod(at, 128)
    quarter, within = divmod(place, 32)
    low = block[64 * side + 32 * (quarter % 2) + within]
    low = low >> 4 if quarter >= 2 else low & 15
    high = block[128 + 32 * side + within] >> 2 * quarter & 3
    scale = signed(192 + at // 16)
    return half(208) * scale * ((low | high << 4) - 32)


@pytest.mark.parametrize("kind", [kind for kind in BLOCKS if kind.startswith("Q")])
def test_blocks_are_dequantised_as_ggml_lays_them_out(kind: str) -> None:
    values, nbytes = BLOCKS[kind]
    generator = np.random.default_rng(len(kind))
    raw = generator.integers(0, 256, (2, 3 * nbytes), dtype=np.uint8)
    # Keep the float16 scales finite: no exponent of all ones.
    halves = {"Q6_K": [209]}.get(kind, [1, 3] if kind in ("Q4_1", "Q5_1", "Q4_K", "Q5_K") else [1])
    for number in range(3):
        raw[:, [number * nbytes + place for place in halves]] &= 0xBF
    found = dequantize(raw.reshape(-1), kind, (2, 3 * values))
    assert found.shape == (2, 3 * values) and found.dtype == torch.float32
    for row in range(2):
        for at in range(3 * values):
            block = raw[row, at // values * nbytes :][:nbytes].tobytes()
            assert found[row, at].item() == pytest.approx(_one_value(block, kind, at % values), rel=1e-5, abs=1e-6)


def test_plain_floats_are_read_as_they_are() -> None:
    exact = torch.tensor([[1.5, -2.0], [0.0, 3.25]])
    for kind, dtype in (("F32", torch.float32), ("F16", torch.float16), ("BF16", torch.bfloat16)):
        raw = exact.to(dtype).view(torch.uint8).numpy().reshape(-1)
        assert torch.equal(dequantize(raw, kind, (2, 2)).float(), exact)


def test_metadata_of_every_kind_is_read(tmp_path: Path) -> None:
    path = _write(
        tmp_path / "a.gguf",
        {"x": np.arange(6, dtype=np.float32).reshape(2, 3)},
        name="é🚀",
        number=7,
        real=0.5,
        words=["a", "", "ñ"],
        numbers=[1, -2, 3],
    )
    file = GgufFile(path)
    assert {key: file.metadata[key] for key in ("name", "number", "real", "words", "numbers")} == {
        "name": "é🚀",
        "number": 7,
        "real": 0.5,
        "words": ["a", "", "ñ"],
        "numbers": [1, -2, 3],
    }
    assert file.tensors["x"].shape == (2, 3)
    assert torch.equal(file.tensor("x"), torch.arange(6.0).view(2, 3))


def test_a_file_cut_anywhere_is_called_truncated(tmp_path: Path) -> None:
    whole = _write(tmp_path / "a.gguf", {"x": np.ones((4, 8), np.float32)}, words=["a", "b"]).read_bytes()
    cut = tmp_path / "cut.gguf"
    for size in range(5, len(whole) - 1, 7):
        cut.write_bytes(whole[:size])
        with pytest.raises(ModelFileError, match="truncated") as caught:
            GgufFile(cut)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"PK\x03\x04 a zip file", "not a GGUF"),
        (b"GGUF\x09\0\0\0" + b"\0" * 40, "GGUF version 9"),
        (b"", "cannot read"),
    ],
)
def test_what_is_no_gguf_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "a.gguf").write_bytes(content)
    with pytest.raises(ModelFileError, match=said):
        GgufFile(tmp_path / "a.gguf")


def test_a_missing_file_or_tensor_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="no model file"):
        GgufFile(tmp_path / "none.gguf")
    path = _write(tmp_path / "a.gguf", {"x": np.ones(4, np.float32)})
    with pytest.raises(ModelFileError, match=r"no tensor 'token_embd\.weight'"):
        GgufFile(path).tensor("token_embd.weight")
    with pytest.raises(ModelFileError, match=r"no llama\.embedding_length"):
        load_model(path)


def test_a_quantisation_that_is_not_read_is_named(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.gguf", {"x": np.ones(4, np.float32)})
    data = path.read_bytes()
    entry = struct.pack("<Q", 1) + b"x" + struct.pack("<IQI", 1, 4, 0)
    assert data.count(entry) == 1
    path.write_bytes(data.replace(entry, entry[:-4] + struct.pack("<I", 16)))
    with pytest.raises(ModelFileError, match=r"quantisation type 16: readable are F32, .*Q6_K"):
        GgufFile(path)


def test_an_unknown_architecture_is_named(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.gguf", {"x": np.ones(4, np.float32)})
    path.write_bytes(path.read_bytes().replace(b"llama", b"mamba"))
    with pytest.raises(UnknownArchitecture, match="unknown architecture 'mamba' in the GGUF: this engine runs llama"):
        load_model(path)
