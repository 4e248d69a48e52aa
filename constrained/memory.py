"""Tables that are reserved at their full size and used from the front."""

from __future__ import annotations

import math
import mmap
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
