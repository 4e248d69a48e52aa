"""An answer in a conversation: thoughts, words, calls to tools; planned, read while it is written, checked at the end."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from constrained.compile import Constraint, check_grammar, compile
from constrained.errors import GrammarError, UnsupportedFeature
from constrained.messages import (
    described_tools,
    instruction,
    known_roles,
    plain_messages,
    spelled_messages,
)
from constrained.phases import Phases
from constrained.prompts import Prompt, with_instruction, with_schema
from constrained.reasoning import (
    ReasoningOptions,
    is_special,
    mark,
    marks_of,
    read_reasoning,
    template_switches,
    thinking_marks,
)
from constrained.results import Generation, StreamEvent
from constrained.schema_input import read_schema
from constrained.template_messages import encoded_chat, is_one_call_all, takes_calls, takes_tools
from constrained.tools import Tool, ToolCall, checked_call, read_tools
from engine.text import Text
from grammars import AnyText, Grammar, JsonSchema, Reasoning, Regex, ToolCalls
from grammars import Sequence as GrammarSequence
from grammars.tool_calls import (
    FORMATS,
    ArgumentsDelta,
    CallBegin,
    ContentDelta,
    Event,
    ReasoningDelta,
    format_of_template,
    reader_of,
)
from grammars.values import ToolFormat
from grammars.values.tool_calls import ToolChoice

if TYPE_CHECKING:
    from constrained.llm import LLM
    from constrained.vocabulary import Vocabulary


@dataclass(frozen=True)
class Reply:
    """A finished answer.

    Attributes:
        content: what is said; empty where only calls are made.
        reasoning: what was thought before.
        calls: calls to tools, their arguments checked.
        parsed: the checked value of `content` under a schema, where one was given and no call was made.
        generation: how it came about: all of the text, tokens, finish reason, metrics.
    """

    content: str
    reasoning: str
    calls: list[ToolCall]
    parsed: Any
    generation: Generation = field(repr=False)


@dataclass(frozen=True, eq=False)
class ReplyPlan:
    """What a model is asked, and the language that it may answer in.

    Attributes:
        ids: the prompt.
        grammar: of the whole answer; `None` leaves it free.
        constraint: the same compiled, with a budget for the thoughts where one was given.
        tools: those that may be called.
    """

    ids: list[int]
    grammar: Grammar | None
    constraint: Constraint | Phases | None
    tools: tuple[Tool, ...]
    vocabulary: Vocabulary = field(repr=False)
    parse: Callable[[str], Any] | None = field(default=None, repr=False)

    def reader(self) -> AnswerReader:
        """A fresh reader for one answer."""
        return AnswerReader(self.grammar, self.vocabulary)

    def finished(self, events: Sequence[Event], generation: Generation) -> Reply:
        """The answer that a whole text stands for.

        Raises:
            ResultError: a tool's type, or the schema's, refuses what its schema allows.
        """
        content = "".join(event.text for event in events if isinstance(event, ContentDelta))
        reasoning = "".join(event.text for event in events if isinstance(event, ReasoningDelta))
        whole = generation.finish_reason != "cancelled"
        calls = []
        for begin in (event for event in events if isinstance(event, CallBegin)):
            deltas = (event for event in events if isinstance(event, ArgumentsDelta) and event.index == begin.index)
            if whole:
                arguments = "".join(delta.text for delta in deltas)
                calls.append(checked_call(self.tools, begin.name, arguments, generation))
        parsed = self.parse(content) if self.parse is not None and whole and not calls else None
        return Reply(content, reasoning, calls, parsed, generation)


class AnswerReader:
    """Events of a text stream as parts of an answer."""

    def __init__(self, grammar: Grammar | None, vocabulary: Vocabulary) -> None:
        self._reader = reader_of(grammar)
        names = special_marks(grammar)
        self._special = {vocabulary.special_tokens[name]: name for name in names}

    def push(self, event: StreamEvent) -> list[Event]:
        """What one token adds."""
        name = self._special.get(event.token_id)
        return self._reader.feed(event.text) if name is None else self._reader.feed_special(name)

    def close(self, rest: str = "") -> list[Event]:
        """What the end adds; `rest` is text that no event held."""
        return (self._reader.feed(rest) if rest else []) + self._reader.close()


def special_marks(grammar: Grammar | None) -> list[str]:
    """The tokens of the vocabulary itself that the answer may hold."""
    if isinstance(grammar, Reasoning):
        own = [one.name for one in (grammar.start, grammar.end) if not isinstance(one, str)]
        return own + special_marks(grammar.then if isinstance(grammar.then, Grammar) else None)
    return list(grammar.special) if isinstance(grammar, ToolCalls) else []


class Planner:
    """Plans answers of one model."""

    def __init__(self, llm: LLM) -> None:
        self._llm = llm

    @property
    def _text(self) -> Text:
        return self._llm.text

    @cached_property
    def tool_format(self) -> ToolFormat | None:
        """The format that the model's chat template teaches; `None` where it teaches none."""
        for name in ("tool_use", "default"):
            template = self._text.chat_templates.get(name)
            found = None if template is None else format_of_template(template.source)
            if found is not None:
                return found
        return None

    def plan(
        self,
        prompt: Prompt,
        *,
        tools: Sequence[Any] = (),
        tool_choice: Any = "auto",
        parallel: bool = True,
        tool_format: ToolFormat | str = "auto",
        content: Any = None,
        reasoning: bool | ReasoningOptions | None = None,
        chat_variables: Mapping[str, Any] | None = None,
    ) -> ReplyPlan:
        """See `LLM.reply`; `content` is its `constraint`.

        Raises:
            GrammarError: a tool, a choice, or a grammar that cannot be.
            TextError: the chat template refuses the messages.
        """
        offered = read_tools(tools) if tools else []
        grammar, parse = self._content(content)
        options = read_reasoning(reasoning)
        choice = ToolChoice.of(tool_choice, [tool.name for tool in offered]) if offered else ToolChoice("none")
        calls = self._calls(offered, tool_choice, parallel, tool_format, grammar, choice.mode) if offered else None
        if calls is None and self.tool_format == "harmony":
            calls = ToolCalls((), "harmony", "none", content=grammar, special=self._special("harmony"))
        if calls is not None and reasoning is False:
            calls = replace(calls, thoughts=False)
        if content is not None and grammar is not None and isinstance(grammar, JsonSchema):
            prompt = with_schema(prompt, read_schema(content).description)
        variables = {**template_switches(reasoning), **(chat_variables or {})}
        ids = self._encode(prompt, offered, calls, choice.names, variables)
        if reasoning is False:
            ids = self._without_begun_thoughts(ids)
        whole: Grammar | None = grammar if calls is None else calls
        if whole is None and reasoning is False:
            whole = self._thoughtless(ids)
        harmony = calls is not None and calls.format == "harmony"
        if harmony and options is not None and options.max_tokens is not None:
            raise UnsupportedFeature("a limit of the reasoning alone is not available in the format 'harmony'")
        constraint: Constraint | Phases | None
        if harmony or (options is None and not self._thinks_by_itself(reasoning, ids)):
            constraint = None if whole is None else self._compiled(whole)
        else:
            asked = ReasoningOptions(optional=True) if options is None else options
            whole, constraint = self._thinking(asked, whole, ids, is_free=options is None and whole is None)
        return ReplyPlan(ids, whole, constraint, tuple(offered), self._llm.vocabulary, parse)

    def _content(self, content: Any) -> tuple[Grammar | None, Callable[[str], Any] | None]:
        if content is None:
            return None, None
        if isinstance(content, Grammar) and not isinstance(content, JsonSchema):
            check_grammar(content)
            return content, None
        source = read_schema(content)
        check_grammar(source.grammar)
        return source.grammar, source.parse

    def _calls(
        self, tools: Sequence[Tool], choice: Any, parallel: bool, format: str, content: Grammar | None, mode: str
    ) -> ToolCalls:
        for tool in tools:
            try:
                check_grammar(tool.grammar)
            except GrammarError as error:
                error.add_note(f"in the parameters of tool {tool.name!r}")
                raise
        written: Any = format
        if format == "auto":
            written = self.tool_format
            if (
                written is None
            ):  # nothing is taught: what small models write best, unless that cannot be told from content
                written = "hermes" if content is not None and mode == "auto" else "json"
        return ToolCalls(
            tools,
            written,
            choice,
            parallel and not is_one_call_all(self._text),
            content if mode != "required" else None,
            self._special(written),
        )

    def _special(self, format: str) -> list[str]:
        marks = FORMATS[format].marks if format in FORMATS else ()  # type: ignore[index]
        return [name for name in marks if is_special(self._llm.vocabulary, name)]

    def _encode(
        self,
        prompt: Prompt,
        tools: Sequence[Tool],
        calls: ToolCalls | None,
        named: tuple[str, ...] | None,
        variables: Mapping[str, Any],
    ) -> list[int]:
        text = self._text
        messages = known_roles(plain_messages(prompt), text)
        if tools and calls is not None:
            if takes_tools(text) and calls.format == self.tool_format:
                return encoded_chat(text, messages, described_tools(tools), variables)
            messages = with_instruction(messages, instruction(tools, calls, named))
        if takes_calls(text):
            return encoded_chat(text, messages, None, variables)
        return self._llm.encode_messages(spelled_messages(messages), **variables)

    def _thinks_by_itself(self, reasoning: bool | ReasoningOptions | None, ids: Sequence[int]) -> bool:
        """Whether the model may begin to think without being asked to; a prompt that has ended its thoughts is not."""
        marks = thinking_marks(self._text)
        return reasoning is None and marks is not None and not self._end_of(ids).endswith(marks[1])

    def _thoughtless(self, ids: Sequence[int]) -> Grammar | None:
        """Free text that does not begin with thoughts; `None` where it would not do so anyway."""
        marks = thinking_marks(self._text)
        if marks is None or self._end_of(ids).endswith(marks[1]):
            return None
        return (
            AnyText() if is_special(self._llm.vocabulary, marks[0]) else Regex(rf"(?!\s*{re.escape(marks[0])})[\s\S]*")
        )

    def _without_begun_thoughts(self, ids: list[int]) -> list[int]:
        """The prompt with its thoughts ended, where the template has begun them."""
        marks = thinking_marks(self._text)
        if marks is None or not self._end_of(ids).endswith(marks[0]):
            return ids
        return [*ids, *self._text.encode(f"\n{marks[1]}\n\n", False)]

    def _compiled(self, grammar: Grammar) -> Constraint:
        return compile(grammar, self._llm.vocabulary, self._llm.limits)

    def _end_of(self, ids: Sequence[int]) -> str:
        return self._text.decode(ids[-16:], skip_special_tokens=False).rstrip()

    def _thinking(
        self, options: ReasoningOptions, then: Grammar | None, ids: Sequence[int], *, is_free: bool
    ) -> tuple[Reasoning, Constraint | Phases | None]:
        """The grammar of thoughts and answer, and its constraint; none where the text `is_free`, and the thoughts only read."""
        start, end = marks_of(self._text, options)
        vocabulary = self._llm.vocabulary
        begun = self._end_of(ids).endswith(start)
        whole = Reasoning(
            then=AnyText() if then is None else then,
            start="" if begun else mark(vocabulary, start),
            end=mark(vocabulary, end),
            optional=options.optional and not begun,
        )
        if is_free:
            return whole, None
        if options.max_tokens is None:
            return whole, self._compiled(whole)
        thought = AnyText(stop=end) if isinstance(whole.end, str) else AnyText()
        first = GrammarSequence(whole.start, thought, whole.end)
        answer = GrammarSequence(Regex(rf"\n{{0,{whole.gap}}}"), whole.then)
        return whole, Phases(self._compiled(first), options.max_tokens, self._compiled(answer))
