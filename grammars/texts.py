"""Grammars that say their texts themselves, as regular languages."""

from __future__ import annotations

from grammars.regex import parse
from grammars.regular import Rx, literals
from grammars.values.texts import Choice, Regex


def language(value: Regex | Choice) -> Rx:
    """The texts of an expression or of a list.

    Raises:
        GrammarError: the expression is malformed, or not regular.
    """
    return literals(value.options) if isinstance(value, Choice) else parse(value.pattern, value.dialect, value.flags)
