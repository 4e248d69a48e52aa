"""Grammars made of other grammars."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from grammars.errors import EmptyLanguage, GrammarError
from grammars.values.base import Grammar, check_text, texts
from grammars.values.texts import AnyText


@dataclass(frozen=True, slots=True)
class SpecialToken(Grammar):
    """A token of the vocabulary itself (`<|im_end|>`), whatever its text: no other token spells it.

    Attributes:
        name: as the tokenizer lists it; `""` where the number says which.
        number: its id.
    """

    name: str = ""
    number: int | None = None

    def __post_init__(self) -> None:
        if self.number is None:
            if not check_text("SpecialToken", self.name):
                raise GrammarError("a special token has a name that is not empty, or a number")
        elif self.name or not isinstance(self.number, int) or self.number < 0:
            raise GrammarError(f"a special token has a name or a number, not {self.name!r} and {self.number!r}")


Part = Grammar | str
"""What a grammar may be made of: another grammar, or a text that stands for itself."""


def part(option: str, value: object) -> Part:
    """The value, if it is a grammar or a text."""
    if isinstance(value, Grammar):
        return value
    if isinstance(value, str):
        return check_text(option, value)
    raise GrammarError(f"{option} is made of grammars and strings, not of {value!r}")


@dataclass(frozen=True, init=False)
class Sequence(Grammar):
    """One part after the other, nothing between them; strings stand for themselves."""

    parts: tuple[Part, ...]

    def __init__(self, *parts: Part) -> None:
        object.__setattr__(self, "parts", tuple(part("Sequence", one) for one in parts))


@dataclass(frozen=True, init=False)
class OneOf(Grammar):
    """Any one of the options; strings stand for themselves, repeats are dropped."""

    options: tuple[Part, ...]

    def __init__(self, *options: Part) -> None:
        if not options:
            raise EmptyLanguage("OneOf needs at least one option")
        object.__setattr__(self, "options", tuple(dict.fromkeys(part("OneOf", one) for one in options)))


@dataclass(frozen=True, init=False)
class Repeat(Grammar):
    """A part several times, with a separator between.

    Attributes:
        part: what is repeated.
        least, most: how often; `None` sets no end.
        separator: what stands between.
    """

    part: Part
    least: int
    most: int | None
    separator: Part

    def __init__(self, part_: Part, least: int = 0, most: int | None = None, separator: Part = "") -> None:
        if (
            not isinstance(least, int)
            or least < 0
            or (most is not None and (not isinstance(most, int) or most < least))
        ):
            raise GrammarError(f"Repeat from {least!r} to {most!r} times; pass 0 <= least <= most, or most=None")
        put = object.__setattr__
        put(self, "part", part("Repeat", part_))
        put(self, "least", least)
        put(self, "most", most)
        put(self, "separator", part("separator", separator))


@dataclass(frozen=True, init=False)
class Phrases(Grammar):
    """Texts of a grammar that contain every required phrase and no banned one, wherever the tokens' borders fall.

    Attributes:
        required: phrases that all occur, in any order; they may overlap.
        banned: phrases that do not occur.
        within: the grammar that the text is of; any text by default.
    """

    required: tuple[str, ...]
    banned: tuple[str, ...]
    within: Part

    def __init__(
        self, required: str | Iterable[str] = (), banned: str | Iterable[str] = (), within: Part | None = None
    ) -> None:
        put = object.__setattr__
        put(self, "required", texts("required", required))
        put(self, "banned", texts("banned", banned))
        put(self, "within", AnyText() if within is None else part("within", within))


@dataclass(frozen=True, init=False)
class Reasoning(Grammar):
    """Free text between two marks, in which the second does not occur, and then a grammar.

    Attributes:
        then: the grammar of what follows.
        start, end: the marks, as text or as `SpecialToken`; `start` is `""` where the prompt ends with it already.
        gap: how many line breaks may stand between the end mark and what follows, at most.
        optional: whether `then` may come without any reasoning before it.
    """

    then: Part
    start: str | SpecialToken
    end: str | SpecialToken
    gap: int
    optional: bool

    def __init__(
        self,
        then: Part,
        start: str | SpecialToken = "<think>",
        end: str | SpecialToken = "</think>",
        gap: int = 2,
        optional: bool = False,
    ) -> None:
        for option, mark in (("start", start), ("end", end)):
            if not isinstance(mark, SpecialToken):
                check_text(option, mark)
        if end == "":
            raise GrammarError("end='' ends no reasoning; give the mark behind it")
        if not isinstance(gap, int) or gap < 0:
            raise GrammarError(f"gap={gap!r} is not a number of line breaks")
        put = object.__setattr__
        put(self, "then", part("then", then))
        put(self, "start", start)
        put(self, "end", end)
        put(self, "gap", gap)
        put(self, "optional", bool(optional))
