"""Shapes without some of their instances."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from grammars.json_schema.shapes import ArrayShape, ObjectShape


@dataclass(frozen=True, slots=True)
class ArrayBut:
    """Arrays of a shape other than the excluded ones, all of which are of the shape (keys, see `constants`)."""

    shape: ArrayShape
    excluded: frozenset[Hashable]


@dataclass(frozen=True, slots=True)
class ObjectBut:
    """Objects of a shape other than the excluded ones, all of which are of the shape (keys, see `constants`)."""

    shape: ObjectShape
    excluded: frozenset[Hashable]
