"""Models from files: GGUF, safetensors directories, the hub, and the default model.

`load_model` is the way in; `fetch_default_model` fetches without loading; `load_text` reads the tokenizer alone.  Names
are imported when first used: finding a model does not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.loading.default_model import default_model_path, fetch_default_model
    from engine.loading.folders import models_folder
    from engine.loading.load import load_model, load_text
    from engine.loading.places import DEFAULT_MODEL, locate

__all__ = [
    "DEFAULT_MODEL",
    "default_model_path",
    "fetch_default_model",
    "load_model",
    "load_text",
    "locate",
    "models_folder",
]

_HOMES = {
    "DEFAULT_MODEL": "places",
    "default_model_path": "default_model",
    "fetch_default_model": "default_model",
    "load_model": "load",
    "load_text": "load",
    "locate": "places",
    "models_folder": "folders",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
