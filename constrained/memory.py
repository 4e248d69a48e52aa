"""Tables that are reserved at their full size and used from the front; memory that threads share."""

from __future__ import annotations

import ctypes
import math
import mmap
import sys
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


def reserved(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """An array of zeros that takes memory page by page, where it is written first.

    NumPy asks for huge pages for its large arrays.  To have 2 MB found and cleared takes up to 4 ms, in the midst of a
    mask; and a table of which little is used would take 2 MB.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if not size or not hasattr(mmap, "MAP_PRIVATE"):
        return np.zeros(shape, dtype=dtype)
    block = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(block, dtype=dtype).reshape(shape)


def share_heaps() -> None:
    """Have the threads of this process take their memory from few heaps, where the C library has several.

    By default each thread may get a heap of its own, and what one has let go is of no use to the others.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_ARENA_MAX, _HEAPS)


_ARENA_MAX, _HEAPS = -8, 2
"""`M_ARENA_MAX` of glibc's malloc.h, and so many."""
