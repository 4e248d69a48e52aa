"""Errors of the grammar front ends.

Every error names the place in the source, what was found there, and what would be right.  They live here because the
front ends raise them; `constrained` hands them out under the same names.
"""

from __future__ import annotations


class GrammarError(ValueError):
    """A grammar that cannot be compiled; the message ends with the remedy where there is one."""


class _PlacedError(GrammarError):
    """An error with a place: a JSON pointer and keyword in a schema, or an index into a regular expression."""

    def __init__(
        self, message: str, pointer: str | None = None, keyword: str | None = None, position: int | None = None
    ) -> None:
        place = ""
        if pointer is not None:
            place = f" (at #{pointer}" + (f"/{keyword})" if keyword is not None else ")")
        elif keyword is not None:
            place = f" (at keyword {keyword!r})"
        if position is not None:
            place += f" (at position {position})"
        super().__init__(message + place)
        self.message = message
        self.pointer = pointer
        self.keyword = keyword
        self.position = position

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.message, self.pointer, self.keyword, self.position))


class SchemaError(_PlacedError):
    """A JSON Schema that is malformed.

    Attributes:
        pointer: JSON pointer of the offending subschema (`""` is the root).
        keyword: the offending keyword, or `None` where the subschema itself is wrong.
    """


class UnsupportedFeature(_PlacedError):
    """Something legal in the source language that this engine refuses rather than weakens.

    Attributes:
        pointer, keyword: the place in a JSON Schema, else `None`.
        position: the place in a regular expression, else `None`.
    """


class EmptyLanguage(_PlacedError):
    """A grammar that no text satisfies, so that nothing could ever be generated."""


class LimitExceeded(_PlacedError):
    """A compile or a request that went past one of its bounds (states, depth, time, bytes); says which and where."""


class RegexError(GrammarError):
    """A regular expression that does not parse.

    Attributes:
        pattern: the expression.
        position: 0-based index into `pattern`.
    """

    def __init__(self, message: str, pattern: str, position: int) -> None:
        super().__init__(f"{message} at position {position} of {pattern!r}")
        self.message = message
        self.pattern = pattern
        self.position = position

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.message, self.pattern, self.position))


class LarkError(GrammarError):
    """A Lark or GBNF grammar that does not load.

    Attributes:
        line, column: 1-based place in the grammar text.
    """

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"{message} (line {line}, column {column})")
        self.message = message
        self.line = line
        self.column = column

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.message, self.line, self.column))
