"""Where models are kept between runs."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import platformdirs


def models_folder() -> Path:
    """`models/` in the user's cache folder (or in `$CONSTRAINED_CACHE`); made when something is first kept there."""
    root = os.environ.get("CONSTRAINED_CACHE")
    return (Path(root) if root else Path(platformdirs.user_cache_dir("constrained"))) / "models"


def replace_text(path: Path, text: str) -> None:
    """Writes a file so that readers see the old text or the new one, never a part."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=".write-", delete=False) as file:
        file.write(text)
    os.replace(file.name, path)
