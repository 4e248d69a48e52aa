"""Calls out of the text that a `ToolCalls` value admits, while it is written: exact, since the grammar is known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from grammars.tool_calls.arguments import JsonArguments, KeywordArguments
from grammars.tool_calls.events import (
    ArgumentsDelta,
    CallBegin,
    CallEnd,
    ContentDelta,
    Event,
    ReasoningDelta,
    ToolTextError,
)
from grammars.tool_calls.formats import layout_of
from grammars.tool_calls.tagged import TaggedArguments
from grammars.values import ToolCalls

_FIRST_MARK: Final = 0xD800
"""Special tokens are read as halves of surrogate pairs, which no text holds."""


class Reader:
    """Reads a text that comes in pieces; special tokens come by their names.

    `feed` and `feed_special` hand back what the piece settles; `close` what the end of the text does.
    """

    def __init__(self, special: Iterable[str]) -> None:
        self._marks = {name: chr(_FIRST_MARK + at) for at, name in enumerate(special)}
        self._text = ""

    def feed(self, text: str) -> list[Event]:
        """Takes more of the text.

        Raises:
            ToolTextError: it is not of the format.
        """
        self._text += text
        events: list[Event] = []
        while self._step(events):
            pass
        return _joined(events)

    def feed_special(self, name: str) -> list[Event]:
        """Takes a special token; as `feed`."""
        if name not in self._marks:
            raise ToolTextError(f"the special token {name} is no part of the format")
        return self.feed(self._marks[name])

    def close(self) -> list[Event]:
        """The text is at its end, perhaps before it was whole."""
        events: list[Event] = []
        self._end(events)
        return events

    def _step(self, events: list[Event]) -> bool:
        """Takes what can be settled from the front of the text; whether that was anything."""
        raise NotImplementedError

    def _end(self, events: list[Event]) -> None:
        raise NotImplementedError

    def _as_read(self, text: str) -> str:
        for name, mark in self._marks.items():
            text = text.replace(name, mark)
        return text

    def _take(self, expected: str) -> bool:
        """Takes `expected` from the front, once it is there whole."""
        if self._text.startswith(expected):
            self._text = self._text[len(expected) :]
            return True
        if not expected.startswith(self._text):
            raise ToolTextError(f"{self._shown(self._text)} is found where {self._shown(expected)} was to come")
        return False

    def _before(self, mark: str) -> str:
        """Takes what certainly stands before the next `mark`, all of it where the mark is there."""
        at = self._text.find(mark)
        if at < 0:
            at = len(self._text) - overlap(self._text, mark)
        taken, self._text = self._text[:at], self._text[at:]
        return taken

    def _shown(self, text: str) -> str:
        for name, mark in self._marks.items():
            text = text.replace(mark, name)
        return repr(text[:60])


class CallReader(Reader):
    """Reads what a `ToolCalls` value admits, in any format but Harmony's; `CallReader.of` takes whichever fits."""

    def __init__(self, value: ToolCalls) -> None:
        super().__init__(value.special)
        self._format = value.format
        self._tools = {tool.name: tool for tool in value.tools}
        layout = layout_of(value)
        self._layout = replace(
            layout,
            begin=self._as_read(layout.begin),
            before_name=self._as_read(layout.before_name),
            lead=self._as_read(layout.lead) if layout.lead in value.special else "",
            name_id=self._as_read(layout.name_id),
            before_arguments=self._as_read(layout.before_arguments),
            after=self._as_read(layout.after),
            between=self._as_read(layout.between),
            end=self._as_read(layout.end),
            trigger=self._as_read(layout.trigger),
        )
        self._parallel = value.parallel
        self._is_apart = value.content is not None
        self._state = "content" if value.tool_choice != "required" else "begin"
        self._calls = value.tool_choice != "none"
        self._started = False
        self._index = -1
        self._arguments: JsonArguments | KeywordArguments | TaggedArguments = JsonArguments()

    @staticmethod
    def of(value: ToolCalls) -> Reader:
        """A fresh reader of the value's format."""
        return HarmonyReader(value) if value.format == "harmony" else CallReader(value)

    def _step(self, events: list[Event]) -> bool:
        step: bool = getattr(self, f"_read_{self._state}")(events)
        return step

    def _read_content(self, events: list[Event]) -> bool:
        trigger = self._layout.trigger
        if not self._text:
            return False
        if not self._calls or self._started:
            return self._say_all(events)
        if not trigger:
            if self._text[0] in (*self._layout.leading, self._layout.lead):
                self._state = "begin"
                return True
            return self._say_all(events)
        if self._is_apart:  # what begins as content is content to its end
            if self._text.startswith(trigger):
                self._state = "begin"
                return True
            return False if trigger.startswith(self._text) else self._say_all(events)
        self._say(events, self._before(trigger))
        if self._text.startswith(trigger):
            self._state = "begin"
            return True
        return False

    def _read_begin(self, events: list[Event]) -> bool:
        if self._layout.lead and self._text.startswith(self._layout.lead):
            self._text = self._text[len(self._layout.lead) :]
        if not self._take(self._layout.begin):
            return False
        self._state = "gap" if self._layout.gap else "name_mark"
        return True

    def _read_gap(self, events: list[Event]) -> bool:
        if not self._text:
            return False
        if self._text.startswith(" "):
            self._text = self._text[1:]
        if not self._take("["):
            return False
        self._state = "name_mark"
        return True

    def _read_name_mark(self, events: list[Event]) -> bool:
        if not self._take(self._layout.before_name):
            return False
        self._state = "name"
        return True

    def _read_name(self, events: list[Event]) -> bool:
        at = self._text.find(self._layout.before_arguments)
        if at < 0:
            return False
        name = self._text[:at]
        if self._layout.name_id:
            name = name.partition(self._layout.name_id)[0]
        if name not in self._tools:
            raise ToolTextError(f"{name[:60]!r} is called; the tools are {', '.join(sorted(self._tools))}")
        self._text = self._text[at + len(self._layout.before_arguments) :]
        self._index += 1
        self._arguments = self._arguments_of(name)
        events.append(CallBegin(self._index, name))
        self._state = "arguments"
        return True

    def _read_arguments(self, events: list[Event]) -> bool:
        if not self._text:
            return False
        written, count = self._arguments.take(self._text)
        self._text = self._text[count:]
        if written:
            events.append(ArgumentsDelta(self._index, written))
        if self._arguments.is_whole:
            events.append(CallEnd(self._index))
            self._state = "after"
        return self._arguments.is_whole

    def _arguments_of(self, name: str) -> JsonArguments | KeywordArguments | TaggedArguments:
        if self._format == "qwen3_coder":
            return TaggedArguments(self._tools[name])
        return KeywordArguments() if self._format == "pythonic" else JsonArguments()

    def _read_after(self, events: list[Event]) -> bool:
        before, behind = self._layout.arguments_id
        if before and self._text:
            if self._text.startswith(before):
                _, found, rest = self._text[len(before) :].partition(behind)
                if not found:
                    return False
                self._text = rest
            elif before.startswith(self._text):
                return False
        if not self._take(self._layout.after):
            return False
        self._state = "next"
        return True

    def _read_next(self, events: list[Event]) -> bool:
        """Behind a call: another one, or the end."""
        if not self._text:
            return False
        layout = self._layout
        another = layout.between + layout.before_name
        if layout.end and layout.end.startswith(self._text[: len(layout.end)]):
            if self._take(layout.end):
                self._state = "done"
                return True
            return False
        if self._parallel and another.startswith(self._text[: len(another)]):
            if self._take(layout.between):
                self._state = "name_mark"
                return True
            return False
        raise ToolTextError(f"{self._shown(self._text)} is found behind a call")

    def _read_done(self, events: list[Event]) -> bool:
        if self._text:
            raise ToolTextError(f"{self._shown(self._text)} is found behind the last call")
        return False

    def _end(self, events: list[Event]) -> None:
        if self._state == "content":
            self._say_all(events)

    def _say_all(self, events: list[Event]) -> bool:
        self._started = True
        self._say(events, self._text)
        self._text = ""
        return False

    def _say(self, events: list[Event], text: str) -> None:
        if text:
            events.append(ContentDelta(text))


