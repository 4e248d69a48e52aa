"""How kernels are compiled: nopython, without the interpreter lock, kept on disk.

Numba keeps machine code per source file and looks only at that file's date, but kernels are inlined into kernels of other
files and share constants.  So the stamp of a kept kernel is the digest of all kernel sources, whatever their dates.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def _sources_digest() -> str:
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


_STAMP = ("constrained", _sources_digest())


def kernel(function: F) -> F:
    """Compile `function` at its first call."""
    return _compiled(function)


def inlined(function: F) -> F:
    """A piece of a kernel: compiled into its callers, never called from Python in earnest."""
    return _compiled(function)


def _compiled(function: F) -> F:
    compiled = numba.njit(cache=True, nogil=True)(function)
    cache_file: Any = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if cache_file is not None and hasattr(cache_file, "_source_stamp"):
        cache_file._source_stamp = _STAMP
    return cast(F, compiled)
