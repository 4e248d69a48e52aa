"""`POST /v1/responses`: structured output and function tools in the form of OpenAI's newer route.

Nothing is kept between requests: `store`, `previous_response_id`, `conversation` and `background` are refused.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, Strict, model_validator

from constrained.server.errors import ApiError
from constrained.server.grammars import grammar_of
from constrained.server.jobs import Job, planned, queued
from constrained.server.parameters import (
    UNSUPPORTED,
    Count,
    Flag,
    GuidedParameters,
    Parameters,
    ReasoningParameters,
    StreamOptions,
    TemplateVariables,
    wrong,
)
from constrained.server.response_events import streamed_response, whole_response
from constrained.server.state import ServerState

__all__ = ["ResponseRequest", "response_job", "streamed_response", "whole_response"]

LOGPROBS = "message.output_text.logprobs"
"""What may be included."""


class TextParameters(Parameters):
    """`text`: the form of the text."""

    format: dict[str, Any] | None = None

    refused: ClassVar = {"verbosity": (("medium",), "say it in a message")}


class ResponseRequest(GuidedParameters):
    """What a response is asked for."""

    model: str
    input: str | list[dict[str, Any]]
    instructions: str | None = None
    text: TextParameters | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: Flag = True
    max_output_tokens: Count | None = None
    reasoning: ReasoningParameters | None = None
    stream: Flag = False
    stream_options: StreamOptions | None = None
    include: list[str] | None = None
    top_logprobs: Annotated[int, Strict(), Field(ge=0, le=20)] | None = None
    truncation: Literal["disabled"] | None = None
    chat_template_kwargs: TemplateVariables | None = None
    user: str | None = None
    metadata: dict[str, Any] | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    service_tier: Literal["auto", "default"] | None = None

    refused: ClassVar = {
        **UNSUPPORTED,
        "background": ((False,), "answers come while they are waited for"),
        "conversation": ((), "nothing is kept; send the whole conversation as input"),
        "previous_response_id": ((), "nothing is kept; send the whole conversation as input"),
        "context_management": ((), "nothing is kept"),
        "max_tool_calls": ((), "tools are called by the client"),
        "prompt": ((), "send input"),
    }

    @model_validator(mode="after")
    def _belong(self) -> ResponseRequest:
        for one in self.include or ():
            if one != LOGPROBS:
                raise wrong("include", f"include is {one!r}; there is {LOGPROBS}")
        if self.top_logprobs and not self.include:
            raise wrong("top_logprobs", f'top_logprobs needs include=["{LOGPROBS}"]')
        if self.stream_options is not None and not self.stream:
            raise wrong("stream_options", "stream_options needs stream=true")
        return self

    @property
    def top(self) -> int | None:
        """Tokens beside the one drawn whose log-probabilities are wanted; `None`: not even its own is."""
        return (self.top_logprobs or 0) if self.include else None

    def messages(self) -> list[dict[str, Any]]:
        """The conversation as chat messages.

        Raises:
            ApiError: an item that cannot be read.
        """
        begin = [] if self.instructions is None else [{"role": "system", "content": self.instructions}]
        if isinstance(self.input, str):
            return [*begin, {"role": "user", "content": self.input}]
        messages: list[dict[str, Any]] = begin
        names: dict[str, str] = {}
        for at, item in enumerate(self.input):
            try:
                _add_item(messages, item, names)
            except (KeyError, TypeError) as error:
                raise ApiError(400, f"input[{at}] lacks {error}", param=f"input[{at}]", code="invalid_value") from None
            except ValueError as error:
                raise ApiError(400, f"input[{at}]: {error}", param=f"input[{at}]", code="invalid_value") from None
        return messages


def _add_item(messages: list[dict[str, Any]], item: dict[str, Any], names: dict[str, str]) -> None:
    kind = item.get("type", "message")
    if kind == "message":
        messages.append({"role": item["role"], "content": item["content"]})
    elif kind == "function_call":
        call = {
            "id": item["call_id"],
            "type": "function",
            "function": {"name": item["name"], "arguments": item["arguments"]},
        }
        names[item["call_id"]] = item["name"]
        if messages and messages[-1]["role"] == "assistant" and messages[-1].get("tool_calls"):
            messages[-1]["tool_calls"].append(call)
        else:
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
    elif kind == "function_call_output":
        message = {"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]}
        if item["call_id"] in names:
            message["name"] = names[item["call_id"]]
        messages.append(message)
    elif kind != "reasoning":  # thoughts of earlier turns are not read again
        raise ValueError(f"items of type {kind!r} are not read here")


async def response_job(state: ServerState, request: ResponseRequest) -> Job:
    """Plans and queues what a request asks for.

    Raises:
        ApiError: whatever is refused.
    """
    form = None if request.text is None else request.text.format
    asked = grammar_of(request, form, state.settings.max_grammar_bytes, "text.format")
    variables = dict(request.chat_template_kwargs or {})
    if request.reasoning is not None and request.reasoning.effort is not None:
        variables.setdefault("reasoning_effort", request.reasoning.effort)
        variables.setdefault("enable_thinking", request.reasoning.effort not in ("none", "minimal"))
    plan = await planned(
        state,
        request.messages(),
        tools=request.tools,
        tool_choice=request.tool_choice,
        parallel=request.parallel_tool_calls,
        tool_format="auto",
        content=asked,
        reasoning=None if request.reasoning is None else request.reasoning.options(),
        variables=variables,
        messages_param="input",
    )
    return await queued(
        state,
        plan,
        request,
        max_tokens=request.max_output_tokens,
        default_max_tokens=state.settings.default_max_tokens,
        choices=1,
        logprobs=request.top,
        whole=asked is not None,
        at_once=not request.stream,
        max_param="max_output_tokens",
    )
