"""Readers of whole answers: thoughts first, then text or calls."""

from __future__ import annotations

from grammars.tool_calls.events import ContentDelta, Event, ReasoningDelta, ToolTextError
from grammars.tool_calls.reading import CallReader, Reader
from grammars.values import Grammar, Reasoning, SpecialToken, ToolCalls


def reader_of(grammar: Grammar | str | None) -> Reader:
    """A fresh reader for texts of `grammar`: of thoughts under a `Reasoning`, of calls under `ToolCalls`, else of plain text."""
    if isinstance(grammar, Reasoning):
        return ReasoningReader(grammar)
    return CallReader.of(grammar) if isinstance(grammar, ToolCalls) else TextReader(())


class TextReader(Reader):
    """All of it is content."""

    def _step(self, events: list[Event]) -> bool:
        if self._text:
            events.append(ContentDelta(self._text))
            self._text = ""
        return False

    def _end(self, events: list[Event]) -> None:
        pass


class ReasoningReader(Reader):
    """Thoughts between the marks of a `Reasoning`, then what its `then` reads."""

    def __init__(self, value: Reasoning) -> None:
        super().__init__(one.name for one in (value.start, value.end) if isinstance(one, SpecialToken))
        self._start, self._stop = (
            self._marks[one.name] if isinstance(one, SpecialToken) else one for one in (value.start, value.end)
        )
        self._optional = value.optional
        self._gap = value.gap
        self._state = "start" if self._start else "thought"
        self._then = reader_of(value.then if isinstance(value.then, Grammar) else None)

    def feed_special(self, name: str) -> list[Event]:
        skipped = self._state == "gap" or (self._state == "start" and self._optional)
        if name not in self._marks and skipped and not self._text:
            self._state = "then"
        return self._then.feed_special(name) if self._state == "then" else super().feed_special(name)

    def _step(self, events: list[Event]) -> bool:
        step: bool = getattr(self, f"_read_{self._state}")(events)
        return step

    def _read_start(self, events: list[Event]) -> bool:
        if self._optional and self._text and not self._start.startswith(self._text[: len(self._start)]):
            self._state = "then"
            return True
        if not self._take(self._start):
            return False
        self._state = "thought"
        return True

    def _read_thought(self, events: list[Event]) -> bool:
        thought = self._before(self._stop)
        if thought:
            events.append(ReasoningDelta(thought))
        if not self._take(self._stop):
            return False
        self._state = "gap"
        return True

    def _read_gap(self, events: list[Event]) -> bool:
        while self._gap and self._text.startswith("\n"):
            self._text, self._gap = self._text[1:], self._gap - 1
        if not self._text:
            return False
        self._state = "then"
        return True

    def _read_then(self, events: list[Event]) -> bool:
        text, self._text = self._text, ""
        events.extend(self._then.feed(text))
        return False

    def _end(self, events: list[Event]) -> None:
        if self._state == "thought" and self._text:
            events.append(ReasoningDelta(self._text))
        elif self._state == "start" and self._text:
            if not self._optional:
                raise ToolTextError(f"{self._shown(self._text)} is no beginning of reasoning")
            events.extend(self._then.feed(self._text))
        events.extend(self._then.close())
