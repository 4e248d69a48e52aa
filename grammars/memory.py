"""What is remembered between grammars, and how it is let go.

Caches here are bounded by how many entries they have; but an entry may be a language with a hundred thousand derivatives, or
a position in a schema, which holds all of its document.  So whoever bounds memory in bytes, as `constrained` does for what is
made for a vocabulary, forgets all of it at a time: what is still in use stays alive, the rest is made again where it is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from functools import _lru_cache_wrapper

T = TypeVar("T")

_FORGETS: list[Callable[[], None]] = []


def remembered(most: int) -> Callable[[Callable[..., T]], _lru_cache_wrapper[T]]:
    """A decorator: the results of the last `most` calls are remembered until `forget`."""

    def decorate(function: Callable[..., T]) -> _lru_cache_wrapper[T]:
        kept = lru_cache(maxsize=most)(function)
        _FORGETS.append(kept.cache_clear)
        return kept

    return decorate


def forgets(function: Callable[[], None]) -> Callable[[], None]:
    """A decorator: `forget` calls the function, which lets go what a module remembers by other means."""
    _FORGETS.append(function)
    return function


def forgets_no_more(function: Callable[[], None]) -> None:
    """`forget` does not call the function any more."""
    _FORGETS.remove(function)


def forget() -> None:
    """Let everything go that is remembered and nobody uses.  Safe in any thread, while others work."""
    for function in [*_FORGETS]:
        function()
