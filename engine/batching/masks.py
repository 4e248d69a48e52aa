"""The masks of a step: filled while its forward pass runs, or before it; one that takes long is not waited for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from time import perf_counter

import numpy as np

from engine.batching.request import Request
from engine.constraint import BatchConstraint

PATIENCE = 0.02
"""Seconds that a step waits for masks that must be made first; half of its forward pass where that is longer."""
MOST_MADE = 4
"""Masks that are made at a time; further ones wait for their turn."""


class MaskFiller:
    """Fills masks in threads of its own.

    Forward passes hold no interpreter lock while they compute, so masks that must be made first cost the step nothing
    where there is a core to spare.  A request whose mask takes longer than a step waits is *late*: `Request.making` is
    set, and it sits out until that is done.
    """

    def __init__(self, *, threaded: bool = True, patience: float = PATIENCE) -> None:
        """Without threads masks are filled at once, however long that takes."""
        self._threaded, self._patience = threaded, patience
        self._pass_seconds = 0.0
        self._looking: ThreadPoolExecutor | None = None
        self._making: ThreadPoolExecutor | None = None

    @contextmanager
    def beside(self, requests: Sequence[Request]) -> Iterator[None]:
        """Around a forward pass: behind it each request is settled, late, or has the error of its constraint."""
        if not requests or not self._threaded:
            self.settle(requests)
            yield
            return
        if self._looking is None:
            self._looking = ThreadPoolExecutor(1, "masks")
        filled = self._looking.submit(self._fill, requests)
        begin = perf_counter()
        try:
            yield
        finally:
            self._pass_seconds = perf_counter() - begin
            filled.result()
            self._wait(requests)

    def settle(self, requests: Sequence[Request]) -> None:
        """Fills masks that are wanted before the next forward pass; behind it requests are as behind `beside`."""
        if not self._threaded:
            for request in requests:
                _make(request)
        elif requests:
            self._fill(requests)
            self._wait(requests)

    def wait_for_one(self, requests: Sequence[Request]) -> None:
        """Where nobody can go on: until one of the late ones is done, or for a moment, in which others may have come."""
        wait([request.making for request in requests if request.making is not None], 0.05, FIRST_COMPLETED)

    def _fill(self, requests: Sequence[Request]) -> None:
        """Fills the masks that are known, those of one kind in one call where it can do that, and has the others made."""
        begin = perf_counter()
        kinds: dict[type, list[Request]] = {}
        for request in requests:
            kinds.setdefault(type(request.sequence.constraint), []).append(request)
        unknown: list[Request] = []
        for kind, together in kinds.items():
            unknown += _fill_known(kind, together) if _knows_many(kind) else together
        seconds = (perf_counter() - begin) / len(requests)
        for request in requests:
            request.parts["mask"] += seconds
        if unknown and self._making is None:
            self._making = ThreadPoolExecutor(MOST_MADE, "masks-made")
        for request in unknown:
            assert self._making is not None
            request.making = self._making.submit(_make, request)

    def _wait(self, requests: Sequence[Request]) -> None:
        made = [request.making for request in requests if request.making is not None]
        if made:
            wait(made, max(self._patience, self._pass_seconds / 2))
        for request in requests:
            request.look()


@cache
def _knows_many(kind: type) -> bool:
    """Whether many constraints of a kind are asked in one call; to ask a protocol takes longer than the call."""
    return issubclass(kind, BatchConstraint)


def _fill_known(kind: type[BatchConstraint], requests: Sequence[Request]) -> Sequence[Request]:
    """Those whose masks are still to be made."""
    sequences = [request.sequence for request in requests]
    masks = [sequence.mask for sequence in sequences]
    rows = np.zeros((len(masks), max(len(mask) for mask in masks if mask is not None)), np.uint32)
    unknown = set(kind.fill_rows([sequence.constraint for sequence in sequences], rows))
    for at, request in enumerate(requests):
        if at not in unknown:
            _settle(request, rows[at])
    return [requests[at] for at in sorted(unknown)]


def _make(request: Request) -> None:
    begin = perf_counter()
    _settle(request, None)
    request.parts["mask"] += perf_counter() - begin


def _settle(request: Request, row: np.ndarray[tuple[int, ...], np.dtype[np.uint32]] | None) -> None:
    try:
        request.sequence.settle(row)
    except Exception as error:  # a constraint's or a stop condition's own
        if not request.is_finished:
            request.error = error
    request.settled = True
