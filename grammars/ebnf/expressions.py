"""What a rule may say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from grammars.regular import EPSILON, Rx
from grammars.values import Grammar


@dataclass(frozen=True, slots=True)
class Text:
    """A text of a regular language."""

    language: Rx


@dataclass(frozen=True, slots=True)
class Foreign:
    """A grammar of another kind, or a special token.

    Attributes:
        written: how the author wrote it, for messages.
    """

    value: Grammar
    written: str


@dataclass(frozen=True, slots=True)
class Reference:
    """A rule by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class Concatenation:
    """Items one after the other."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Alternatives:
    """Any one of the options."""

    options: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """The body from `least` to `most` times; `None`: without end."""

    body: Expression
    least: int
    most: int | None


Expression: TypeAlias = Text | Foreign | Reference | Concatenation | Alternatives | Repeat

EMPTY = Text(EPSILON)
"""The empty text."""


@dataclass(frozen=True, slots=True)
class Definition:
    """What a rule stands for, and the line that it stands on."""

    expression: Expression
    line: int | None = None


def parts(expression: Expression) -> tuple[Expression, ...]:
    """What an expression is made of."""
    if isinstance(expression, Concatenation):
        return expression.items
    if isinstance(expression, Alternatives):
        return expression.options
    return (expression.body,) if isinstance(expression, Repeat) else ()
