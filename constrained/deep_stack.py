"""Room for recursion over values that are nested deeper than Python's own limit lets through."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_FRAMES = 100_000
_STACK_BYTES = 512 << 20  # of address space; touched only as far as it is used
_lock = threading.Lock()


def with_deep_stack(function: Callable[[], T]) -> T:
    """What `function` returns or raises; run again on a thread with a large stack where the recursion limit stops it.

    Raises:
        RecursionError: even that is not enough.
    """
    try:
        return function()
    except RecursionError:
        pass
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(function())
        except BaseException as error:
            errors.append(error)

    with _lock:  # the limit and the stack size are the whole process's
        limit, size = sys.getrecursionlimit(), threading.stack_size(_STACK_BYTES)
        try:
            sys.setrecursionlimit(max(limit, _FRAMES))
            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
        finally:
            threading.stack_size(size)
            sys.setrecursionlimit(limit)
    if errors:
        raise errors[0]
    return results[0]
