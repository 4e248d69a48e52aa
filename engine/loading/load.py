"""From a place to a model: weights onto the device, tokenizer and chat template beside them."""

from __future__ import annotations

from pathlib import Path

import torch

from engine.config import ModelConfig
from engine.devices import choose_device, choose_dtype
from engine.loading import gguf, prepared, safetensors
from engine.loading.default_model import Progress
from engine.loading.folder_text import read_folder_text
from engine.loading.gguf_text import read_gguf_text
from engine.loading.places import locate
from engine.model import Model
from engine.text import Text


def load_model(
    path: str | Path | None = None,
    device: str | torch.device = "auto",
    dtype: str | torch.dtype = "auto",
    *,
    progress: Progress | None = None,
) -> Model:
    """Loads a model with its tokenizer and chat template.

    Args:
        path: a `.gguf` file, a directory of safetensors, a hub id (`owner/name`), or `None` or `DEFAULT_MODEL` for the
            default model, which is fetched when it is not there yet.
        device: `"auto"`: CUDA where there is one.
        dtype: `"auto"`: bfloat16 where the device multiplies it in hardware, else float32; or a dtype or its name.
        progress: called with bytes done and bytes expected while something is fetched.

    Raises:
        ModelError: see `engine.errors`; each with one line that says what to do.
    """
    chosen_device = choose_device(device)  # before anything is fetched for it
    chosen_dtype = choose_dtype(dtype, chosen_device)
    place = locate(path, progress)
    if place.is_dir():
        config = safetensors.read_config(place)
        weights = safetensors.read_weights(place, config, chosen_device, chosen_dtype)
        return Model(config, weights, read_folder_text(place, config) if _has_text(place) else None)
    return _load_gguf(place, chosen_device, chosen_dtype)


def _load_gguf(path: Path, device: torch.device, dtype: torch.dtype) -> Model:
    folder = prepared.prepared_folder(path, dtype)
    entry = prepared.read_prepared(folder)
    if entry is None:
        file = gguf.GgufFile(path)
        config = ModelConfig.from_gguf(file.metadata, file.tensors)
        entry = config, gguf.read_weights(file, config, torch.device("cpu"), dtype), read_gguf_text(file.metadata)
        prepared.write_prepared(folder, *entry)
    config, weights, text = entry
    return Model(config, {name: weight.to(device) for name, weight in weights.items()}, text)


def load_text(path: str | Path | None = None, *, progress: Progress | None = None) -> Text:
    """The tokenizer and chat template of a model alone, from the same places as `load_model`."""
    place = locate(path, progress)
    if place.is_dir():
        return read_folder_text(place, safetensors.read_config(place))
    return read_gguf_text(gguf.GgufFile(place).metadata)


def _has_text(folder: Path) -> bool:
    return (folder / "tokenizer.json").exists()
