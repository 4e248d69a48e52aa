"""Tokens on their way from the engine's thread to the tasks of an event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from weakref import WeakKeyDictionary, ref

from engine.generation import Token

Tokens = asyncio.Queue[Token | None]
"""Of one request."""


class Mailbox:
    """What the engine has for the tasks of one event loop, which is woken once for all that has come, not for each token.

    To wake it is a system call, for which the engine's thread would give the interpreter away.
    """

    def __init__(self, events: asyncio.AbstractEventLoop) -> None:
        self._events = ref(events)
        self._posted: deque[tuple[Tokens, Token | None]] = deque()
        self._is_called = False

    def post(self, tokens: Tokens, token: Token | None) -> None:
        """Has `token` put into a queue of the loop's; for any thread.  `None` stands for the end.

        Raises:
            RuntimeError: the loop is closed.
        """
        self._posted.append((tokens, token))
        if self._is_called:
            return
        self._is_called = True  # before the call, which may be answered at once
        try:
            events = self._events()
            if events is None:
                raise RuntimeError("the event loop is gone")
            events.call_soon_threadsafe(self._hand_out)
        except RuntimeError:
            self._is_called = False
            self._posted.clear()
            raise

    def _hand_out(self) -> None:
        self._is_called = False  # first: what is posted from here on calls again, or is seen below
        while self._posted:
            tokens, token = self._posted.popleft()
            tokens.put_nowait(token)


_MAILBOXES: WeakKeyDictionary[asyncio.AbstractEventLoop, Mailbox] = WeakKeyDictionary()


def mailbox_of(events: asyncio.AbstractEventLoop) -> Mailbox:
    """The mailbox of an event loop; called in its thread."""
    found = _MAILBOXES.get(events)
    if found is None:
        found = _MAILBOXES[events] = Mailbox(events)
    return found
