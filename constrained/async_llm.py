"""The front door for asyncio: many tasks share one batch engine, and a task that is cancelled cancels its request."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar, overload

from constrained.async_stream import AsyncTextStream
from constrained.llm import LLM
from constrained.prompts import Prompt, with_schema
from constrained.reasoning import ReasoningOptions
from constrained.replies import Reply, ReplyPlan
from constrained.reply_streams import AsyncReplyStream
from constrained.results import Generation
from constrained.schema_input import read_schema
from constrained.tool_loop import ToolRun, run_tools_async
from constrained.tools import ToolCall
from engine.model import Model

__all__ = ["AsyncLLM", "AsyncTextStream"]

T = TypeVar("T")


class AsyncLLM:
    """An `LLM` whose calls are awaited.  Its requests are decoded together, with those of `llm.generate_batch`.

    Args:
        model: an `LLM`, which is then shared; or what `LLM` takes.
        options: those of `LLM`.

    Attributes:
        llm: the model behind it.
    """

    def __init__(self, model: LLM | str | Path | Model | None = None, **options: Any) -> None:
        if isinstance(model, LLM):
            if options:
                raise ValueError(
                    f"the LLM is there already, so its options are settled; leave out {', '.join(options)}"
                )
            self.llm = model
        else:
            self.llm = LLM(model, **options)

    def stream(self, prompt: Prompt, constraint: Any = None, *, priority: int = 0, **options: Any) -> AsyncTextStream:
        """The events of a generation as they come: `async for event in llm.stream(...)`.

        Args:
            priority: requests of a higher one go first.
            options: `max_tokens`, `sampling`, `chat` and `cancel` as in `LLM.generate`; `partial` as in `LLM.stream`; `at_once`
                has all events come when the text has ended, which costs less.

        Raises:
            Nothing yet: what is refused is refused by the stream's `start`, or its first event.
        """
        return AsyncTextStream(self.llm, prompt, constraint, priority, options)

    async def generate(self, prompt: Prompt, constraint: Any = None, **options: Any) -> Generation:
        """As `LLM.generate`; arguments are those of `stream`.

        Raises:
            QueueFull: as many requests wait for the engine as may (`max_waiting`).
            Otherwise as `LLM.generate`.
        """
        return await self.stream(prompt, constraint, **options).result()

    @overload
    async def generate_json(self, prompt: Prompt, schema: type[T], **options: Any) -> T: ...
    @overload
    async def generate_json(self, prompt: Prompt, schema: Any, **options: Any) -> Any: ...
    async def generate_json(self, prompt: Prompt, schema: Any, **options: Any) -> Any:
        """As `LLM.generate_json`; options are those of `stream`."""
        return (await self.stream_json(prompt, schema, **options).result()).parsed

    def stream_json(self, prompt: Prompt, schema: Any, **options: Any) -> AsyncTextStream:
        """As `LLM.stream_json`; options are those of `stream`.

        Raises:
            SchemaError: what is no schema at all.
        """
        return self.stream(with_schema(prompt, read_schema(schema).description), schema, **options)

    async def reply(
        self,
        messages: Prompt,
        *,
        tools: Sequence[Any] = (),
        tool_choice: str | Mapping[str, Any] = "auto",
        parallel: bool = True,
        tool_format: str = "auto",
        constraint: Any = None,
        reasoning: bool | ReasoningOptions | None = None,
        priority: int = 0,
        **options: Any,
    ) -> Reply:
        """As `LLM.reply`; `priority` and options are those of `stream`."""
        return await self.stream_reply(
            messages, tools=tools, tool_choice=tool_choice, parallel=parallel, tool_format=tool_format, constraint=constraint,
            reasoning=reasoning, priority=priority, **options,
        ).result()  # fmt: skip

    def stream_reply(
        self,
        messages: Prompt,
        *,
        tools: Sequence[Any] = (),
        tool_choice: str | Mapping[str, Any] = "auto",
        parallel: bool = True,
        tool_format: str = "auto",
        constraint: Any = None,
        reasoning: bool | ReasoningOptions | None = None,
        priority: int = 0,
        **options: Any,
    ) -> AsyncReplyStream:
        """As `LLM.stream_reply`: `async for part in llm.stream_reply(...)`; what is refused is refused by the first part."""

        def plan() -> ReplyPlan:
            return self.llm.planner.plan(
                messages, tools=tools, tool_choice=tool_choice, parallel=parallel, tool_format=tool_format, content=constraint,
                reasoning=reasoning,
            )  # fmt: skip

        def text(made: ReplyPlan) -> AsyncTextStream:
            return self.stream(made.ids, made.constraint, priority=priority, **options)

        return AsyncReplyStream(plan, text)

    async def call_tool(
        self, messages: Prompt, tools: Sequence[Any], tool_choice: Any = "required", **options: Any
    ) -> ToolCall | None:
        """As `LLM.call_tool`."""
        reply = await self.reply(messages, tools=tools, tool_choice=tool_choice, parallel=False, **options)
        return reply.calls[0] if reply.calls else None

    async def run_tools(self, messages: Prompt, tools: Sequence[Any], *, max_steps: int = 8, **options: Any) -> ToolRun:
        """As `LLM.run_tools`.  Tools may be coroutine functions, which are awaited; others run in a thread; the calls of one
        answer are carried out side by side."""
        return await run_tools_async(self, messages, tools, max_steps, options)

    async def close(self, *, cancel: bool = False) -> None:
        """Takes no more requests and waits for those that are there, or cancels them.  The `LLM` decodes no more batches."""
        await asyncio.to_thread(self.llm.engine.stop, cancel=cancel)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, error: type[BaseException] | None, *rest: object) -> None:
        await self.close(cancel=error is not None)