class HarmonyReader(Reader):
    """Reads the channels of gpt-oss: `analysis` is reasoning, a call stands in `commentary`, all else is content."""

    def __init__(self, value: ToolCalls) -> None:
        super().__init__(value.special)
        self._names = {tool.name for tool in value.tools}
        self._channel, self._message, self._stop = (
            self._as_read(mark) for mark in ("<|channel|>", "<|message|>", "<|end|>")
        )
        self._next = self._as_read("<|start|>assistant")
        self._state = "header"
        self._thinks = False
        self._arguments = JsonArguments()

    def _step(self, events: list[Event]) -> bool:
        step: bool = getattr(self, f"_read_{self._state}")(events)
        return step

    def _read_next(self, events: list[Event]) -> bool:
        if self._take(self._next):
            self._state = "header"
            return True
        return False

    def _read_header(self, events: list[Event]) -> bool:
        at = self._text.find(self._message)
        if at < 0:
            return False
        header, self._text = self._text[:at], self._text[at + len(self._message) :]
        name = header.removeprefix(self._channel)
        called = header.partition(" to=functions.")[2].partition(self._channel)[0].partition(" ")[0]
        if called:
            if called not in self._names:
                raise ToolTextError(f"{called[:60]!r} is called; the tools are {', '.join(sorted(self._names))}")
            events.append(CallBegin(0, called))
            self._state = "call"
        elif name in ("analysis", "commentary", "final"):
            self._thinks, self._state = name == "analysis", "final" if name == "final" else "message"
        else:
            raise ToolTextError(f"{self._shown(header)} is no channel of the format")
        return True

    def _read_message(self, events: list[Event]) -> bool:
        text = self._before(self._stop)
        if text:
            events.append(ReasoningDelta(text) if self._thinks else ContentDelta(text))
        if self._text.startswith(self._stop):
            self._text = self._text[len(self._stop) :]
            self._state = "next"
            return True
        return False

    def _read_final(self, events: list[Event]) -> bool:
        """The last message ends with the text."""
        if self._text:
            events.append(ContentDelta(self._text))
            self._text = ""
        return False

    def _read_call(self, events: list[Event]) -> bool:
        if not self._text:
            return False
        written, count = self._arguments.take(self._text)
        self._text = self._text[count:]
        events.append(ArgumentsDelta(0, written))
        if self._arguments.is_whole:
            events.append(CallEnd(0))
            self._state = "done"
        return True

    def _read_done(self, events: list[Event]) -> bool:
        if self._text:
            raise ToolTextError(f"{self._shown(self._text)} is found behind the call")
        return False

    def _end(self, events: list[Event]) -> None:
        if self._state == "message" and self._text:
            events.append(ReasoningDelta(self._text) if self._thinks else ContentDelta(self._text))
            self._text = ""


