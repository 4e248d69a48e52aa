"""The engine options of `LLM`: each works or is refused by name; none is ignored."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from engine.batching import BatchEngine, EngineLoop
from engine.batching.loop import MAX_WAITING
from engine.batching.room import blocks_for
from engine.batching.scheduler import ADMISSIONS, Admission
from engine.caches import NAMES as CACHE_NAMES
from engine.caches import PagedCache
from engine.errors import ContextError
from engine.model import Model
from engine.speculation.lookahead import check_lookahead
from engine.speculation.names import check_name
from engine.speculation.proposer import Proposer

__all__ = ["MAX_WAITING", "EngineOptions", "format_size", "parse_size"]

_CACHES = ("auto", *CACHE_NAMES)
_UNITS = {
    "": 1,
    "K": 1000,
    "M": 1000**2,
    "G": 1000**3,
    "T": 1000**4,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}


@dataclass(frozen=True)
class EngineOptions:
    """How the engine decodes.

    Attributes:
        cache: the kind of key/value cache: `"auto"`, or one of `engine.caches.NAMES` (`engine.caches.create` says when to
            take which).
        proposer: who guesses tokens ahead (docs/speculation.md): `"none"`; `"auto"`, which is `"forced+ngram"`; one of
            `engine.speculation.NAMES`; several joined by "+"; or an `engine.speculation.Proposer` of one's own.
        lookahead: how many guesses are verified in one pass: `"adaptive"`, `"heuristic"`, or a number from 1 to 15.
        kv_memory: most memory that keys and values may take, in bytes or as `"2GiB"`; `None` sets no limit to a single
            generation, and gives batches a quarter of what the host has available, 4 GiB at most, or four fifths of what a
            CUDA device has free (`engine.batching.room.blocks_for`).
        max_sequences: most sequences that decode at the same time, at least 1.
        admission: when a waiting request joins the batch: `"promised"`, as soon as the memory for all its tokens is there, so
            that none ever gives memory back; `"optimistic"`, as soon as that for the tokens it has is there: more run at a
            time, and when memory ends the last in order waits and is computed again (`engine.batching.scheduler`).
        max_waiting: most requests that wait for room in the batch, at least 1; further ones are refused.

    Raises:
        ValueError: what is not accepted.
    """

    cache: str = "auto"
    proposer: str | Proposer = "auto"
    lookahead: str | int = "adaptive"
    kv_memory: int | str | None = None
    max_sequences: int = 64
    max_waiting: int = MAX_WAITING
    admission: Admission = "promised"

    def __post_init__(self) -> None:
        if self.cache not in _CACHES:
            raise ValueError(f"cache={self.cache!r} is not accepted; pass {', '.join(map(repr, _CACHES))}")
        if not isinstance(self.proposer, Proposer):
            check_name(self.proposer)
        check_lookahead(self.lookahead)
        if self.kv_memory is not None:
            object.__setattr__(self, "kv_memory", parse_size(self.kv_memory))
        if self.admission not in ADMISSIONS:
            raise ValueError(f"admission={self.admission!r} is not accepted; pass {' or '.join(map(repr, ADMISSIONS))}")
        for name in ("max_sequences", "max_waiting"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name}={value!r} is not accepted; pass an integer of at least 1")

    def for_call(
        self, cache: str | None, proposer: str | Proposer | None, lookahead: str | int | None
    ) -> EngineOptions:
        """The same with what one call says otherwise; `None` leaves an option as it is."""
        return replace(
            self,
            cache=self.cache if cache is None else cache,
            proposer=self.proposer if proposer is None else proposer,
            lookahead=self.lookahead if lookahead is None else lookahead,
        )

    def check_batching(self) -> None:
        """Raises ValueError where the cache is not one that batches have."""
        if self.cache not in ("auto", PagedCache.name):
            raise ValueError(
                f"cache={self.cache!r} is not accepted for batches, which are paged; pass 'auto' or 'paged'"
            )

    def check_memory(self, model: Model, tokens: int) -> None:
        """Raises ContextError where keys and values of so many tokens take more than `kv_memory`."""
        needed = model.config.kv_values_per_token * tokens * model.dtype.itemsize
        if self.kv_bytes is not None and needed > self.kv_bytes:
            raise ContextError(
                f"{tokens} tokens need {format_size(needed)} for keys and values, more than kv_memory="
                f"{format_size(self.kv_bytes)}: raise it, lower max_tokens or shorten the prompt"
            )

    def make_loop(self, model: Model) -> EngineLoop:
        """A batch engine for these options.

        Raises:
            EngineError: `kv_memory` is less than one block of keys and values.
        """
        blocks = blocks_for(model, self.kv_bytes, self.max_sequences)
        batch = BatchEngine(model, blocks=blocks, max_sequences=self.max_sequences, admission=self.admission)
        return EngineLoop(batch, max_waiting=self.max_waiting)

    @property
    def kv_bytes(self) -> int | None:
        """`kv_memory` in bytes."""
        assert not isinstance(self.kv_memory, str)
        return self.kv_memory


def parse_size(size: int | str) -> int:
    """Bytes of `2GiB`, `512MB` or a number of bytes.

    Raises:
        ValueError: not a size.
    """
    if isinstance(size, int) and not isinstance(size, bool) and size > 0:
        return size
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]i?|)B?\s*", size) if isinstance(size, str) else None
    if match is None or float(match[1]) == 0:
        raise ValueError(f"{size!r} is not a size; write '2GiB', '512MB' or a number of bytes")
    return int(float(match[1]) * _UNITS[match[2]])


def format_size(size: int) -> str:
    """The size in the largest binary unit in which it is at least 1."""
    for unit in ("Ti", "Gi", "Mi", "Ki"):
        if size >= _UNITS[unit]:
            return f"{size / _UNITS[unit]:.4g} {unit}B"
    return f"{size} B"
