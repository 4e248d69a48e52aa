"""One request in a running engine, as its caller sees it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from threading import Condition
from typing import Self

from engine.batching.request import Request
from engine.generation import Output, Token

_log = logging.getLogger(__name__)

Listener = Callable[[Token | None], None]
"""Called with each token, and with `None` when the request is finished."""


class RequestHandle(Iterator[Token]):
    """A request that an `EngineLoop` works on; every method may be called from any thread.

    Iterating gives its tokens as they come, `result` waits for the whole.  Closing it, or leaving its `with` block,
    cancels what is left.

    Attributes:
        request: state and times; belongs to the loop's thread until `is_done`.
    """

    def __init__(self, request: Request, cancel: Callable[[RequestHandle], None]) -> None:
        self.request = request
        self._cancel = cancel
        self._changed = Condition()
        self._tokens: list[Token] = []
        self._taken = 0
        self._done = False
        self._listener: Listener | None = None

    @property
    def is_done(self) -> bool:
        """Whether it is finished, with a result or an error."""
        return self._done

    def __next__(self) -> Token:
        """The next token, waited for.

        Raises:
            StopIteration: the request is finished.
            Exception: what ended it.
        """
        with self._changed:
            while self._taken == len(self._tokens) and not self._done:
                self._changed.wait()
            if self._taken < len(self._tokens):
                self._taken += 1
                return self._tokens[self._taken - 1]
        if self.request.error is not None:
            raise self.request.error
        raise StopIteration

    def result(self, timeout: float | None = None) -> Output:
        """The whole, waited for.

        Args:
            timeout: most seconds to wait; the request goes on when they are over.

        Raises:
            TimeoutError: it is not finished after `timeout` seconds.
            Exception: what ended it.
        """
        if not self.wait(timeout):
            raise TimeoutError(f"the request is not finished after {timeout} s; wait on, or cancel it")
        return self.request.output()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the request is finished; false where `timeout` seconds were not enough."""
        with self._changed:
            return self._changed.wait_for(lambda: self._done, timeout)

    def cancel(self) -> None:
        """Ends the request as `"cancelled"`, at the latest after the step that is running, and gives its blocks back."""
        self._cancel(self)

    close = cancel

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.cancel()

    def listen(self, listener: Listener) -> None:
        """Has `listener` called with the tokens so far, with each further one, and with `None` at the end.

        It is called in the loop's thread, must be quick and must not raise: one that raises is dropped, and its request
        cancelled.  There is one listener at a time.
        """
        with self._changed:
            self._listener = listener
            for token in self._tokens:
                listener(token)
            if self._done:
                listener(None)

    def deliver(self) -> None:
        """Hands on what the request has got since the last call; for the loop's thread."""
        sequence = self.request.sequence
        tokens, begin = self.request.tokens, sequence.row.history.prompt_length + len(self._tokens)
        # One whose mask was late has its blocks until the engine has looked at it.
        done = self.request.is_finished and self.request.making is None
        if begin == len(tokens) and not done:
            return
        with self._changed:
            fresh: list[Token | None] = []
            for token_id in tokens[begin:]:
                at = len(self._tokens)
                logprob = sequence.logprobs[at] if at < len(sequence.logprobs) else None
                self._tokens.append(Token(token_id, logprob))
                fresh.append(self._tokens[-1])
            if done and not self._done:
                self._done = True
                fresh.append(None)
            self._changed.notify_all()
            self._tell(fresh)

    def _tell(self, events: list[Token | None]) -> None:
        if self._listener is None:
            return
        try:
            for event in events:
                self._listener(event)
        except Exception:
            _log.warning("a listener failed; its request is cancelled", exc_info=True)
            self._listener = None
            self._cancel(self)
