"""`constrained models`: the models at hand, and fetching one."""

from __future__ import annotations

import argparse
from pathlib import Path

from constrained.cli.errors import OK
from constrained.options import format_size
from constrained.progress import progress_bars


def add_options(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    actions.add_parser("list", help="the catalogue, and what is on this machine (the default)")
    fetch = actions.add_parser("fetch", help="fetch a model, the default one where none is named")
    fetch.add_argument("name", nargs="?", metavar="NAME", help="the default model's name, or a hub id (owner/name)")


def run(options: argparse.Namespace) -> int:
    return _fetch(options.name) if options.action == "fetch" else _list()


def _fetch(name: str | None) -> int:
    from engine.loading import locate

    with progress_bars() as show:
        path = locate(name, lambda done, total: show("fetching", done, total))
    print(path)
    return OK


def _list() -> int:
    from engine.loading import DEFAULT_MODEL, default_model_path, models_folder
    from engine.loading.default_model import SIZE

    path = default_model_path()
    state = str(path) if path.exists() else "not fetched yet: constrained models fetch"
    print(f"{DEFAULT_MODEL:<32} {format_size(SIZE):>10}  default  {state}")
    for other in _others(models_folder(), path):
        print(f"{other.name:<32} {format_size(other.stat().st_size):>10}           {other}")
    print("Others: a path to a GGUF file or a safetensors folder, or a hub id (owner/name), in --model.")
    return OK


def _others(folder: Path, known: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.gguf") if path != known) if folder.is_dir() else []
