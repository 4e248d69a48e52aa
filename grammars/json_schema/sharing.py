"""Keys by which small subschemas of different schemas are known to be the same position.

A key lists the assertions of a subschema without its annotations.  Only what refers to nothing, cannot fail and is
small gets one: then neither the place nor the document it stands in matters.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from grammars.json_schema.drafts import Draft, asserts_formats
from grammars.json_schema.reader import TYPES
from grammars.memory import forgets
from grammars.values import Formats

if TYPE_CHECKING:
    from grammars.json_schema.formulas import Node

MAX_SHARED = 20_000

_MAX_NODES = 40
_MAX_KEYWORDS = 24
_MAX_ENUM = 24
_MAX_TEXT = 400

# `format` has a key where it is certain to be known; the others may warn, and warnings name their place.
_FORMATS = frozenset({
    "date-time", "date", "time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6", "uri",
    "uri-reference", "iri", "iri-reference", "uri-template", "uuid", "json-pointer", "relative-json-pointer", "regex",
})  # fmt: skip

_Check = Callable[[Any], object]


def _type(value: Any) -> object:
    if type(value) is str:
        return value if value in TYPES else None
    if type(value) is list and value and all(type(name) is str and name in TYPES for name in value):
        return tuple(value)
    return None


def _enum(value: Any) -> object:
    if type(value) is not list or not 0 < len(value) <= _MAX_ENUM:
        return None
    if not all(item is None or type(item) in (str, int, bool) for item in value):
        return None
    if sum(len(item) for item in value if type(item) is str) > _MAX_TEXT:
        return None
    return tuple([(type(item) is bool, item) for item in value])


def _const(value: Any) -> object:
    if value is None or type(value) in (int, bool, Decimal) or (type(value) is str and len(value) <= _MAX_TEXT):
        return (type(value) is bool, value)
    return None


def _natural(value: Any) -> object:
    return value if type(value) is int and value >= 0 else None


def _number(value: Any) -> object:
    return value if type(value) in (int, Decimal) else None


def _names(value: Any) -> object:
    if type(value) is list and len(value) <= _MAX_ENUM and all(type(name) is str for name in value):
        return tuple(value)
    return None


_LEAVES: dict[str, _Check] = {
    "type": _type, "enum": _enum, "const": _const, "required": _names,
    "minLength": _natural, "maxLength": _natural, "minItems": _natural, "maxItems": _natural,
    "minimum": _number, "maximum": _number,
}  # fmt: skip
_CHILDREN = frozenset({"items", "additionalProperties"})


class Sharing:
    """The shared positions of one draft under one treatment of formats."""

    __slots__ = ("_asserted", "_asserted_formats", "_formats", "_leaves", "nodes")

    def __init__(self, draft: Draft, formats: Formats) -> None:
        self.nodes: dict[tuple[object, ...], Node] = {}
        self._formats = formats
        # What stays an annotation is warned of at each place, and so is what nobody knows.
        self._asserted_formats = asserts_formats(draft, formats)
        # `$schema` inside would change the draft.
        self._asserted = draft.keywords | {"$schema"}
        self._leaves = {keyword: check for keyword, check in _LEAVES.items() if keyword in draft.keywords}

    def keep(self, key: tuple[object, ...], node: Node) -> None:
        """Record a shared position; a full table starts afresh, which costs sharing and nothing else."""
        if len(self.nodes) >= MAX_SHARED:
            self.nodes.clear()
        self.nodes[key] = node

    def key(self, schema: dict[str, Any]) -> tuple[object, ...] | None:
        """The key of a subschema, `()` if it asserts nothing, `None` if it is to be kept apart."""
        return self._key(schema, [_MAX_NODES]) if len(schema) <= _MAX_KEYWORDS else None

    def _key(self, schema: dict[str, Any], room: list[int]) -> tuple[object, ...] | None:
        found: list[object] = []
        leaves, asserted = self._leaves, self._asserted
        for keyword, value in schema.items():
            check = leaves.get(keyword)
            part: object
            if check is not None:
                part = check(value)
            elif keyword not in asserted:
                continue
            elif keyword == "properties":
                part = self._properties(value, room)
            elif keyword in _CHILDREN:
                part = self._child(value, room)
            elif keyword == "format" and type(value) is str:
                if self._formats == "annotate":
                    continue
                part = value if value in _FORMATS and self._asserted_formats else None
            else:
                return None
            if part is None:
                return None
            found += (keyword, part)
        room[0] -= len(found)
        return tuple(found) if room[0] >= 0 else None

    def _child(self, value: Any, room: list[int]) -> object:
        if type(value) is bool:
            return (value,)
        return self._key(value, room) if type(value) is dict and room[0] > 0 else None

    def _properties(self, value: Any, room: list[int]) -> object:
        if type(value) is not dict or 4 * len(value) > room[0]:
            return None
        found: list[object] = []
        for name, child in value.items():
            part = self._child(child, room)
            if part is None:
                return None
            found += (name, part)
        return tuple(found)


_TABLES: dict[tuple[Draft, Formats], Sharing] = {}


@forgets
def _forget() -> None:
    for table in [*_TABLES.values()]:
        table.nodes.clear()


def sharing(draft: Draft, formats: Formats) -> Sharing:
    """The table of a draft and a treatment of formats."""
    table = _TABLES.get((draft, formats))
    if table is None:
        table = _TABLES[draft, formats] = Sharing(draft, formats)
    return table
