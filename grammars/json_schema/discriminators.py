"""Which branches of a `oneOf` can have an object in common, where a required property tells most of them apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from grammars.json_schema.formulas import Node
from grammars.json_schema.number_algebra import listed_values
from grammars.json_schema.shapes import Alternatives, ObjectShape, Value
from grammars.regular import NONE, words

FEW_BRANCHES = 6
"""So many branches are compared one by one."""
_MOST_CONSTANTS = 40


def clashes(branches: Sequence[Alternatives]) -> list[Iterable[int]]:
    """For every branch the others that may have an object in common with it; a cheap look that leaves none out."""
    everybody = range(len(branches))
    if len(branches) > FEW_BRANCHES:
        for name in _required(branches[0].objects[:1]):
            constants = [_constants_of(branch.objects, name) for branch in branches]
            if None not in constants:
                return _sharing([found or set() for found in constants])
    return [[other for other in everybody if other != index] for index in everybody]


def _required(shapes: Iterable[ObjectShape]) -> Iterable[str]:
    return [prop.name for shape in shapes for prop in shape.properties if prop.required]


def _constants_of(shapes: Iterable[ObjectShape], name: str) -> set[object] | None:
    """The constants that the property has in these objects; `None` where it may be missing or may be more than that."""
    found = set[object]()
    for shape in shapes:
        prop = next((prop for prop in shape.properties if prop.name == name and prop.required), None)
        constants = None if prop is None else _constants(prop.value)
        if constants is None:
            return None
        found |= constants
    return found


def _constants(value: Value) -> set[object] | None:
    raw = cast(Node, value).raw()
    texts = [] if raw.string is NONE else words(raw.string, _MOST_CONSTANTS)
    numbers = [] if raw.number is NONE else listed_values(raw.number)
    if raw.arrays or raw.objects or texts is None or numbers is None:
        return None
    return {*texts, *numbers, *((literal,) for literal in raw.literals)}


def _sharing(constants: list[set[object]]) -> list[Iterable[int]]:
    holders: dict[object, list[int]] = {}
    for index, own in enumerate(constants):
        for constant in own:
            holders.setdefault(constant, []).append(index)
    return [
        sorted({other for constant in own for other in holders[constant]} - {index})
        for index, own in enumerate(constants)
    ]
