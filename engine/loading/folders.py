"""Where models are kept between runs."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def models_folder() -> Path:
    """`models/` in the user's cache folder (or in `$CONSTRAINED_CACHE`); made when something is first kept there."""
    root = os.environ.get("CONSTRAINED_CACHE")
    return (Path(root) if root else Path(platformdirs.user_cache_dir("constrained"))) / "models"