def read_calls(value: ToolCalls, pieces: Iterable[str]) -> tuple[str, list[tuple[str, str]]]:
    """Content and calls, as (name, arguments as JSON), of a whole text without special tokens.

    Raises:
        ToolTextError: the text is not of the format.
    """
    reader = CallReader.of(value)
    events = [event for piece in pieces for event in reader.feed(piece)] + reader.close()
    content = "".join(event.text for event in events if isinstance(event, ContentDelta))
    names = [event.name for event in events if isinstance(event, CallBegin)]
    arguments = ["" for _ in names]
    for event in events:
        if isinstance(event, ArgumentsDelta):
            arguments[event.index] += event.text
    return content, list(zip(names, arguments, strict=True))


def overlap(text: str, mark: str) -> int:
    """How many characters at the end of `text` may be the beginning of `mark`."""
    for length in range(min(len(mark) - 1, len(text)), 0, -1):
        if text.endswith(mark[:length]):
            return length
    return 0


def _joined(events: list[Event]) -> list[Event]:
    """Neighbouring deltas of one kind as one."""
    joined: list[Event] = []
    for event in events:
        last = joined[-1] if joined else None
        if isinstance(event, ContentDelta) and isinstance(last, ContentDelta):
            joined[-1] = ContentDelta(last.text + event.text)
        elif isinstance(event, ReasoningDelta) and isinstance(last, ReasoningDelta):
            joined[-1] = ReasoningDelta(last.text + event.text)
        elif isinstance(event, ArgumentsDelta) and isinstance(last, ArgumentsDelta) and last.index == event.index:
            joined[-1] = ArgumentsDelta(last.index, last.text + event.text)
        else:
            joined.append(event)
    return joined
