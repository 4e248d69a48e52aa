"""Lark grammars, loaded by Lark itself, as context-free grammars over regular terminals.

`load` gives the grammar in numbers.  What a terminal takes from a text is Python's `re` to the letter: see
`preferred_match`.
"""

from __future__ import annotations

from grammars.lark.collisions import CollisionWarning
from grammars.lark.loading import LarkWarning, load

__all__ = ["CollisionWarning", "LarkWarning", "load"]
