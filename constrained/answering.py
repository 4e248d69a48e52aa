"""The part of `LLM` that answers: thoughts, words and tool calls instead of one text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from constrained.prompts import Prompt
from constrained.reasoning import ReasoningOptions
from constrained.replies import Planner, Reply
from constrained.reply_streams import ReplyStream
from constrained.tool_loop import ToolRun, run_tools
from constrained.tools import ToolCall

if TYPE_CHECKING:
    from constrained.llm import LLM


class Answering:
    """What `LLM` is besides; see docs/tools.md."""

    @property
    def _llm(self) -> LLM:
        return cast("LLM", self)

    def reply(
        self,
        messages: Prompt,
        *,
        tools: Sequence[Any] = (),
        tool_choice: str | Mapping[str, Any] = "auto",
        parallel: bool = True,
        tool_format: str = "auto",
        constraint: Any = None,
        reasoning: bool | ReasoningOptions | None = None,
        **options: Any,
    ) -> Reply:
        """An answer that may think, speak and call tools; see docs/tools.md.

        Args:
            tools: as in `call_tool`.
            tool_choice: `"auto"`: words, or words and calls; `"required"`: calls; `"none"`: words; `{"name": ...}`: one call
                to that tool.
            parallel: whether several calls may be made at once.
            tool_format: how calls are written: one of `grammars.values.ToolFormat`; `"auto"` goes by the chat template.
            constraint: of what is said where no call is made; as in `generate`.
            reasoning: true, or `ReasoningOptions`: thoughts come before the answer; false: none do.  `None`: they may, where the
                chat template is that of a model which thinks by itself.
            options: those of `generate`.

        Raises:
            SchemaError: a tool that cannot be read, or a choice that names none.
            UnsupportedFeature: a parameter schema that is not supported, or a combination that cannot be told apart.
            Otherwise as `generate_json`.
        """
        return self.stream_reply(
            messages, tools=tools, tool_choice=tool_choice, parallel=parallel, tool_format=tool_format, constraint=constraint,
            reasoning=reasoning, **options,
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
        **options: Any,
    ) -> ReplyStream:
        """The parts of `reply` as they come (`grammars.tool_calls.Event`): of words, thoughts, and calls with their arguments.

        Raises:
            As `reply`; everything that can be refused is refused here.
        """
        plan = self.planner.plan(
            messages, tools=tools, tool_choice=tool_choice, parallel=parallel, tool_format=tool_format, content=constraint,
            reasoning=reasoning,
        )  # fmt: skip
        return ReplyStream(plan, self._llm.stream(plan.ids, plan.constraint, **options))

    def call_tool(
        self, messages: Prompt, tools: Sequence[Any], tool_choice: Any = "required", **options: Any
    ) -> ToolCall | None:
        """One call to one of `tools`, its arguments checked; `None` where the model may answer in words, and does.

        Args:
            tools: Python functions (signature and docstring say what they take); classes with fields (Pydantic models,
                dataclasses, TypedDicts); or dicts with `name`, `description` and `parameters`, alone or in
                `{"type": "function", "function": ...}`.
            tool_choice: `"required"`: any of them; `{"name": ...}`: that one; `"auto"`: any or none.
            options: those of `reply`, which also hands back what is said.

        Raises:
            As `reply`.
        """
        calls = self.reply(messages, tools=tools, tool_choice=tool_choice, parallel=False, **options).calls
        return calls[0] if calls else None

    def run_tools(self, messages: Prompt, tools: Sequence[Any], *, max_steps: int = 8, **options: Any) -> ToolRun:
        """Answers with the help of tools: calls are carried out and their results read, until the model speaks.

        Args:
            tools: functions, or classes with fields.
            max_steps: most answers of the model.
            options: those of `reply`.

        Raises:
            ToolStepsExceeded: the model still calls tools in the last of them.
            Exception: what a tool raises.
            Otherwise as `reply`.
        """
        return run_tools(self._llm, messages, tools, max_steps, options)

    @cached_property
    def planner(self) -> Planner:
        """Plans answers for this model, as `reply` and the server ask for them."""
        return Planner(self._llm)
