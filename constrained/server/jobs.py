"""A request on its way: planned in a thread, queued answer by answer, counted at its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from constrained.errors import BudgetError, GrammarError
from constrained.reasoning import ReasoningOptions
from constrained.replies import ReplyPlan
from constrained.server.answers import Answer, started
from constrained.server.errors import ApiError, as_api_error
from constrained.server.grammars import AskedGrammar, check_size
from constrained.server.parameters import GuidedParameters, SamplingParameters
from constrained.server.state import ServerState
from constrained.tools import Tool, read_tools
from engine.sampling import SamplingError
from grammars.effort import bounded
from grammars.values.tool_calls import ToolChoice

T = TypeVar("T")


@dataclass(frozen=True)
class Job:
    """The answers to one request, queued.

    Attributes:
        prompt_tokens: of the prompt, which all answers share.
    """

    answers: list[Answer]
    prompt_tokens: int
    state: ServerState

    def count(self) -> None:
        """Puts what became of the answers into the metrics."""
        for at, answer in enumerate(self.answers):
            self.state.metrics.answered(
                answer.generation,
                answer.finish_reason or "cancelled",
                prompt=self.prompt_tokens if at == 0 else 0,
                output=answer.output_tokens,
            )

    def usage(self) -> dict[str, Any]:
        """OpenAI's `usage`."""
        output = sum(answer.output_tokens for answer in self.answers)
        cached = [one.generation.metrics.cached_prompt_tokens for one in self.answers if one.generation is not None]
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": output,
            "total_tokens": self.prompt_tokens + output,
            "prompt_tokens_details": {"cached_tokens": min(cached, default=0)},
            "completion_tokens_details": {"reasoning_tokens": sum(answer.reasoning_tokens for answer in self.answers)},
        }


async def queued(
    state: ServerState,
    plan: ReplyPlan,
    request: GuidedParameters,
    *,
    max_tokens: int | None,
    default_max_tokens: int,
    choices: int,
    logprobs: int | None,
    whole: bool,
    at_once: bool,
    max_param: str = "max_tokens",
) -> Job:
    """Queues the answers to a planned request.

    Raises:
        ApiError: whatever is refused.
    """
    if choices > state.settings.max_choices:
        raise ApiError(400, f"n={choices} is more than {state.settings.max_choices}", param="n", code="invalid_value")
    config = state.llm.llm.model.config
    room = config.context_length - len(plan.ids)
    limit = max_tokens if max_tokens is not None else max(min(default_max_tokens, room), 1)
    try:
        answers = [
            Answer(
                state.llm,
                plan,
                request.sampling(choice, logprobs),
                limit,
                stops=request.stops,
                priority=request.priority,
                whole=whole,
                at_once=at_once,
            )
            for choice in range(choices)
        ]
        await started(answers)
    except Exception as error:
        refused = as_api_error(error)
        if isinstance(error, BudgetError):  # one of another size than the answer's is that of the thoughts
            refused.param = max_param if error.max_tokens in (None, limit) else "reasoning.max_tokens"
        elif isinstance(error, SamplingError):  # its message begins with the name, which is the parameter's
            name = str(error).partition(" ")[0]
            refused.param = name if name in SamplingParameters.model_fields else None
        raise refused from error
    return Job(answers, len(plan.ids), state)


async def planned(
    state: ServerState,
    messages: Sequence[Mapping[str, Any]],
    *,
    tools: Sequence[Mapping[str, Any]] | None,
    tool_choice: Any,
    parallel: bool,
    tool_format: str,
    content: AskedGrammar | None,
    reasoning: ReasoningOptions | bool | None,
    variables: Mapping[str, Any],
    messages_param: str = "messages",
) -> ReplyPlan:
    """Plans an answer to a conversation, in a thread.

    Raises:
        ApiError: whatever is refused, with its parameter.
    """
    settings = state.settings
    offered: list[Tool] = []
    if tools:
        if len(tools) > settings.max_tools:
            raise ApiError(
                400, f"{len(tools)} tools are more than {settings.max_tools}", param="tools", code="invalid_value"
            )
        check_size(tools, settings.max_grammar_bytes, "tools")
    planner = state.llm.llm.planner
    choice = "auto" if tool_choice is None else tool_choice

    def plan() -> ReplyPlan:
        if content is not None:
            content.check_places()
        for at, tool in enumerate(tools or ()):
            try:
                _check_kind(tool, at)
                [read] = read_tools([tool])
            except (GrammarError, TypeError, ValueError) as error:
                raise as_api_error(error, f"tools[{at}].function.parameters") from error
            offered.append(read)
        try:
            ToolChoice.of(choice, [tool.name for tool in offered])
        except GrammarError as error:
            raise ApiError(400, str(error), param="tool_choice", code="invalid_value") from error
        try:
            return planner.plan(
                messages,
                tools=offered,
                tool_choice=choice,
                parallel=parallel,
                tool_format=tool_format,
                content=None if content is None else content.grammar,
                reasoning=reasoning,
                chat_variables=variables,
            )
        except GrammarError as error:
            note = "".join(getattr(error, "__notes__", ()))
            named = next((at for at, one in enumerate(offered) if repr(one.name) in note), None)
            place = "tools" if content is None else content.param
            raise as_api_error(error, place if named is None else f"tools[{named}].function.parameters") from error
        except Exception as error:
            raise as_api_error(error, messages_param) from error

    return await in_time(state, plan)


async def in_time(state: ServerState, work: Callable[[], T]) -> T:
    """What `work` gives, in one of the threads for grammars and within the time that one grammar may take.

    Raises:
        LimitExceeded: it took longer.
    """
    limits = state.llm.llm.limits

    def bounded_work() -> T:
        with bounded(limits.step_searches, limits.step_seconds):
            return work()

    return await asyncio.get_running_loop().run_in_executor(state.planners, bounded_work)


def _check_kind(tool: Mapping[str, Any], at: int) -> None:
    kind = tool.get("type", "function")
    if kind != "function":
        place = f"tools[{at}].type"
        raise ApiError(400, f"{place} is {kind!r}; there are functions alone", param=place, code="invalid_value")
