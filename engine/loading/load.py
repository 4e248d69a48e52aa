"""From a place to a model: weights onto the device, tokenizer and chat template beside them."""

from __future__ import annotations

from pathlib import Path

import torch

from engine.config import ModelConfig
from engine.devices import Packing, choose_device, choose_numbers
from engine.loading import gguf, prepared, safetensors
from engine.loading.default_model import Progress
from engine.loading.folder_text import read_folder_text
from engine.loading.gguf_text import read_gguf_text
from engine.loading.packing import Entry, default_packing
from engine.loading.places import locate
from engine.model import Model
from engine.packed import pack_weights
from engine.text import Text


def load_model(
    path: str | Path | None = None,
    device: str | torch.device = "auto",
    dtype: str | torch.dtype = "auto",
    *,
    context_length: int | None = None,
    batch_invariant: bool = True,
    progress: Progress | None = None,
) -> Model:
    """Loads a model with its tokenizer and chat template.

    Args:
        path: a `.gguf` file, a directory of safetensors, a hub id (`owner/name`), or `None` or `DEFAULT_MODEL` for the
            default model, which is fetched when it is not there yet.
        device: `"auto"`: CUDA where there is one.
        dtype: a dtype or its name; `"int8"` or `"int4"`: bfloat16 with packed weights for decoding (`engine.packed`;
            CPU only); `"auto"`: bfloat16 where the device multiplies it in hardware, else float32, and for a GGUF on the
            CPU the fastest packing that the quality gate lets through (`engine.loading.packing`).
        context_length: most positions of a sequence; `None`: the model's context, which for RoPE of the kinds `"dynamic"` and
            `"longrope"` is that of the pretraining.  Past it these are stretched, for short sequences too: see
            `ModelConfig.for_context`.
        batch_invariant: with packed weights, whether more than four rows that decode together stay with them, so that a request
            gets the same bits alone and in any batch; otherwise they take the bfloat16 products, which are faster for many rows
            and round otherwise.
        progress: called with bytes done and bytes expected while something is fetched.

    Raises:
        ContextError: a context that the model does not have.
        ModelError: see `engine.errors`; each with one line that says what to do.
    """
    chosen_device = choose_device(device)  # before anything is fetched for it
    chosen_dtype, packing = choose_numbers(dtype, chosen_device)
    place = locate(path, progress)
    if place.is_dir():
        config = _for_context(safetensors.read_config(place), context_length)
        weights = safetensors.read_weights(place, config, chosen_device, chosen_dtype)
        if packing is not None:
            weights = pack_weights(weights, packing)
        folder_text = read_folder_text(place, config) if _has_text(place) else None
        return Model(config, weights, folder_text, batch_invariant=batch_invariant)
    if dtype == "auto" and chosen_device.type == "cpu" and chosen_dtype == torch.bfloat16:
        packing = default_packing(prepared.quality_record(place), lambda: _gguf_entry(place, chosen_dtype))
    config, weights, text = _gguf_entry(place, chosen_dtype, packing)
    config = _for_context(config, context_length)
    weights = {name: weight.to(chosen_device) for name, weight in weights.items()}
    return Model(config, weights, text, batch_invariant=batch_invariant)


def _for_context(config: ModelConfig, positions: int | None) -> ModelConfig:
    return config if positions is None else config.for_context(positions)


def _gguf_entry(path: Path, dtype: torch.dtype, packing: Packing | None = None) -> Entry:
    """A GGUF's configuration, weights and text; from its kept conversion where there is one."""
    folder = prepared.prepared_folder(path, dtype, packing)
    entry = prepared.read_prepared(folder)
    if entry is None:
        if packing is not None:
            config, weights, text = _gguf_entry(path, dtype)
            entry = config, pack_weights(weights, packing), text
        else:
            file = gguf.GgufFile(path)
            config = ModelConfig.from_gguf(file.metadata, file.tensors)
            entry = config, gguf.read_weights(file, config, torch.device("cpu"), dtype), read_gguf_text(file.metadata)
        prepared.write_prepared(folder, *entry)
    return entry


def load_text(path: str | Path | None = None, *, progress: Progress | None = None) -> Text:
    """The tokenizer and chat template of a model alone, from the same places as `load_model`."""
    place = locate(path, progress)
    if place.is_dir():
        return read_folder_text(place, safetensors.read_config(place))
    return read_gguf_text(gguf.GgufFile(place).metadata)


def _has_text(folder: Path) -> bool:
    return (folder / "tokenizer.json").exists()
