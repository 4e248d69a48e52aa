"""One thread that steps a `BatchEngine` for callers in many."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Hashable, Sequence
from threading import Condition, Thread, current_thread
from typing import Self
from weakref import WeakSet

from engine.batching.batch import BatchEngine
from engine.batching.handle import RequestHandle
from engine.batching.request import Request
from engine.batching.usage import Usage
from engine.constraint import TokenConstraint
from engine.errors import EngineClosed, EngineError, QueueFull
from engine.generation import CancelToken
from engine.sampling import Sampling
from engine.speculation.speculation import Speculation

MAX_WAITING = 1024
"""Requests that may wait for room, by default."""

_LOOPS: WeakSet[EngineLoop] = WeakSet()
_SECONDS_AT_EXIT = 30.0


@atexit.register
def _stop_all() -> None:
    """Python ends daemon threads where they are; one that is in the middle of a product would take the process with it."""
    for loop in list(_LOOPS):
        loop.stop(cancel=True, timeout=_SECONDS_AT_EXIT)


class EngineLoop:
    """Runs an engine for callers in any thread.  The thread lives while there is something to do.

    Attributes:
        engine: belongs to the loop's thread; from others only `prepare` and what it says to be safe may be called.
        max_waiting: requests that may wait for room; further ones are refused, or made to wait.
    """

    def __init__(self, engine: BatchEngine, *, max_waiting: int = MAX_WAITING) -> None:
        if max_waiting < 1:
            raise EngineError(f"max_waiting={max_waiting}: at least 1")
        self.engine, self.max_waiting = engine, max_waiting
        self._changed = Condition()
        self._entering: list[RequestHandle] = []
        self._leaving: list[RequestHandle] = []
        self._live: list[RequestHandle] = []
        self._thread: Thread | None = None
        self._last: Thread | None = None
        self._closed = False
        _LOOPS.add(self)

    def submit(
        self,
        ids: Sequence[int],
        *,
        sampling: Sampling | None = None,
        constraint: TokenConstraint | None = None,
        max_new_tokens: int = 256,
        eos_token_ids: Sequence[int] | None = None,
        stop: Callable[[Sequence[int]], bool] | None = None,
        priority: int = 0,
        cancel: CancelToken | None = None,
        wait: bool = False,
        speculation: Speculation | None = None,
        group: Hashable = None,
    ) -> RequestHandle:
        """Queues a request; arguments as those of `BatchEngine.add`.

        Args:
            wait: for room in the queue, instead of being refused.

        Raises:
            QueueFull: `max_waiting` requests wait already.
            EngineClosed: the loop was stopped.
            As `BatchEngine.add`.
        """
        request = self.engine.prepare(
            ids, sampling=sampling, constraint=constraint, max_new_tokens=max_new_tokens, eos_token_ids=eos_token_ids,
            stop=stop, priority=priority, cancel=cancel, speculation=speculation, group=group,
        )  # fmt: skip
        return self.enqueue(request, wait=wait)

    def enqueue(self, request: Request, *, wait: bool = False) -> RequestHandle:
        """Queues a request of `BatchEngine.prepare`; quick unless it is to `wait` for room.

        Raises:
            QueueFull, EngineClosed: as `submit`.
        """
        handle = RequestHandle(request, self._cancel)
        with self._changed:
            if wait:
                self._changed.wait_for(lambda: self._closed or self.waiting < self.max_waiting)
            if self._closed:
                raise EngineClosed("the engine was stopped and takes no more requests: make another")
            if self.waiting >= self.max_waiting:
                raise QueueFull(
                    f"{self.waiting} requests wait for room already, as many as may: try again later, or raise max_waiting"
                )
            self._entering.append(handle)
            self._wake()
        return handle

    @property
    def waiting(self) -> int:
        """Requests that wait for room."""
        return len(self._entering) + len(self.engine.scheduler.waiting)

    def usage(self) -> Usage:
        """What the engine has in use; between two steps it is exact, during one nearly so."""
        return self.engine.usage()

    def stop(self, *, cancel: bool = False, timeout: float | None = None) -> bool:
        """Takes no more requests and waits until those that are there are finished, or, with `cancel`, cancelled.

        Returns:
            Whether all are, within `timeout` seconds; what is left goes on.
        """
        with self._changed:
            self._closed = True
            if cancel:
                self._leaving.extend((*self._entering, *self._live))
            self._changed.notify_all()
            ended = self._changed.wait_for(lambda: self._thread is None, timeout)
            last = self._last
        if ended and last is not None and last is not current_thread():
            last.join()  # it has nothing left to do but to end
        return ended

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *rest: object) -> None:
        self.stop(cancel=error is not None)

    def _cancel(self, handle: RequestHandle) -> None:
        if handle.is_done:
            return
        with self._changed:
            self._leaving.append(handle)
            self._wake()

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = self._last = Thread(target=self._run, name="engine-loop", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            while self._take_turn():
                pass
        except BaseException as error:
            # Nobody may be left waiting for a thread that is gone.
            with self._changed:
                self._closed, self._thread = True, None
                self._live.extend(self._entering)
                self._changed.notify_all()
            for handle in self._live:
                if not handle.request.is_finished:
                    handle.request.error = _failure(error)
                handle.deliver()
            raise

    def _take_turn(self) -> bool:
        """Lets requests enter and leave, takes a step, hands out what came of it; false where nothing is left to do."""
        with self._changed:
            entering, self._entering = self._entering, []
            leaving, self._leaving = self._leaving, []
            self._live.extend(entering)
            if not self._live:
                self._thread = None
                self._changed.notify_all()
                return False
            for handle in entering:
                self.engine.enqueue(handle.request)
        for handle in leaving:
            self.engine.cancel(handle.request)
            handle.deliver()  # who waits for its end need not wait for the others' next step
        try:
            self.engine.step(self._deliver_first)
        except Exception as error:
            self._fail(error)
        for handle in self._live:
            handle.deliver()
        with self._changed:
            self._live = [handle for handle in self._live if not handle.is_done]
            self._changed.notify_all()
        return True

    def _deliver_first(self, requests: Sequence[Request]) -> None:
        """Hands out first tokens while the step that they were drawn in goes on."""
        fresh = set(requests)
        for handle in self._live:
            if handle.request in fresh:
                handle.deliver()

    def _fail(self, error: Exception) -> None:
        """A step that went wrong ends all that took part in it; those that wait go on."""
        running = list(self.engine.scheduler.running)
        # Where nobody took part, it would fail again and again.
        for request in running or [handle.request for handle in self._live]:
            self.engine.fail(request, _failure(error))


def _failure(error: BaseException) -> EngineError:
    reason = EngineError(f"the step that this request took part in failed: {type(error).__name__}: {error}")
    reason.__cause__ = error
    return reason
