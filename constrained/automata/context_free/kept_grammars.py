"""Grammars that took long to load, on disk, so that the next process reads them in milliseconds.

What a grammar becomes depends on its text, its options, and the code; nothing else.  A file is named by the digest of all
three.  It is a magic line, the SHA-256 of what follows, and a pickle of which only the classes of loaded grammars are
unpickled, whatever it asks for.  It is written beside its place and renamed, so that readers and other writers see whole
files only; one that does not check out is ignored and written again.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import os
import pickle
import sys
import warnings
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

from constrained.cache_folder import cache_folder, checksum, write_whole
from grammars.context_free import ContextFree
from grammars.context_free.packed import packed
from grammars.context_free.prepared import Prepared, prepared
from grammars.lark import CollisionWarning, LarkWarning
from grammars.memory import remembered
from grammars.regular import Rx
from grammars.regular.described import described, rebuilt
from grammars.values import Grammar, Lark

ENVIRONMENT = "CONSTRAINED_KEEP_GRAMMARS"
"""The environment variable that, set to 0, keeps grammars from being read from disk and written to it."""
_LEAST_SECONDS = 0.004
"""What loads sooner is not worth a file."""
_MOST_FILES = 200
_MAGIC = b"constrained grammar 1\n"
_DIGEST_BYTES = 32
_FOLDERS = ("context_free", "lark", "regex", "regular", "values")
_CLASSES = {
    "grammars.context_free.grammar": {"ContextFree", "Embedded", "Indentation", "LalrTable", "Rule", "Terminal"},
    "grammars.context_free.keywords": {"Tried"},
    "grammars.context_free.packed": {"PackedActions", "PackedMaps", "unpacked"},
    "grammars.context_free.prepared": {"Prepared"},
    "grammars.context_free.separators": {"Separation"},
    "grammars.lark.endings": {"Later", "Shorter"},
    "grammars.lark.preferred_match": {
        "Again", "Ahead", "Behind", "Enter", "Fork", "LiveThreads", "Program", "Read", "Threads",
    },
    "grammars.lark.tables": {"Labelled", "Table"},
    "grammars.regular.described": {"rebuilt"},
    "grammars.values.combined": {"SpecialToken"},
    "builtins": {"frozenset", "function", "set", "type"},
}  # fmt: skip


def kept(grammar: Grammar, load: Callable[[Grammar], ContextFree]) -> Prepared:
    """What a grammar becomes, from memory, from disk, or made now; warnings of its loading are given each time it is asked for.

    Args:
        load: makes the rules and terminals of a grammar.

    Raises:
        GrammarError: what `load` and `prepared` raise.
    """
    found, told = _remembered(grammar, load)
    for category, text in told:
        warnings.warn(text, category, stacklevel=2)
    return found


def forget() -> None:
    """Forget what this process knows of grammars; what is on disk stays."""
    _remembered.cache_clear()


Told = tuple[tuple[type[Warning], str], ...]


@remembered(64)
def _remembered(grammar: Grammar, load: Callable[[Grammar], ContextFree]) -> tuple[Prepared, Told]:
    path = _path(grammar)
    found = _read(path) if path is not None else None
    if found is not None:
        return found
    started = perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = prepared(load(grammar))
    told = tuple((one.category, str(one.message)) for one in caught)
    if path is not None and perf_counter() - started >= _LEAST_SECONDS:
        _write(path, value, told)
    return value, told


def _path(grammar: Grammar) -> Path | None:
    """Where a grammar is kept; None for those that are not."""
    if not isinstance(grammar, Lark) or grammar.embedded or os.environ.get(ENVIRONMENT, "1") == "0":
        return None
    options = (grammar.text, grammar.start, grammar.lexer, grammar.name, grammar.imports, grammar.indenter)
    name = hashlib.blake2b(repr((_version(), options)).encode("utf-8", "surrogatepass"), digest_size=20).hexdigest()
    return cache_folder() / "grammars" / f"{name}.grammar"


@cache
def _version() -> str:
    """What tells this code from other versions of it: a digest of names, sizes and dates of the sources, Lark's own among them."""
    root = Path(__file__).resolve().parents[3] / "grammars"
    lark = importlib.util.find_spec("lark")
    folders = [str(root / folder) for folder in _FOLDERS]
    if lark is not None and lark.origin is not None:
        theirs = os.path.dirname(lark.origin)
        folders += [theirs, os.path.join(theirs, "grammars")]
    stats = []
    for folder in folders:
        with os.scandir(folder) as entries:
            stats += [(one.path, of.st_size, of.st_mtime_ns) for one in entries if one.is_file() and (of := one.stat())]
    own = os.stat(__file__)
    all_of_it = repr((sys.version, own.st_size, own.st_mtime_ns, sorted(stats)))
    return hashlib.blake2b(all_of_it.encode(), digest_size=20).hexdigest()


# --- files ------------------------------------------------------------------------------------------------------------


def _read(path: Path) -> tuple[Prepared, Told] | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    start = len(_MAGIC) + _DIGEST_BYTES
    if not data.startswith(_MAGIC) or data[len(_MAGIC) : start] != checksum([memoryview(data)[start:]]):
        return None
    try:
        value, told = _Unpickler(io.BytesIO(memoryview(data)[start:])).load()
    except Exception:  # whatever an outdated or strange pickle raises
        return None
    with contextlib.suppress(OSError):
        os.utime(path)
    kinds = {kind.__name__: kind for kind in (LarkWarning, CollisionWarning)}
    return (value, tuple((kinds[name], text) for name, text in told)) if isinstance(value, Prepared) else None


def _write(path: Path, value: Prepared, told: Told) -> None:
    """Keep a grammar; one that cannot be written only costs the next process the time to load it."""
    file = io.BytesIO()
    if value.grammar.lalr is not None:
        value = replace(value, grammar=replace(value.grammar, lalr=packed(value.grammar.lalr)))
    try:
        _Pickler(file).dump((value, tuple((category.__name__, text) for category, text in told)))
    except (pickle.PicklingError, TypeError, RecursionError):
        return  # a language without a description
    body = file.getvalue()
    with contextlib.suppress(OSError):
        write_whole(path, [_MAGIC, checksum([body]), body])
        files = sorted(path.parent.glob("*.grammar"), key=lambda one: one.stat().st_mtime_ns)
        for old in files[: max(0, len(files) - _MOST_FILES)]:
            old.unlink()


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Rx):
            return rebuilt, described(value)
        kind = value if isinstance(value, type) else type(value)
        if kind.__name__ not in _CLASSES.get(kind.__module__, ()):
            raise pickle.PicklingError(f"{value!r} would not be read again")
        if isinstance(value, type) or not is_dataclass(value):
            return NotImplemented
        # Calling the class takes a fifth of what the states of frozen dataclasses take.
        return kind, tuple(getattr(value, field.name) for field in fields(value) if not field.name.startswith("_"))


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name not in _CLASSES.get(module, ()):
            raise pickle.UnpicklingError(f"{module}.{name} is no part of a grammar")
        return super().find_class(module, name)
