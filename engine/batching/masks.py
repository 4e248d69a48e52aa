"""The masks of a step, filled while its forward pass runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from time import perf_counter
from typing import Any

import numpy as np

from engine.batching.request import Request
from engine.constraint import BatchConstraint


class MaskFiller:
    """Fills masks beside something else, in a thread of its own.

    Forward passes hold no interpreter lock while they compute, so masks that must be made first cost the step nothing
    where there is a core to spare.
    """

    def __init__(self, *, threaded: bool = True) -> None:
        """Without a thread masks are filled before the forward pass."""
        self._threaded = threaded
        self._thread: ThreadPoolExecutor | None = None

    @contextmanager
    def beside(self, requests: Sequence[Request]) -> Iterator[None]:
        """Around a forward pass: behind it each request is settled, or has the error of its constraint."""
        if not requests or not self._threaded:
            fill(requests)
            yield
            return
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "masks")
        filled = self._thread.submit(fill, requests)
        try:
            yield
        finally:
            filled.result()


def fill(requests: Sequence[Request]) -> None:
    """Fills the masks of requests that have constraints, those of one kind in one call where the kind can do that."""
    start = perf_counter()
    kinds: dict[type, list[Request]] = {}
    for request in requests:
        kinds.setdefault(type(request.sequence.constraint), []).append(request)
    for together in kinds.values():
        first = together[0].sequence.constraint
        if first is not None and len(together) > 1 and _fills_together(type(first)) and _fill_together(first, together):
            continue
        for request in together:
            _fill_alone(request)
    seconds = (perf_counter() - start) / max(1, len(requests))
    for request in requests:
        request.parts["mask"] += seconds
        request.settled = True


@cache
def _fills_together(kind: type) -> bool:
    """Whether many constraints of a kind are asked in one call; to ask a protocol takes longer than the call."""
    return issubclass(kind, BatchConstraint)


def _fill_together(kind: Any, requests: Sequence[Request]) -> bool:
    """False where one of them fails: each is to be filled alone then, so that the others do not."""
    sequences = [request.sequence for request in requests]
    masks = [sequence.mask for sequence in sequences]
    rows = np.zeros((len(masks), max(len(mask) for mask in masks if mask is not None)), np.uint32)
    try:
        kind.fill_rows([sequence.constraint for sequence in sequences], rows)
    except Exception:
        return False
    for sequence, row in zip(sequences, rows, strict=True):
        sequence.mask = row
    return True


def _fill_alone(request: Request) -> None:
    sequence = request.sequence
    try:
        if sequence.constraint is not None and sequence.mask is not None:
            sequence.constraint.fill_mask(sequence.mask)
    except Exception as error:  # a constraint's own
        request.error = error
