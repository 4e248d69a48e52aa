"""The errors that users meet, under one name each.

Grammar errors come from the grammar front ends and are handed on unchanged; the others belong to matching and to
generation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from grammars.errors import (
    EmptyLanguage,
    GrammarError,
    LarkError,
    LimitExceeded,
    RegexError,
    SchemaError,
    UnsupportedFeature,
)

if TYPE_CHECKING:
    from engine.sampling.errors import EmptyRow

__all__ = [
    "BatchError",
    "BudgetError",
    "EmptyLanguage",
    "EmptyRow",
    "GrammarError",
    "LarkError",
    "LimitExceeded",
    "RegexError",
    "ResultError",
    "SchemaError",
    "TokenRejected",
    "ToolStepsExceeded",
    "UnsupportedFeature",
]


class TokenRejected(ValueError):
    """A token was committed that the constraint does not allow here; the matcher is as it was before the call.

    Attributes:
        token_id: the refused token.
    """

    def __init__(self, message: str, token_id: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.token_id = token_id

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.message, self.token_id))


class BudgetError(ValueError):
    """`max_tokens` is too small for any sentence of the language; raised before the first token.

    Attributes:
        needed: the number of tokens, end token included, that a shortest sentence takes; `None` where not known.
        max_tokens: the budget that was given.
    """

    def __init__(self, message: str, needed: int | None = None, max_tokens: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.needed = needed
        self.max_tokens = max_tokens

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.message, self.needed, self.max_tokens))


class ResultError(ValueError):
    """A finished text that its grammar allows but the caller's type refuses, for example by a validator of its own.

    Attributes:
        text: the text that was generated.
    """

    def __init__(self, message: str, text: str) -> None:
        super().__init__(message)
        self.message = message
        self.text = text

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.message, self.text))


class BatchError(ExceptionGroup[Exception]):
    """Some generations of a batch failed while they were generated.

    Attributes:
        results: for each prompt its `Generation`, or the error that ended it.
    """

    results: Sequence[Any]

    def __new__(cls, message: str, exceptions: Sequence[Exception], results: Sequence[Any] = ()) -> Self:
        self = super().__new__(cls, message, exceptions)
        self.results = list(results)
        return self

    def derive(self, exceptions: Sequence[Exception]) -> BatchError:  # type: ignore[override]
        return BatchError(self.message, exceptions, self.results)


class ToolStepsExceeded(RuntimeError):
    """The model still calls tools where it was to have answered.

    Attributes:
        messages: the conversation so far, calls and results among it; another run may go on from there.
    """

    def __init__(self, message: str, messages: list[dict[str, Any]]) -> None:
        super().__init__(message)
        self.message = message
        self.messages = messages

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.message, self.messages))


def __getattr__(name: str) -> Any:
    # The engine's error is looked up late: masks alone need no engine.
    if name == "EmptyRow":
        from engine.sampling.errors import EmptyRow

        return EmptyRow
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
