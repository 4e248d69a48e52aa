from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.config import ModelConfig
from engine.devices import choose_device, choose_dtype
from engine.errors import EngineError, FetchError, ModelError, ModelFileError, UnknownArchitecture
from engine.loading import load_model, prepared
from engine.loading.folder_text import read_folder_text
from engine.model import Model

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 97,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "max_position_embeddings": 64,
}


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"model_type": "mamba"}, UnknownArchitecture, "unknown architecture 'mamba' in config.json: this engine runs"),
        ({"hidden_act": "gelu"}, UnknownArchitecture, "activation 'gelu'"),
        ({"rope_scaling": {"type": "ntk", "factor": 2}}, UnknownArchitecture, "RoPE scaling 'ntk'"),
        ({"rope_scaling": {"type": "longrope", "factor": 2}}, ModelFileError, "no 'short_factor'"),
        ({"partial_rotary_factor": 0.5}, UnknownArchitecture, "only whole heads are rotated"),
        ({"head_dim": 7}, ModelFileError, "head dimension 7 is odd"),
    ],
)
def test_what_is_not_computed_is_refused_by_name(changes: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        ModelConfig.from_huggingface(CONFIG | changes)


@pytest.mark.parametrize("key", sorted(set(CONFIG) - {"model_type"}))
def test_a_configuration_without_a_size_is_refused(key: str) -> None:
    with pytest.raises(ModelFileError, match=f"config.json has no '{key}'"):
        ModelConfig.from_huggingface({name: value for name, value in CONFIG.items() if name != key})


def test_end_tokens_come_from_the_generation_configuration() -> None:
    given = CONFIG | {"eos_token_id": 5}
    assert ModelConfig.from_huggingface(given).eos_token_ids == (5,)
    assert ModelConfig.from_huggingface(given, {"eos_token_id": [7, 5]}).eos_token_ids == (7, 5)
    assert ModelConfig.from_huggingface(given, {"temperature": 1}).eos_token_ids == (5,)


def test_windows_are_those_of_the_layers_that_slide() -> None:
    assert ModelConfig.from_huggingface(CONFIG | {"model_type": "mistral", "sliding_window": 32}).windows == (32,) * 2
    qwen = CONFIG | {"model_type": "qwen2", "sliding_window": 32}
    assert ModelConfig.from_huggingface(qwen | {"use_sliding_window": False}).windows == ()
    sliding = qwen | {"use_sliding_window": True}
    assert ModelConfig.from_huggingface(sliding | {"max_window_layers": 1}).windows == (0, 32)
    kinds = ["sliding_attention", "full_attention"]
    assert ModelConfig.from_huggingface(sliding | {"layer_types": kinds}).windows == (32, 0)
    with pytest.raises(UnknownArchitecture, match="layers of type 'linear_attention'"):
        ModelConfig.from_huggingface(sliding | {"layer_types": ["linear_attention", "full_attention"]})


def test_both_spellings_of_rope_mean_the_same() -> None:
    scaling = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
    old = CONFIG | {"rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3", **scaling}}
    new = CONFIG | {"rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5, **scaling}}
    assert ModelConfig.from_huggingface(old) == ModelConfig.from_huggingface(new)


@pytest.fixture
def checkpoint(tmp_path: Path, write_checkpoint: Callable[..., Any]) -> Path:
    write_checkpoint(tmp_path, "LlamaConfig", {})
    return tmp_path


def test_a_directory_without_its_files_is_refused(checkpoint: Path) -> None:
    (checkpoint / "model.safetensors").rename(checkpoint / "pytorch_model.bin")
    with pytest.raises(ModelFileError, match="only safetensors weights are read"):
        load_model(checkpoint)
    (checkpoint / "config.json").unlink()
    with pytest.raises(ModelFileError, match="not a model directory"):
        load_model(checkpoint)


def test_a_truncated_checkpoint_is_refused(checkpoint: Path) -> None:
    weights = checkpoint / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ModelFileError, match="truncated or damaged: fetch it again"):
        load_model(checkpoint)


def test_a_missing_tensor_is_named(checkpoint: Path) -> None:
    config = json.loads((checkpoint / "config.json").read_text())
    (checkpoint / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 9}))
    with pytest.raises(ModelFileError, match=r"no tensor 'model\.layers\.3\."):
        load_model(checkpoint)


def test_a_model_without_a_tokenizer_has_no_text(checkpoint: Path) -> None:
    assert load_model(checkpoint, dtype="float32").text is None


