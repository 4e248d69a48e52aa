"""Converted GGUFs, kept so that the next start maps them instead of dequantising.

A prepared model is a folder with the engine's own weights in one safetensors file, its configuration and its tokenizer.
The folder's name carries everything that the contents depend on, so an entry is right or absent, never stale.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from engine.config import ExpertsConfig, LatentConfig, ModelConfig, RopeConfig
from engine.devices import Packing
from engine.errors import EngineError
from engine.loading.folders import models_folder
from engine.loading.safetensors import open_safetensors, read_json
from engine.text import Text

FORMAT = 2
"""Goes up whenever the fused layout, the dequantisation or the tokenizer made from a GGUF changes."""

LARGEST = 2 << 30
"""Bytes of weights above which a model is not kept a second time."""


def prepared_folder(source: Path, dtype: torch.dtype, packing: Packing | None = None) -> Path:
    """Where `source`'s conversion to `dtype`, or to packed weights, belongs, whether or not it is there."""
    stat = source.stat()
    key = f"{FORMAT}|{source.resolve()}|{stat.st_size}|{stat.st_mtime_ns}|{dtype}"
    if packing is not None:
        key += f"|{packing}"
    return models_folder() / "prepared" / f"{source.stem}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def quality_record(source: Path) -> Path:
    """Where it is remembered how well `source` bears being packed."""
    folder = prepared_folder(source, torch.bfloat16)
    return folder.with_name(f"{folder.name}.quality.json")


def read_prepared(folder: Path) -> tuple[ModelConfig, dict[str, Tensor], Text] | None:
    """A prepared model, its weights mapped; `None` if it is not there.  A damaged entry is removed."""
    if not folder.is_dir():
        return None
    try:
        description = read_json(folder / "model.json")
        config = _config_of(description["config"])
        with open_safetensors(folder / "model.safetensors") as file:
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        text = Text.from_description(description["text"], folder / "tokenizer.json")
    except (EngineError, SafetensorError, KeyError, TypeError):
        shutil.rmtree(folder, ignore_errors=True)
        return None
    return config, weights, text


def write_prepared(folder: Path, config: ModelConfig, weights: dict[str, Tensor], text: Text) -> None:
    """Keeps a conversion, unless it is too large or the disk does not take it; readers see all of it or nothing."""
    if sum(weight.nbytes for weight in weights.values()) > LARGEST:
        return
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".prepare-", dir=folder.parent) as name:
            made = Path(name) / "entry"
            made.mkdir()
            save_file({key: weight.contiguous() for key, weight in weights.items()}, made / "model.safetensors")
            (made / "tokenizer.json").write_text(text.tokenizer.to_str(), "utf-8")
            description = {"config": dataclasses.asdict(config), "text": text.description()}
            (made / "model.json").write_text(json.dumps(description), "utf-8")
            os.rename(made, folder)
    except OSError:
        return  # a cache that cannot be written, or that another process has written meanwhile, is no reason to fail


def _config_of(fields: dict[str, Any]) -> ModelConfig:
    """The configuration whose `dataclasses.asdict` was written as JSON: lists were tuples, records were dataclasses."""
    records = {"rope": RopeConfig, "local_rope": RopeConfig, "latent": LatentConfig, "experts": ExpertsConfig}
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
    }
    for name, kind in records.items():
        record = values.get(name)
        if record is not None:
            values[name] = kind(**{key: tuple(x) if isinstance(x, list) else x for key, x in record.items()})
    return ModelConfig(**values)
