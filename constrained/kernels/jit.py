"""How kernels are compiled: nopython, cached on disk, without the interpreter lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile `function` at its first call and keep the machine code in the cache folder of the package."""
    return cast(F, numba.njit(cache=True, nogil=True, boundscheck=None)(function))


def inlined(function: F) -> F:
    """A piece of a kernel: compiled into its callers, never called from Python in earnest."""
    return cast(F, numba.njit(cache=True, nogil=True, boundscheck=None, inline="never")(function))
