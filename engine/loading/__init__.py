"""Models from files: GGUF, safetensors directories, the hub, and the default model.

`load_model` is the way in; `fetch_default_model` fetches without loading; `load_text` reads the tokenizer alone.
"""

from __future__ import annotations

import re
from pathlib import Path

import torch

from engine.config import ModelConfig
from engine.devices import choose_device, choose_dtype
from engine.errors import FetchError, ModelFileError
from engine.loading import gguf, prepared, safetensors
from engine.loading.default_model import Progress, default_model_path, fetch_default_model
from engine.loading.folder_text import read_folder_text
from engine.loading.folders import models_folder
from engine.loading.gguf_text import read_gguf_text
from engine.model import Model
from engine.text import Text

__all__ = [
    "DEFAULT_MODEL",
    "default_model_path",
    "fetch_default_model",
    "load_model",
    "load_text",
    "locate",
    "models_folder",
]

DEFAULT_MODEL = "SmolLM2-135M-Instruct"
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


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
    place = locate(path, progress)
    chosen_device = choose_device(device)
    chosen_dtype = choose_dtype(dtype, chosen_device)
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


def locate(path: str | Path | None, progress: Progress | None = None) -> Path:
    """The file or directory of a model, fetched if need be.

    Raises:
        ModelFileError: nothing is there.
        FetchError, ChecksumError: it could not be fetched.
    """
    if path is None or str(path) == DEFAULT_MODEL:
        return fetch_default_model(progress)
    place = Path(path).expanduser()
    if place.exists():
        return place
    if isinstance(path, str) and _HUB_ID.fullmatch(path):
        return _fetch_from_hub(path)
    raise ModelFileError(
        f"no model at {path}: give a .gguf file, a directory of safetensors, a hub id (owner/name) or {DEFAULT_MODEL!r}"
    )


def _fetch_from_hub(name: str) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise FetchError(f"{name!r} is no local path, and huggingface_hub is not installed to fetch it") from None
    try:
        wanted = ["*.json", "*.safetensors", "*.jinja"]
        return Path(snapshot_download(name, allow_patterns=wanted))
    except Exception as error:  # the hub raises errors of many libraries
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise FetchError(
            f"cannot fetch {name!r} from the hub: {reason} - check the name and the network, or give a local path"
        ) from None


def _has_text(folder: Path) -> bool:
    return (folder / "tokenizer.json").exists()