def test_templates_and_special_tokens_of_a_directory_are_read(
    checkpoint: Path, tokenizer_file: Callable[[str], Path]
) -> None:
    (checkpoint / "tokenizer.json").write_bytes(tokenizer_file("llama2").read_bytes())
    settings: dict[str, Any] = {
        "bos_token": {"content": "<s>", "lstrip": False},
        "eos_token": "</s>",
        "chat_template": [
            {"name": "default", "template": "{{ bos_token }}{{ messages[0].content }}"},
            {"name": "tool_use", "template": "{{ tools | length }}{{ eos_token }}"},
        ],
    }
    (checkpoint / "tokenizer_config.json").write_text(json.dumps(settings))
    config = ModelConfig.from_huggingface(CONFIG | {"eos_token_id": 2})
    text = read_folder_text(checkpoint, config)
    assert text.render_chat([{"role": "user", "content": "x"}]) == "<s>x"
    assert text.render_chat([{"role": "user", "content": "x"}], tools=[{}, {}]) == "2</s>"
    assert text.encode("x")[0] == 1 and text.eos_token_ids == (2,)
    (checkpoint / "chat_template.jinja").write_text("own{{ messages | length }}")
    assert read_folder_text(checkpoint, config).render_chat([{"role": "user", "content": "x"}]) == "own1"


def test_a_path_that_is_nothing_is_refused() -> None:
    with pytest.raises(ModelFileError, match=r"no model at \./nothing/at/all\.gguf: give a \.gguf file"):
        load_model("./nothing/at/all.gguf")


def test_a_hub_that_cannot_be_reached_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub")

    def unreachable(*arguments: Any, **options: Any) -> str:
        raise ConnectionError("no route\nto host")

    monkeypatch.setattr(hub, "snapshot_download", unreachable)
    with pytest.raises(FetchError, match="cannot fetch 'owner/name' from the hub: no route - check") as caught:
        load_model("owner/name")
    assert "\n" not in str(caught.value)


def test_a_model_from_the_hub_is_loaded_from_its_snapshot(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub")
    monkeypatch.setattr(hub, "snapshot_download", lambda name, allow_patterns: str(checkpoint))
    assert load_model("owner/name", dtype="float32").config.vocab_size == 97


def test_devices_and_dtypes_are_checked() -> None:
    cpu = choose_device("cpu")
    assert choose_dtype("float16", cpu) == choose_dtype(torch.float16, cpu) == torch.float16
    assert choose_dtype("auto", cpu) in (torch.float32, torch.bfloat16)
    for wrong in (
        lambda: choose_device("toaster"),
        lambda: choose_dtype("int3", cpu),
        lambda: choose_dtype(torch.int8, cpu),
    ):
        with pytest.raises(ModelError, match="unknown"):
            wrong()
    if not torch.cuda.is_available():
        assert choose_device("auto") == cpu
        with pytest.raises(ModelError, match="sees no CUDA device"):
            choose_device("cuda")


def test_a_prepared_model_is_the_converted_one(default_gguf: Path, default_model: Model) -> None:
    folder = prepared.prepared_folder(default_gguf, torch.float32)
    entry = prepared.read_prepared(folder)
    assert entry is not None
    config, weights, text = entry
    assert config == default_model.config
    assert default_model.text is not None and text.description() == default_model.text.description()
    assert text.tokenizer.to_str() == default_model.text.tokenizer.to_str()
    ids = torch.arange(12).view(1, 12)
    torch.testing.assert_close(Model(config, weights).forward(ids), default_model.forward(ids), rtol=1e-3, atol=1e-3)


def test_a_damaged_prepared_model_is_removed(default_gguf: Path, default_model: Model, tmp_path: Path) -> None:
    entry = prepared.read_prepared(prepared.prepared_folder(default_gguf, torch.float32))
    assert entry is not None
    config, _, text = entry
    folder = tmp_path / "entry"
    few = {"embedding.weight": torch.ones(3, 4)}
    for damage in ("model.safetensors", "model.json", "tokenizer.json"):
        prepared.write_prepared(folder, config, few, text)
        assert prepared.read_prepared(folder) is not None
        (folder / damage).write_bytes((folder / damage).read_bytes()[:-20])
        assert prepared.read_prepared(folder) is None
        assert not folder.exists()


def test_another_file_in_the_same_place_is_prepared_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(b"one")
    first = prepared.prepared_folder(path, torch.float32)
    assert first != prepared.prepared_folder(path, torch.bfloat16)
    path.write_bytes(b"other")
    assert first != prepared.prepared_folder(path, torch.float32)


def test_every_refusal_is_an_engine_error() -> None:
    assert issubclass(UnknownArchitecture, ModelError) and issubclass(ModelError, EngineError)
