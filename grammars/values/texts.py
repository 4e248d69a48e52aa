"""Regular languages as values: regular expressions, choices, free text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from grammars.errors import EmptyLanguage, GrammarError
from grammars.values.base import Grammar, check_text, one_of, texts

Dialect = Literal["python", "ecma"]


@dataclass(frozen=True, slots=True)
class Regex(Grammar):
    """Texts that match a regular expression from end to end.

    Attributes:
        pattern: the expression.
        dialect: `"python"` (the `re` module's) or `"ecma"` (ECMA-262 with the `u` flag, as JSON Schema has it).
        flags: `re.IGNORECASE | re.MULTILINE | re.DOTALL | re.ASCII | re.VERBOSE` as the dialect has them.
    """

    pattern: str
    dialect: Dialect = "python"
    flags: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.pattern, str):
            raise GrammarError(f"pattern={self.pattern!r} is not a string; of a compiled one give .pattern and .flags")
        one_of("dialect", self.dialect, get_args(Dialect))
        if not isinstance(self.flags, int):
            raise GrammarError(f"flags={self.flags!r} is not an integer")
        object.__setattr__(self, "flags", int(self.flags))


@dataclass(frozen=True, init=False)
class Choice(Grammar):
    """One of a few texts, exactly as given; repeats are dropped."""

    options: tuple[str, ...]

    def __init__(self, options: Iterable[str]) -> None:
        if isinstance(options, (str, bytes)):
            raise GrammarError("Choice takes a list of strings, not one string")
        unique = tuple(dict.fromkeys(options))
        for option in unique:
            check_text("Choice", option)
        if not unique:
            raise EmptyLanguage("Choice needs at least one string")
        object.__setattr__(self, "options", unique)


@dataclass(frozen=True, init=False)
class AnyText(Grammar):
    """Free text, the empty one included, in which no stop string occurs.

    `Sequence(AnyText(stop="</note>"), "</note>")` is text up to a stop string and the stop string itself.

    Attributes:
        stop: the strings that do not occur in it; none by default.
    """

    stop: tuple[str, ...]

    def __init__(self, stop: str | Iterable[str] = ()) -> None:
        object.__setattr__(self, "stop", texts("stop", stop))
