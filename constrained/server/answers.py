"""One answer of the batch engine, read part by part, cut at stop texts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from constrained.async_llm import AsyncLLM, AsyncTextStream
from constrained.replies import ReplyPlan
from constrained.results import Generation, StreamEvent
from engine.errors import EngineClosed
from engine.sampling import Sampling
from grammars.tool_calls import CallBegin, ContentDelta, Event, ReasoningDelta
from grammars.tool_calls.reading import overlap

FinishReason = str


@dataclass(frozen=True, slots=True)
class Part:
    """What one token, or the end, adds to an answer.

    Attributes:
        events: parts of content, thoughts and calls.
        token: the token; `None` at the end.
        finish_reason: why the answer ends with this part; `None` where it goes on.
        has_more: whether the next part is there already.
    """

    events: list[Event]
    token: StreamEvent | None = None
    finish_reason: FinishReason | None = None
    has_more: bool = False


class StopTexts:
    """Finds the first of several texts in a content that comes in pieces, and holds back what may begin one."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = tuple(texts)
        self._held = ""
        self.is_found = False

    def push(self, text: str) -> str:
        """What of the text so far can be given out."""
        if not self._texts:
            return text
        if self.is_found:
            return ""
        text = self._held + text
        found = [at for at in (text.find(one) for one in self._texts) if at >= 0]
        if found:
            self.is_found, self._held = True, ""
            return text[: min(found)]
        held = max(overlap(text, one) for one in self._texts)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]

    def close(self) -> str:
        """What was held back and began none."""
        held, self._held = self._held, ""
        return held


class Answer:
    """One of the answers to a request.

    Attributes:
        finish_reason: OpenAI's word for why it ended, once it has.
        output_tokens: tokens generated for it.
        reasoning_tokens: those of them that are thoughts.
        generation: how it came about, once it has ended.
    """

    def __init__(
        self,
        engine: AsyncLLM,
        plan: ReplyPlan,
        sampling: Sampling,
        max_tokens: int,
        *,
        stops: Sequence[str] = (),
        priority: int = 0,
        whole: bool = False,
        at_once: bool = False,
    ) -> None:
        """
        Args:
            whole: a grammar holds the content, so that it is whole wherever it ends.
            at_once: the parts are wanted when all are there; stop texts want them as they come in any case.
        """
        self._stream: AsyncTextStream = engine.stream(
            plan.ids,
            plan.constraint,
            priority=priority,
            max_tokens=max_tokens,
            sampling=sampling,
            at_once=at_once and not stops,
        )
        self._reader = plan.reader()
        self._stops = StopTexts(stops)
        self._is_whole = whole
        self._called = False
        self.finish_reason: FinishReason | None = None
        self.output_tokens = self.reasoning_tokens = 0
        self.generation: Generation | None = None

    async def start(self) -> None:
        """Queues it; whatever is refused is refused here."""
        await self._stream.start()

    async def parts(self) -> AsyncGenerator[Part]:
        """The parts as they come; leaving early cancels the rest."""
        try:
            async for event in self._stream:
                self.output_tokens += 1
                events = self._cut(self._reader.push(event))
                self.reasoning_tokens += any(isinstance(one, ReasoningDelta) for one in events)
                if self._stops.is_found:
                    await self._stream.aclose()
                    self.generation, self.finish_reason = await self._stream.result(), "stop"
                yield Part(events, event, self.finish_reason, self._stream.has_more)
                if self._stops.is_found:
                    return
            self.generation = await self._stream.result()
            if self.generation.finish_reason == "cancelled":  # by nobody who reads this
                raise EngineClosed("the engine was stopped before the answer had ended")
            rest = self._cut(self._reader.close(self.generation.text[self._stream.written :]))
            if not self._stops.is_found and (held := self._stops.close()):
                rest.append(ContentDelta(held))
            self.finish_reason = self._reason(self.generation.finish_reason)
            yield Part(rest, None, self.finish_reason)
        finally:
            await self.close()

    async def close(self) -> None:
        """Cancels what is left; its blocks are free after the step that is running."""
        await self._stream.aclose()

    def _cut(self, events: list[Event]) -> list[Event]:
        kept: list[Event] = []
        for event in events:
            if isinstance(event, ContentDelta):
                text = self._stops.push(event.text)
                if text:
                    kept.append(ContentDelta(text))
                if self._stops.is_found:
                    break
                continue
            if isinstance(event, CallBegin):
                self._called = True
                if held := self._stops.close():
                    kept.append(ContentDelta(held))
            kept.append(event)
        return kept

    def _reason(self, reason: str) -> FinishReason:
        if self._called:
            return "tool_calls"
        return "stop" if self._is_whole and reason == "length" else reason


async def started(answers: Sequence[Answer]) -> None:
    """Queues all answers, or none: where one is refused, the others are cancelled."""
    try:
        for answer in answers:
            await answer.start()
    except BaseException:
        for answer in answers:
            await answer.close()
        raise


async def merged(answers: Sequence[Answer]) -> AsyncGenerator[tuple[int, Part]]:
    """Parts of several answers as they come, each with the number of its answer."""
    if len(answers) == 1:
        async with aclosing(answers[0].parts()) as only:
            async for part in only:
                yield 0, part
        return
    queue: asyncio.Queue[tuple[int, Part] | BaseException | None] = asyncio.Queue()

    async def take(number: int, answer: Answer) -> None:
        try:
            async with aclosing(answer.parts()) as own:
                async for part in own:
                    queue.put_nowait((number, part))
            queue.put_nowait(None)
        except Exception as error:
            queue.put_nowait(error)

    tasks = [asyncio.create_task(take(number, answer)) for number, answer in enumerate(answers)]
    try:
        left = len(tasks)
        while left:
            found = await queue.get()
            if isinstance(found, BaseException):
                raise found
            if found is None:
                left -= 1
            else:
                yield found
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
