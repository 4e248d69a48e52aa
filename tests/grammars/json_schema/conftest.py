"""An evaluator of shapes: decides from `Alternatives` alone whether a JSON value is accepted."""

from __future__ import annotations

import json
import lzma
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from grammars import JsonSchema
from grammars.json_schema import ArrayShape, FormatWarning, ObjectShape, Value, root_value
from grammars.json_schema.scalars import equality_key
from grammars.regular import matches

DATA = Path(__file__).parents[4] / "shared" / "data"


def number_text(value: float) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def holds(value: Value, document: Any) -> bool:
    """Whether `document` is one of the value's instances."""
    shapes = value.alternatives()
    if document is None or isinstance(document, bool):
        return json.dumps(document) in shapes.literals
    if isinstance(document, str):
        return matches(shapes.string, document)
    if isinstance(document, list):
        return any(holds_array(shape, document) for shape in shapes.arrays)
    if isinstance(document, dict):
        return any(holds_object(shape, document) for shape in shapes.objects)
    return matches(shapes.number, number_text(document))


def holds_array(shape: ArrayShape, items: list[Any]) -> bool:
    if len(items) < shape.min_items or (shape.max_items is not None and len(items) > shape.max_items):
        return False
    distinct = len({equality_key(item) for item in items}) == len(items)
    if (shape.unique and not distinct) or (shape.repeated and distinct):
        return False
    for index, item in enumerate(items):
        if not holds(shape.prefix[index] if index < len(shape.prefix) else shape.rest, item):
            return False
    for count in shape.counts:
        number = sum(holds(count.value, item) for item in items[count.start :])
        if number < count.least or (count.most is not None and number > count.most):
            return False
    return True


def holds_object(shape: ObjectShape, members: dict[str, Any]) -> bool:
    if len(members) < shape.min_properties:
        return False
    if shape.max_properties is not None and len(members) > shape.max_properties:
        return False
    declared = {prop.name: prop for prop in shape.properties}
    if any(prop.required and prop.name not in members for prop in shape.properties):
        return False
    for name, item in members.items():
        if name in declared:
            if not holds(declared[name].value, item):
                return False
        elif not any(matches(group.names, name) and holds(group.value, item) for group in shape.groups):
            return False
    return all(
        any(matches(witness.names, name) and holds(witness.value, item) for name, item in members.items())
        for witness in shape.witnesses
    )


def accepts(schema: Any, document: Any, **options: Any) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        return holds(root_value(JsonSchema(schema, **options)), document)


@pytest.fixture(name="accepts", scope="session")
def accepts_fixture() -> Callable[..., bool]:
    return accepts


@pytest.fixture(name="holds", scope="session")
def holds_fixture() -> Callable[[Value, Any], bool]:
    return holds


def recorded(name: str) -> Iterator[dict[str, Any]]:
    """Records of a data file beside the project; skips the test where it is missing."""
    path = DATA / name
    if not path.exists():
        pytest.skip(f"needs {path.name}")
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


@pytest.fixture(name="recorded", scope="session")
def recorded_fixture() -> Callable[[str], Iterator[dict[str, Any]]]:
    return recorded
