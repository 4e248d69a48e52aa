"""Where everything that can be made again is kept on disk."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_dir


def cache_folder() -> Path:
    """The folder for cached vocabularies, rows and models; it need not exist yet.

    The environment variable `CONSTRAINED_CACHE` overrides the user's cache folder of the operating system.
    """
    override = os.environ.get("CONSTRAINED_CACHE")
    return Path(override).expanduser() if override else Path(user_cache_dir("constrained", appauthor=False))
