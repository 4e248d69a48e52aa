"""What is said of grammars that are legal."""

from __future__ import annotations


class LarkWarning(UserWarning):
    """Something in a Lark grammar that is legal and hardly meant."""


class CollisionWarning(UserWarning):
    """Two terminals of one priority match a text in common; which of them is taken is a matter of Lark's order."""
