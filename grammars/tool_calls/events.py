"""What a reader finds in a text as it grows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ContentDelta:
    """More of what is said to the user."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """More of what is thought before."""

    text: str


@dataclass(frozen=True, slots=True)
class CallBegin:
    """A call begins; its number counts from 0."""

    index: int
    name: str


@dataclass(frozen=True, slots=True)
class ArgumentsDelta:
    """More of the call's arguments: what came so far is the beginning of a JSON object."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class CallEnd:
    """The arguments of the call are whole."""

    index: int


class ToolTextError(ValueError):
    """A text that is not of the format."""


Event = ContentDelta | ReasoningDelta | CallBegin | ArgumentsDelta | CallEnd
