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
import numpy as np
from numpy.typing import NDArray

from constrained.kernels.pieces import Kernel

F = TypeVar("F", bound=Callable[..., Any])
Bytes = NDArray[np.uint8]
"""uint8[n] that a kernel only reads; it may be an array that cannot be written."""


def _sources_digest() -> str:
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


STAMP = ("constrained", _sources_digest())
"""What tells one version of the kernels from another."""


def kernel(function: F) -> F:
    """Compile `function` at its first call.  It makes no arrays.

    Where Numba counts references, it does so for every array of every inlined call, with atomic instructions: a walk of the
    trie took six times as long.
    """
    return _compiled(function)


def making_kernel(function: F) -> F:
    """A kernel that makes arrays of its own."""
    return _compiled(function, counted=True)


def inlined(function: F) -> F:
    """A piece of a kernel: compiled into its callers, never called from Python in earnest.

    LLVM leaves larger pieces out of line, and each array of a call is seven or nine arguments then.
    """
    return _compiled(function, inline=True)


def _compiled(function: F, *, inline: bool = False, counted: bool = False) -> F:
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return function
    made = Kernel(
        function,
        {
            "nopython": True,
            "boundscheck": None,
            "nogil": True,
            "error_model": "numpy",
            "forceinline": inline,
            "_nrt": counted,
            "no_cfunc_wrapper": True,
        },
    )
    made.stamp = STAMP
    return cast(F, made)
