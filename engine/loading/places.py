"""Where a model is: a path, a hub id, or the default model."""

from __future__ import annotations

import re
from pathlib import Path

from engine.errors import FetchError, ModelNotFound
from engine.loading.default_model import Progress, fetch_default_model

DEFAULT_MODEL = "SmolLM2-135M-Instruct"
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def locate(path: str | Path | None, progress: Progress | None = None) -> Path:
    """The file or directory of a model, fetched if need be.

    Raises:
        ModelNotFound: nothing is there, and it is no hub id.
        FetchError, ChecksumError: it could not be fetched.
    """
    if path is None or str(path) == DEFAULT_MODEL:
        return fetch_default_model(progress)
    place = Path(path).expanduser()
    if place.exists():
        return place
    if isinstance(path, str) and is_hub_id(path):
        return _fetch_from_hub(path)
    raise ModelNotFound(
        f"no model at {path}: give a .gguf file, a directory of safetensors, a hub id (owner/name) or {DEFAULT_MODEL!r}"
    )


def is_hub_id(name: str) -> bool:
    """Whether a name that is no path here can be one of the hub's: `owner/name`, and not the name of a file."""
    return _HUB_ID.fullmatch(name) is not None and not name.endswith((".gguf", ".safetensors")) and name[0] not in ".~"


def _fetch_from_hub(name: str) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise FetchError(
            f"{name!r} is no local path, and huggingface_hub is not installed to fetch it: "
            "pip install huggingface-hub, or give a local path"
        ) from None
    try:
        wanted = ["*.json", "*.safetensors", "*.jinja"]
        return Path(snapshot_download(name, allow_patterns=wanted))
    except Exception as error:  # the hub raises errors of many libraries
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise FetchError(
            f"cannot fetch {name!r} from the hub: {reason} - check the name and the network, or give a local path"
        ) from None
