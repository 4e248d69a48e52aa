"""Lark grammars, loaded by Lark itself, as context-free grammars over regular terminals.

`load` gives the grammar in numbers.  What a terminal takes from a text is Python's `re` to the letter: see
`preferred_match`.  The `lark` library is imported when a grammar is loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grammars.lark.warned import CollisionWarning, LarkWarning

if TYPE_CHECKING:
    from grammars.context_free import ContextFree
    from grammars.values import Lark

__all__ = ["CollisionWarning", "LarkWarning", "load"]


def load(value: Lark) -> ContextFree:
    """The grammar in numbers: rules after Lark's own expansion, terminals as what they take from a text.

    Raises:
        LarkError: Lark refuses the grammar, or a regular expression is none; with line and column.
        UnsupportedFeature: a terminal is not regular, or looks at the text before it; an embedded grammar under
            `lexer="contextual"`.
        EmptyLanguage: no text is a sentence.
        LimitExceeded: a terminal is too large.
    """
    from grammars.lark.loading import loaded

    return loaded(value)
