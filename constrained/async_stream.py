"""A generation in the batch engine, as asyncio waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, Self

from constrained.mailbox import Mailbox, Tokens, mailbox_of
from constrained.prompts import Prompt
from constrained.requests import TextRequest
from constrained.results import Generation, StreamEvent
from constrained.schema_input import partial_reader
from constrained.streaming import as_generation
from engine.batching import Request, RequestHandle
from engine.generation import Token

if TYPE_CHECKING:
    from constrained.llm import LLM

_MOST_AT_ONCE = 16
"""Tokens that a reader who is behind takes before it lets other tasks go on: a queue that is not empty never waits."""


class AsyncTextStream(AsyncIterator[StreamEvent]):
    """Events of one generation in the batch engine.

    Leaving its `async with` block, `aclose`, or cancelling the task that waits for it cancels the request and frees its
    memory.  `result` waits for what is left and hands back the whole.

    Attributes:
        written: characters that the events so far hold.
    """

    def __init__(self, llm: LLM, prompt: Prompt, constraint: Any, priority: int, options: dict[str, Any]) -> None:
        self._llm = llm
        options = dict(options)
        self._partial = partial_reader(constraint) if options.pop("partial", False) else None
        self._at_once = bool(options.pop("at_once", False))
        self._arguments = prompt, constraint, options
        self._priority = priority
        self._text: TextRequest | None = None
        self._handle: RequestHandle | None = None
        self._tokens: Tokens = asyncio.Queue()
        self._pieces: list[str] = []
        self._ended = False
        self._behind = 0
        self.written = 0

    async def start(self) -> Self:
        """Prepares and queues the request, unless that is done; everything that can be refused is refused here.

        Raises:
            As `AsyncLLM.generate`.
        """
        if self._handle is None:
            # Encoding, compiling and the first mask may take milliseconds, which the event loop has not got.
            text, request = await asyncio.to_thread(self._prepare)
            self._text, self._handle = text, self._llm.engine.enqueue(request)
            # Holding the queue and not the stream: a stream that nobody holds any more cancels its request.
            mailbox, tokens = mailbox_of(asyncio.get_running_loop()), self._tokens
            held: list[Token] | None = [] if self._at_once else None
            self._handle.listen(lambda token: _post(mailbox, tokens, token, held))
        return self

    @property
    def has_more(self) -> bool:
        """Whether the next event, or the end, is there already."""
        return not self._tokens.empty()

    async def __anext__(self) -> StreamEvent:
        """The next token's event.

        Raises:
            StopAsyncIteration: the generation is finished.
            Otherwise as `start`, and what ended the generation.
        """
        await self.start()
        assert self._text is not None and self._handle is not None
        if self._ended:
            raise StopAsyncIteration
        try:
            if not self._tokens.empty():
                self._behind += 1
                if self._behind % _MOST_AT_ONCE == 0:
                    await asyncio.sleep(0)
            token = await self._tokens.get()
        except asyncio.CancelledError:
            self._handle.cancel()
            raise
        if token is None:
            self._ended = True
            self._handle.result()  # an error is raised here
            self._pieces.append(self._text.decoding.flush())
            raise StopAsyncIteration
        text = self._text.decoding.push(token.token_id)
        self._pieces.append(text)
        self.written += len(text)
        value = None if self._partial is None else self._partial.push(text)
        return StreamEvent(text, token.token_id, token.logprob, value)

    async def result(self) -> Generation:
        """Waits for what is left; the whole generation, its text checked against the schema.

        Raises:
            ResultError: the caller's type refuses what its schema allows.
            Otherwise as `__anext__`.
        """
        async for _ in self:
            pass
        assert self._text is not None and self._handle is not None
        return as_generation(self._handle.result(), "".join(self._pieces), self._text.parse)

    async def aclose(self) -> None:
        """Cancels what is left."""
        if self._handle is not None:
            self._handle.cancel()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None:
            handle.cancel()

    def _prepare(self) -> tuple[TextRequest, Request]:
        prompt, constraint, options = self._arguments
        text = self._llm.prepare(prompt, constraint, **options)
        return text, self._llm.engine.engine.prepare(text.ids, **text.arguments, priority=self._priority)


def _post(mailbox: Mailbox, tokens: Tokens, token: Token | None, held: list[Token] | None) -> None:
    """Called in the engine's thread; a loop that is closed listens no more, which cancels the request.

    `held`: takes the tokens until the end is there; `None` has each posted as it comes.
    """
    if held is not None:
        if token is not None:
            held.append(token)
            return
        with suppress(RuntimeError):
            for one in held:
                mailbox.post(tokens, one)
    with suppress(RuntimeError) if token is None else nullcontext():
        mailbox.post(tokens, token)
