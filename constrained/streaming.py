"""A generation as it happens: tokens from the engine, text as it becomes whole, the result at the end."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from typing import Any, Protocol, Self

from constrained.partial import PartialJson
from constrained.results import Generation, StreamEvent
from engine.generation import Output, Token


class Decoding(Protocol):
    """Turns tokens into text as they arrive; the pieces, `flush` included, join to the whole text."""

    def push(self, token_id: int) -> str:
        """The text that this token completes."""

    def flush(self) -> str:
        """What is left at the end."""


class TokenSource(Iterator[Token], Protocol):
    """A generation in progress; `engine.generation.TokenStream` and `engine.batching.RequestHandle` are two."""

    def result(self) -> Output:
        """The whole, waited for."""

    def close(self) -> None:
        """Cancel what is left."""


class BytesDecoding:
    """Decodes by the bytes that the constraint saw, so that the text is exactly the sentence that it allowed."""

    def __init__(self, token_bytes: Callable[[int], bytes | None]) -> None:
        self._token_bytes = token_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_id: int) -> str:
        return self._decoder.decode(self._token_bytes(token_id) or b"")

    def flush(self) -> str:
        return self._decoder.decode(b"", final=True)


class TextStream(Iterator[StreamEvent]):
    """Events of one generation; each `next` decodes one token.

    Attributes:
        written: characters that the events so far hold.

    Leaving the `with` block, or `close`, cancels what is left.  `result` takes what is left and hands back the whole.
    """

    def __init__(
        self,
        tokens: TokenSource,
        decoding: Decoding,
        parse: Callable[[str], Any] | None = None,
        partial: PartialJson | None = None,
    ) -> None:
        """`partial`: reads the value so far out of the text so far, for each event."""
        self._partial = partial
        self._tokens = tokens
        self._decoding = decoding
        self._parse = parse
        self._pieces: list[str] = []
        self._flushed = False
        self.written = 0

    def __next__(self) -> StreamEvent:
        """The next token's event.

        Raises:
            StopIteration: the generation is finished.
            EmptyRow, InvalidLogits: no token can be drawn; see `Sampling.on_empty`.
        """
        token = next(self._tokens)
        text = self._decoding.push(token.token_id)
        self._pieces.append(text)
        self.written += len(text)
        value = None if self._partial is None else self._partial.push(text)
        return StreamEvent(text, token.token_id, token.logprob, value)

    def close(self) -> None:
        """Cancels what is left and frees the cache."""
        self._tokens.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def result(self) -> Generation:
        """Takes the steps that are left; the whole generation, its text checked against the schema.

        Raises:
            ResultError: the caller's type refuses what its schema allows.
            EmptyRow, InvalidLogits: as `next`.
        """
        for _ in self:
            pass
        output = self._tokens.result()
        if not self._flushed:
            self._pieces.append(self._decoding.flush())
            self._flushed = True
        return as_generation(output, "".join(self._pieces), self._parse)


def as_generation(output: Output, text: str, parse: Callable[[str], Any] | None) -> Generation:
    """What the engine put out, with its text, read by `parse` unless it was cancelled.

    Raises:
        ResultError: `parse` refuses it.
    """
    whole = output.finish_reason != "cancelled" and parse is not None
    return Generation(
        text=text,
        parsed=parse(text) if whole and parse is not None else None,
        token_ids=output.token_ids,
        finish_reason=output.finish_reason,
        fallbacks=output.fallbacks,
        metrics=output.metrics,
        logprobs=output.logprobs,
        seed=output.seed,
        score=output.score,
    )
