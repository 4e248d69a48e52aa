"""The body of `POST /v1/chat/completions`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, Strict, model_validator

from constrained.reasoning import ReasoningOptions
from constrained.server.parameters import (
    UNSUPPORTED,
    Count,
    Flag,
    GuidedParameters,
    ReasoningParameters,
    StreamOptions,
    TemplateVariables,
    wrong,
)
from grammars.values import ToolFormat

ToolFormatName = Literal["auto"] | ToolFormat


class ChatMessage(BaseModel):
    """One message; what a template may read beside these goes through."""

    model_config = ConfigDict(extra="allow")

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None
    name: str | None = None

    def plain(self) -> dict[str, Any]:
        """The message as the planner reads it; no field that was not sent."""
        message = self.model_dump(exclude_unset=True)
        if not message.get("tool_calls"):
            message.pop("tool_calls", None)
        return message


class ChatRequest(GuidedParameters):
    """What a chat completion is asked for; docs/server.md says what each parameter does."""

    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    model: str
    max_completion_tokens: Count | None = None
    max_tokens: Count | None = None
    n: Count = 1
    stream: Flag = False
    stream_options: StreamOptions | None = None
    logprobs: Flag = False
    top_logprobs: Annotated[int, Strict(), Field(ge=0, le=20)] | None = None
    response_format: dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: Flag = True
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    reasoning: ReasoningParameters | None = None
    tool_format: ToolFormatName = "auto"
    chat_template_kwargs: TemplateVariables | None = None
    user: str | None = None
    metadata: dict[str, Any] | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    service_tier: Literal["auto", "default"] | None = None

    refused: ClassVar = {
        **UNSUPPORTED,
        "audio": ((), "this model writes text"),
        "modalities": ((["text"],), "this model writes text"),
        "prediction": ((), "leave it out"),
        "web_search_options": ((), "nothing is fetched"),
        "functions": (([],), "send tools"),
        "function_call": ((), "send tool_choice"),
        "verbosity": (("medium",), "say it in a message"),
        "add_generation_prompt": ((True,), "the answer is a message of its own"),
        "continue_final_message": ((False,), "the answer is a message of its own"),
        "chat_template": ((), "templates come with the model"),
        "echo": ((False,), "answers hold what is generated"),
        "include_reasoning": ((True,), "thoughts are a field of their own"),
        "return_token_ids": ((False,), "the tokens of an answer are in its logprobs"),
    }

    @model_validator(mode="after")
    def _belong(self) -> ChatRequest:
        if self.top_logprobs is not None and not self.logprobs:
            raise wrong("top_logprobs", "top_logprobs needs logprobs=true")
        if self.stream_options is not None and not self.stream:
            raise wrong("stream_options", "stream_options needs stream=true")
        if self.tool_choice not in (None, "none", "auto") and not self.tools:
            raise wrong("tool_choice", "tool_choice needs tools")
        both = self.max_completion_tokens, self.max_tokens
        if None not in both and both[0] != both[1]:
            raise wrong("max_tokens", "max_completion_tokens and max_tokens say different things; give one")
        return self

    @property
    def limit(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens

    @property
    def top(self) -> int | None:
        return (self.top_logprobs or 0) if self.logprobs else None

    def thinking(self) -> ReasoningOptions | bool | None:
        """Whether thoughts are to come first; `None` leaves it to the model."""
        if self.reasoning is None:
            return False if self.reasoning_effort == "none" else None
        return self.reasoning.options()

    def template_variables(self) -> dict[str, Any]:
        """What the chat template is told beside messages and tools."""
        variables = dict(self.chat_template_kwargs or {})
        effort = self.reasoning_effort or (self.reasoning.effort if self.reasoning else None)
        if effort is not None:
            variables.setdefault("reasoning_effort", effort)
            variables.setdefault("enable_thinking", effort not in ("none", "minimal"))
        return variables
