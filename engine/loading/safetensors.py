"""Model directories as Transformers writes them: `config.json` and one or several safetensors files."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine.config import ModelConfig
from engine.errors import ModelFileError
from engine.loading.fuse import fuse_weights

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a model directory.

    Raises:
        ModelFileError: the file is missing or holds something else.
    """
    try:
        value = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ModelFileError(f"no {path.name} in {path.parent}: it is not a model directory") from None
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{path} does not hold JSON: fetch it again ({error})") from None
    if not isinstance(value, dict):
        raise ModelFileError(f"{path} holds a JSON {type(value).__name__}, not an object")
    return value


def read_config(folder: Path) -> ModelConfig:
    """The configuration of a model directory; the end tokens from `generation_config.json` where there is one."""
    generation = folder / "generation_config.json"
    return ModelConfig.from_huggingface(
        read_json(folder / "config.json"), read_json(generation) if generation.exists() else None
    )


def read_weights(folder: Path, config: ModelConfig, device: torch.device, dtype: torch.dtype) -> dict[str, Tensor]:
    """The engine's weights (`fuse_weights`) of a model directory, single or sharded.

    Raises:
        ModelFileError: a file or tensor that is missing or damaged.
    """
    files = _files_by_tensor(folder)
    with ExitStack() as stack:
        opened: dict[str, Any] = {}

        def get(name: str) -> Tensor:
            file = files.get(name)
            if file is None:
                raise ModelFileError(f"no tensor {name!r} in {folder}: the directory does not hold a whole model")
            if file not in opened:
                opened[file] = stack.enter_context(open_safetensors(folder / file))
            tensor: Tensor = opened[file].get_tensor(name)
            return tensor.to(device, dtype)

        return fuse_weights(config, get)


def open_safetensors(path: Path) -> Any:
    """Opens a file for reading by tensor name, mapped into memory."""
    try:
        return safe_open(str(path), framework="pt", device="cpu")
    except FileNotFoundError:
        raise ModelFileError(f"no model file {path}: fetch the model again") from None
    except (SafetensorError, OSError) as error:
        raise ModelFileError(f"{path} is truncated or damaged: fetch it again ({error})") from None


def _files_by_tensor(folder: Path) -> dict[str, str]:
    """Tensor name → file name."""
    index = folder / INDEX
    if index.exists():
        weight_map = read_json(index).get("weight_map")
        if not isinstance(weight_map, dict):
            raise ModelFileError(f"{index} has no weight_map: fetch it again")
        return {str(name): str(file) for name, file in weight_map.items()}
    if not (folder / SINGLE).exists():
        raise ModelFileError(f"no {SINGLE} or {INDEX} in {folder}: only safetensors weights are read")
    with open_safetensors(folder / SINGLE) as file:
        return dict.fromkeys(file.keys(), SINGLE)
